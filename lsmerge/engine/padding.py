"""`sequence.auto-padding`: a coarse sequence, refined by the row kind and by arrival.

    sequence 7, 7.-D, 7   ->   (7, retract), (7, first add), (7, second add)

A sequence counts as a whole number: fractions are cut off, timestamps are taken to the millisecond, or to the second
with second-to-micro, and text is read as a number. What ties then is ordered by row kind if row-kind-flag is
given before the unit, and by arrival: the counter that fills up the microseconds.
"""

import pyarrow as pa

from lsmerge.errors import InvalidOptionError, SchemaMismatchError
from lsmerge.merge.order import RowOrder
from lsmerge.options import TableOptions
from lsmerge.schema import TableSchema
from lsmerge.types import TEXT_KINDS

UNITS = ("second-to-micro", "millis-to-micro")
_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")
_TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ")
ACCEPTED_KINDS = (*_NUMBERS, *_TIMES, *TEXT_KINDS)


def check_padding(schema: TableSchema, options: TableOptions) -> None:
    """Refuse paddings that contradict each other or the sequence column."""
    paddings = options.sequence_auto_padding
    if not paddings:
        return
    option = f"option 'sequence.auto-padding' = {','.join(paddings)!r}"
    if len(options.sequence_field) != 1:
        raise InvalidOptionError(f"{option}: name one column in sequence.field")
    if len(set(paddings)) < len(paddings) or set(UNITS) <= set(paddings):
        raise InvalidOptionError(f"{option}: give each once, and one of {', '.join(UNITS)}")
    column = schema.column(options.sequence_field[0])
    if column.type.kind not in ACCEPTED_KINDS:
        raise InvalidOptionError(
            f"{option}: type {column.type} of sequence column {column.name!r} is no number; accepted: "
            f"{', '.join(ACCEPTED_KINDS)}"
        )


def check_sequence(batch: pa.RecordBatch, order: RowOrder) -> None:
    """Refuse rows with system columns whose padded sequence has no value. Requires: one ordering column."""
    if order.padding is None:
        return
    (name,) = order.columns
    values = batch.column(name)
    if values.null_count:
        row = values.is_null().index(pa.scalar(True)).as_py()
        raise _refused(name, f"value null at row {row}")
    try:
        whole_numbers(values, order.padding.unit)
    except pa.ArrowInvalid as error:
        raise _refused(name, str(error)) from error


def whole_numbers(values: pa.Array, unit: str) -> pa.Array:
    """What the values of a sequence column compare by; timestamps are cut off at `unit`."""
    import pyarrow.compute as pc

    if pa.types.is_timestamp(values.type):
        return values if values.type.unit == "s" else pc.floor_temporal(values, unit=unit)
    if pa.types.is_string(values.type):
        return values.cast(pa.int64())
    if pa.types.is_floating(values.type):
        # 0.0 + -0.0 is 0.0: what was cut off a negative fraction leaves no sign.
        return pc.add(pc.trunc(values), pa.scalar(0.0, values.type))
    if pa.types.is_decimal(values.type):
        return pc.trunc(values)
    return values


def add_flags(kinds: pa.Array) -> pa.Array:
    """1 for adds, 0 for retracts, as int8."""
    import pyarrow.compute as pc

    one = pa.scalar(1, pa.int8())
    return pc.bit_wise_xor(pc.bit_wise_and(kinds, one), one)


def _refused(name: str, found: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"column {name!r} of sequence.field: {found}; with sequence.auto-padding every row needs a number or a time"
    )
