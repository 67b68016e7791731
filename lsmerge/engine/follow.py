"""The changelog path: what each snapshot changed, as Arrow batches in commit order.

Without a producer a snapshot's changes are the rows that its commit wrote, merged within the commit: an upsert
stream without before images. Compactions change nothing and are passed over.
"""

from collections.abc import Iterator

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.engine.defaults import default_values, with_defaults
from lsmerge.engine.merging import composed_batches
from lsmerge.engine.schema_views import reading
from lsmerge.engine.sections import Section, split_into_sections
from lsmerge.errors import ChangelogBrokenError, SnapshotNotFoundError
from lsmerge.meta.data_file import CommitKind, DataFile
from lsmerge.meta.snapshot import Snapshot, snapshot_number
from lsmerge.meta.version import place_order, sorted_runs
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
            snapshot = context.snapshots.get(number)
            with reading(context, snapshot):
                yield from _changes(context, snapshot)
            number += 1
            pause = MIN_POLL_SECONDS
        elif follow:
            context.env.sleep(pause)
            pause = min(2 * pause, MAX_POLL_SECONDS)
        else:
            return


def _changes(context: TableContext, snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
    if snapshot.kind is CommitKind.ROLLBACK:
        raise ChangelogBrokenError(
            f"snapshot {snapshot.id} rolled the table back, which no upsert stream can say: read the "
            f"table at snapshot {snapshot.id} and follow the changes from {snapshot.id + 1}"
        )
    if snapshot.kind is not CommitKind.APPEND:
        return
    sections = _sections(context.versions.delta(snapshot))
    defaults = default_values(context.schema)
    for batch in composed_batches(context, sections, forget_before=0):
        rows = with_defaults(batch, defaults)
        yield _with_change_columns(rows, snapshot, changelog_schema(context.schema))


def _sections(files: list[DataFile]) -> Iterator[Section]:
    """The runs of one commit by bucket; a commit that spilled has several that overlap."""
    for place in sorted({file.place for file in files}, key=place_order):
        runs = sorted_runs([file for file in files if file.place == place])
        yield from split_into_sections(runs)


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
