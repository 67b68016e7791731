"""Columns by field id: what a file holds, in the shape that a reader wants.

A column keeps its id for life, so a file written before a column was renamed, added, dropped or
widened is read through ids alone; names in files are for foreign readers.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import pyarrow as pa

from lsmerge.errors import SchemaMismatchError
from lsmerge.rowkind import KIND_COLUMN, SEQUENCE_COLUMN
from lsmerge.schema import FIELD_ID_KEY

ALWAYS_SET = (KIND_COLUMN, SEQUENCE_COLUMN)


def field_id(column: pa.Field) -> int:
    """The id in a field's metadata; ValueError if it has none."""
    try:
        return int(column.metadata[FIELD_ID_KEY])
    except (KeyError, TypeError):
        raise ValueError(f"column {column.name!r} has no field id in its metadata") from None


def positions_by_id(schema: pa.Schema) -> dict[int, int]:
    """Where each field id is in the schema; ValueError if two columns share one."""
    ids = [field_id(column) for column in schema]
    positions = {number: position for position, number in enumerate(ids)}
    if len(positions) != len(ids):
        raise ValueError(f"field ids repeat: {ids}")
    return positions


class Projection(NamedTuple):
    """Which columns of a file become those that a reader wants; made once and not for every block."""

    wanted: pa.Schema
    places: tuple[int | None, ...]  # of the wanted columns, None if the file has none
    positions: list[int]  # what is read
    stored: pa.Schema  # what is read, under the wanted names
    is_plain: bool  # whether that is what is wanted, as it is
    always_set: tuple[int, ...]  # of the wanted columns, those of which every row has a value

    @classmethod
    def of(cls, wanted: pa.Schema, stored: pa.Schema, by_id: Mapping[int, int]) -> Self:
        """`by_id` says where the field ids are in `stored`."""
        places = tuple(by_id.get(field_id(column)) for column in wanted)
        positions = [place for place in places if place is not None]
        types = [stored.field(position).type for position in positions]
        always_set = tuple(n for n, name in enumerate(wanted.names) if name in ALWAYS_SET)
        if types and types == wanted.types:
            return cls(wanted, places, positions, wanted, True, always_set)
        names = [
            name for name, place in zip(wanted.names, places, strict=True) if place is not None
        ]
        read = pa.schema(list(zip(names, types, strict=True)))
        return cls(wanted, places, positions, read, False, always_set)

    def apply(self, num_rows: int, found: Sequence[pa.Array]) -> pa.RecordBatch:
        """The wanted columns of a block whose columns at `positions` are `found`."""
        rest = iter(found)
        return project(
            self.wanted, num_rows, [None if place is None else next(rest) for place in self.places]
        )


def project(wanted: pa.Schema, num_rows: int, arrays: Sequence[pa.Array | None]) -> pa.RecordBatch:
    """A batch with exactly the schema `wanted`: columns of which there is no array are null."""
    columns = [_conform(*pair, num_rows) for pair in zip(wanted, arrays, strict=True)]
    if not columns:  # only a struct array can have rows without columns
        return pa.RecordBatch.from_struct_array(
            pa.Array.from_buffers(pa.struct([]), num_rows, [None])
        )
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def _conform(column: pa.Field, array: pa.Array | None, num_rows: int) -> pa.Array:
    if array is None:
        return pa.nulls(num_rows, column.type)
    if array.type == column.type:
        return array
    try:
        return array.cast(column.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaMismatchError(
            f"column {column.name!r} was written as {array.type} and cannot be read as "
            f"{column.type}: {error}"
        ) from error
