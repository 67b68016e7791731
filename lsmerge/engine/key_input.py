"""Keys as users give them: values, tuples, mappings, or anything Arrow."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from lsmerge.engine.ingest import normalise
from lsmerge.errors import SchemaMismatchError
from lsmerge.rowkind import RowKind
from lsmerge.schema import TableSchema


def key_batch(schema: TableSchema, keys: Any) -> pa.RecordBatch:
    """Keys in any accepted form as one batch of the primary key columns."""
    names = schema.primary_key
    # A delete row is all key: that is what makes the other columns free to be absent.
    rows = normalise(as_key_data(keys, names), schema, names, default_kind=RowKind.DELETE)
    batches = [batch.select(list(names)) for batch, _ in rows]
    if batches:
        return pa.concat_batches(batches)
    fields = pa.schema([schema.row_schema.field(name) for name in names])
    return pa.RecordBatch.from_pylist([], schema=fields)


def as_key_data(keys: Any, names: Sequence[str]) -> Any:
    """Python values as columns; mappings of columns and anything Arrow are passed on."""
    if not isinstance(keys, list | tuple | set | frozenset | range):
        return keys
    rows = [_as_tuple(key, names) for key in keys]
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def _as_tuple(key: Any, names: Sequence[str]) -> tuple[Any, ...]:
    if isinstance(key, Mapping):
        if set(key) != set(names):
            raise SchemaMismatchError(f"key {key!r}: give exactly the columns {', '.join(names)}")
        return tuple(key[name] for name in names)
    values = tuple(key) if isinstance(key, tuple | list) else (key,)
    if len(values) != len(names):
        raise SchemaMismatchError(
            f"key {key!r}: give {len(names)} values, for the columns {', '.join(names)}"
        )
    return values
