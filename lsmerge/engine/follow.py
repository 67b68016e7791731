"""The changelog path: what each snapshot changed, as Arrow batches in commit order.

Without a producer a snapshot's changes are the rows that its commit wrote, merged within the commit: an upsert
stream without before images. Compactions and rescales change nothing and are passed over. Overwrites are passed over
too, unless `streaming-read-overwrite` is set: then the rows they took away come as deletes, before the new ones.
"""

from collections.abc import Iterator

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.engine.defaults import default_values, with_defaults
from lsmerge.engine.merging import composed_batches
from lsmerge.engine.replaced import bucket_sections, replaced_rows
from lsmerge.errors import SnapshotNotFoundError
from lsmerge.meta.data_file import CommitKind
from lsmerge.meta.snapshot import Snapshot, snapshot_number
from lsmerge.rowkind import (
    COMMIT_TIMESTAMP_COLUMN,
    KIND_COLUMN,
    ROW_KIND_COLUMN,
    SNAPSHOT_ID_COLUMN,
    RowKind,
)
from lsmerge.schema import TableSchema

MIN_POLL_SECONDS = 0.01
MAX_POLL_SECONDS = 1.0


def changelog_schema(schema: TableSchema) -> pa.Schema:
    """Row kind, the table's columns (nullable: a delete may carry only its key), snapshot and time."""
    return pa.schema(
        [
            pa.field(ROW_KIND_COLUMN, pa.string(), nullable=False),
            *schema.row_schema,
            pa.field(SNAPSHOT_ID_COLUMN, pa.int64(), nullable=False),
            pa.field(COMMIT_TIMESTAMP_COLUMN, pa.timestamp("ms", "UTC"), nullable=False),
        ]
    )


def changelog(
    context: TableContext, start: int | None, end: int | None, *, follow: bool
) -> Iterator[pa.RecordBatch]:
    """The changes of snapshots `start` to `end`, both inclusive; `follow` waits for those to come.

    Ends that cannot be are refused by the call, not by the first step of the iterator.
    """
    first = 1 if start is None else snapshot_number("start", start)
    last = None if end is None else snapshot_number("end", end)
    if first < 1:
        raise SnapshotNotFoundError(f"start = {first}: snapshots are numbered from 1")
    if first <= context.snapshots.latest_id():
        context.snapshots.get(first)
    return _from(context, first, last, follow=follow)


def _from(
    context: TableContext, number: int, end: int | None, *, follow: bool
) -> Iterator[pa.RecordBatch]:
    pause = MIN_POLL_SECONDS
    while end is None or number <= end:
        latest = context.snapshots.latest_id()
        if number <= latest:
            yield from _changes(context, context.snapshots.get(number))
            number += 1
            pause = MIN_POLL_SECONDS
        elif follow:
            context.env.sleep(pause)
            pause = min(2 * pause, MAX_POLL_SECONDS)
        else:
            return


def _changes(context: TableContext, snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
    schema = changelog_schema(context.schema)
    if _is_shown(context, snapshot, CommitKind.OVERWRITE):
        for batch in replaced_rows(context, snapshot):
            yield _with_change_columns(batch, snapshot, schema)
    if _is_shown(context, snapshot, CommitKind.APPEND, CommitKind.OVERWRITE):
        for batch in _written_rows(context, snapshot):
            yield _with_change_columns(batch, snapshot, schema)


def _is_shown(context: TableContext, snapshot: Snapshot, *kinds: CommitKind) -> bool:
    if snapshot.kind is CommitKind.OVERWRITE and not context.options.streaming_read_overwrite:
        return False
    return snapshot.kind in kinds


def _written_rows(context: TableContext, snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
    """The rows of one commit; one that spilled has several runs of a bucket that overlap."""
    sections = bucket_sections(context.versions.delta(snapshot))
    defaults = default_values(context.schema)
    for batch in composed_batches(context, sections, forget_before=0):
        yield with_defaults(batch, defaults)


def _with_change_columns(
    batch: pa.RecordBatch, snapshot: Snapshot, schema: pa.Schema
) -> pa.RecordBatch:
    symbols = pa.array([RowKind(code).symbol for code in sorted(RowKind)], pa.string())
    count = batch.num_rows
    arrays = [
        symbols.take(batch.column(KIND_COLUMN)),
        *(batch.column(field.name) for field in schema if field.name in batch.schema.names),
        pa.repeat(pa.scalar(snapshot.id, pa.int64()), count),
        pa.repeat(pa.scalar(snapshot.timestamp_ms, pa.timestamp("ms", "UTC")), count),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
