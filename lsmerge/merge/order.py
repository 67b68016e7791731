"""The order of a key's rows before arrival decides."""

from dataclasses import dataclass

from lsmerge.options import TableOptions

# Above every sequence number: a merge with the oldest rows, ordered by arrival, may forget all retracts.
FORGET_ALL = 2**62


@dataclass(frozen=True, slots=True)
class Padding:
    """How a coarse sequence is compared: timestamps cut off at `unit`, and then retracts first, or by arrival alone."""

    unit: str
    retracts_first: bool


@dataclass(frozen=True, slots=True)
class RowOrder:
    """Columns that order rows, null oldest; rows that tie are ordered by arrival."""

    columns: tuple[str, ...] = ()
    descending: bool = False
    padding: Padding | None = None


ARRIVAL = RowOrder()


def sequence_order(options: TableOptions) -> RowOrder:
    """The order of `sequence.field`."""
    return RowOrder(options.sequence_field, options.sequence_descending, _padding(options))


def _padding(options: TableOptions) -> Padding | None:
    paddings = options.sequence_auto_padding
    if not paddings:
        return None
    # Behind a unit the flag would only tell rows apart that arrived as one: there are none.
    return Padding(
        unit="second" if "second-to-micro" in paddings else "millisecond",
        retracts_first=paddings[0] == "row-kind-flag",
    )
