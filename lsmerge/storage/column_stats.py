"""Null count, minimum and maximum of each scalar column of each block.

Encoded as one Arrow record batch message with a row per block and, for each scalar (not nested)
column of the file in order, the columns `min`, `max` (of the column's type) and `null_count`
(int64). A null min or max means unknown: all values null, a float column with NaN, a value longer
than MAX_VALUE_BYTES, or not measured.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

MAX_VALUE_BYTES = 64


class ColumnStats(NamedTuple):
    """Bounds of one column in one block; an invalid (null) min or max scalar is unknown."""

    min: pa.Scalar
    max: pa.Scalar
    null_count: int


def is_measured(field: pa.Field | pa.Array) -> bool:
    """Whether a column has statistics at all."""
    return not pa.types.is_nested(field.type)


def stats_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of the encoded statistics of a file with this schema."""
    return pa.schema(
        column
        for field in schema
        if is_measured(field)
        for column in (
            pa.field("min", field.type),
            pa.field("max", field.type),
            pa.field("null_count", pa.int64()),
        )
    )


def measure(batch: pa.RecordBatch, *, strings: bool) -> list[ColumnStats]:
    """The statistics of one block; `strings` False leaves the bounds of strings and binaries
    unknown.

    Comparing a million short strings takes as long as writing them uncompressed, which is not worth
    it for runs that are soon compacted away.
    """
    return [
        measure_column(column) if strings or not _is_variable(column.type) else unmeasured(column)
        for column in batch.columns
        if is_measured(column)
    ]


def encode_stats(schema: pa.Schema, blocks: Sequence[Sequence[ColumnStats]]) -> pa.Buffer:
    """All statistics of a file as a record batch message."""
    columns = stats_schema(schema)
    cells = [[cell for stats in block for cell in stats] for block in blocks]
    arrays = [
        pa.array([row[i] for row in cells], type=field.type) for i, field in enumerate(columns)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=columns).serialize()


def unmeasured(column: pa.Array) -> ColumnStats:
    """Nothing but how many values are null."""
    unknown = pa.scalar(None, type=column.type)
    return ColumnStats(unknown, unknown, column.null_count)


def measure_column(column: pa.Array) -> ColumnStats:
    """The statistics of one column, which is measured."""
    import pyarrow.compute as pc

    # NaN compares with nothing, so bounds would promise something about rows they do not cover.
    if pa.types.is_floating(column.type) and math.isnan(pc.sum(column).as_py() or 0.0):
        return unmeasured(column)
    bounds = pc.min_max(column)
    low, high = (_short(bounds[side]) for side in ("min", "max"))
    return ColumnStats(low, high, column.null_count)


def _short(value: pa.Scalar) -> pa.Scalar:
    if not value.is_valid or not _is_bytes_like(value.type):
        return value
    is_short = len(value.as_buffer()) <= MAX_VALUE_BYTES
    return value if is_short else pa.scalar(None, type=value.type)


def _is_variable(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_binary(type_))


def _is_bytes_like(type_: pa.DataType) -> bool:
    return _is_variable(type_) or bool(pa.types.is_fixed_size_binary(type_))
