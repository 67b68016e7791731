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


def as_key_data(keys: Any, key: Sequence[str], ordering: Sequence[str] = ()) -> Any:
    """Python values and arrays as columns; mappings of columns and anything else of Arrow are passed on.

    `ordering` are the columns that a delete needs beside the key, since it has its place in their order.
    """
    names = (*key, *ordering)
    if isinstance(keys, pa.Array | pa.ChunkedArray) and len(names) == 1:
        return {names[0]: keys}
    if hasattr(keys, "tolist") and getattr(keys, "ndim", 1) == 1:
        keys = keys.tolist()
    if not isinstance(keys, list | tuple | set | frozenset | range):
        return keys
    rows = [_as_tuple(values, names, ordering) for values in keys]
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def _as_tuple(key: Any, names: Sequence[str], ordering: Sequence[str]) -> tuple[Any, ...]:
    if isinstance(key, Mapping):
        if set(key) != set(names):
            raise _wrong_columns(key, f"exactly the columns {', '.join(names)}", ordering)
        return tuple(key[name] for name in names)
    values = tuple(key) if isinstance(key, tuple | list) else (key,)
    if len(values) != len(names):
        wanted = f"{len(names)} values, for the columns {', '.join(names)}"
        raise _wrong_columns(key, wanted, ordering)
    return values


def _wrong_columns(key: Any, wanted: str, ordering: Sequence[str]) -> SchemaMismatchError:
    reason = f"; rows are ordered by {', '.join(ordering)}, deletes too" if ordering else ""
    return SchemaMismatchError(f"key {key!r}: give {wanted}{reason}")
