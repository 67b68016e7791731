"""Changes as JSON documents in the envelope that Debezium made common: before, after, op, ts_ms.

    {"before": null | row, "after": row | null, "op": "c" | "u" | "d", "ts_ms": time of the commit,
     "source": {"snapshot_id": number}}

One document per change; a -U and the +U of the same key directly behind it make one update. This works row by row,
for consumers that want text.
"""

import base64
import json
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa

from lsmerge.errors import SchemaMismatchError
from lsmerge.rowkind import (
    COMMIT_TIMESTAMP_COLUMN,
    ROW_KIND_COLUMN,
    SNAPSHOT_ID_COLUMN,
    SYSTEM_COLUMNS,
)

CHANGE_COLUMNS = (ROW_KIND_COLUMN, SNAPSHOT_ID_COLUMN, COMMIT_TIMESTAMP_COLUMN)

Change: TypeAlias = dict[str, Any]


def debezium(batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """The changes of `Table.changelog` or `Table.diff` as JSON text.

    Numbers, text, booleans, lists, maps (as lists of pairs) and structs stay what they are; decimals become text,
    dates and times ISO text, binary base64. NaN and infinities, which JSON lacks, become text.

    >>> import json, lsmerge, pyarrow as pa
    >>> t = lsmerge.create_table("memory://envelope", pa.schema({"k": pa.int64()}), "k")
    >>> _ = t.upsert({"k": [1]})
    >>> [json.loads(text)["after"] for text in lsmerge.debezium(t.changelog())]
    [{'k': 1}]
    """
    held: Change | None = None
    for change, key in _changes(batches):
        kind = change[ROW_KIND_COLUMN]
        if held is not None and kind == "+U" and _is_pair(held, change, key):
            yield _document("u", change, before=held, after=change)
            held = None
            continue
        if held is not None:
            yield _document("d", held, before=held)
        held = change if kind == "-U" else None
        if kind == "-D":
            yield _document("d", change, before=change)
        elif kind != "-U":
            yield _document("c" if kind == "+I" else "u", change, after=change)
    if held is not None:
        yield _document("d", held, before=held)


def _changes(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Change, list[str]]]:
    for batch in _checked(batches):
        # In a changelog only key columns cannot be null.
        names = [f.name for f in batch.schema if not f.nullable and f.name not in SYSTEM_COLUMNS]
        yield from ((change, names) for change in _without_nanoseconds(batch).to_pylist())


def _checked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if isinstance(batches, pa.Table):
        batches = batches.to_batches()
    for batch in batches if isinstance(batches, Iterable) else [batches]:
        names = batch.schema.names if isinstance(batch, pa.RecordBatch) else ()
        if not set(CHANGE_COLUMNS) <= set(names):
            raise SchemaMismatchError(
                f"not changes but a {type(batch).__name__}: pass what Table.changelog() or Table.diff() gives, "
                f"record batches with the columns {', '.join(CHANGE_COLUMNS)}"
            )
        yield batch


def _without_nanoseconds(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Times that Python's own cannot hold, as text."""
    for position, field in enumerate(batch.schema):
        if pa.types.is_temporal(field.type) and getattr(field.type, "unit", "") == "ns":
            texts = batch.column(position).cast(pa.string())
            batch = batch.set_column(position, field.with_type(pa.string()), texts)
    return batch


def _is_pair(before: Change, after: Change, key: list[str]) -> bool:
    same = [*key, SNAPSHOT_ID_COLUMN]
    return all(before[name] == after[name] for name in same)


def _document(
    op: str, change: Change, *, before: Change | None = None, after: Change | None = None
) -> str:
    committed: datetime = change[COMMIT_TIMESTAMP_COLUMN]
    content = {
        "before": _row(before),
        "after": _row(after),
        "op": op,
        "ts_ms": round(committed.timestamp() * 1000),
        "source": {"snapshot_id": change[SNAPSHOT_ID_COLUMN]},
    }
    return json.dumps(content, allow_nan=False, separators=(",", ":"))


def _row(change: Change | None) -> dict[str, Any] | None:
    if change is None:
        return None
    return {name: _plain(v) for name, v in change.items() if name not in SYSTEM_COLUMNS}


def _plain(value: Any) -> Any:
    """A value that JSON can hold."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, date | time):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, float) and not float("-inf") < value < float("inf"):
        return str(value)
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
