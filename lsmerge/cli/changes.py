"""Changes on their way out: how many, and the columns that they have beside those of their row."""

from collections.abc import Iterable, Iterator
from itertools import chain

import pyarrow as pa

from lsmerge import Table
from lsmerge.cli.rows_out import Output, write_rows

KIND = pa.field("_row_kind", pa.string(), nullable=False)
ORIGIN = (
    pa.field("_snapshot_id", pa.int64(), nullable=False),
    pa.field("_commit_timestamp", pa.timestamp("ms", "UTC"), nullable=False),
)


def write_changes(
    output: Output,
    table: Table,
    batches: Iterable[pa.RecordBatch],
    *,
    limit: int | None = None,
    at_once: bool = False,
) -> int:
    """Write changes as they come, at most `limit` of them."""
    coming = iter(batches if limit is None else _first(limit, batches))
    first = next(coming, None)
    if first is None:
        return write_rows(output, _announced(table), [])
    return write_rows(output, first.schema, chain([first], coming), at_once=at_once)


def _announced(table: Table) -> pa.Schema:
    """The columns of changes of which there are none."""
    return pa.schema([KIND, *table.schema, *ORIGIN])


def _first(limit: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """So many rows; nothing is asked for once they are there."""
    remaining = limit
    if remaining == 0:
        return
    for batch in batches:
        yield batch.slice(0, remaining)
        remaining -= min(remaining, batch.num_rows)
        if remaining == 0:
            return
