"""The order of a key's rows before arrival decides."""

from dataclasses import dataclass

from lsmerge.options import TableOptions

# Above every sequence number: a merge with the oldest rows, ordered by arrival, may forget all retracts.
FORGET_ALL = 2**62


@dataclass(frozen=True, slots=True)
class RowOrder:
    """Columns that order rows, null oldest; rows that tie are ordered by arrival."""

    columns: tuple[str, ...] = ()
    descending: bool = False


ARRIVAL = RowOrder()


def sequence_order(options: TableOptions) -> RowOrder:
    """The order of `sequence.field`."""
    return RowOrder(options.sequence_field, options.sequence_descending)
