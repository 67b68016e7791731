"""The rows of a changelog as readers get them: what one snapshot changed, or all of a snapshot as inserts.

Without a producer a snapshot's changes are the rows that its commit wrote, merged within the commit: an upsert
stream without before images. Of a commit of target columns a deduplicate table shows whole rows instead, as they
are after it. With one they are in changelog files, which the snapshot that caused the change added. Compactions and
rescales change nothing and are passed over. Overwrites are passed over too, unless `streaming-read-overwrite` is set:
then the rows they took away come as deletes, before the new ones. Where keys move between partitions, what left one
comes first too.
Defaults are put in here, where rows are told as they are visible; they are never stored.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.engine.current_rows import current_rows
from lsmerge.engine.defaults import default_values, with_defaults
from lsmerge.engine.deletes_first import deletes_first
from lsmerge.engine.merging import composed_batches, resolved_batches
from lsmerge.engine.parallel import ordered_map
from lsmerge.engine.replaced import bucket_sections, replaced_rows
from lsmerge.engine.sections import ALL_KEYS, Section, split_into_sections
from lsmerge.engine.splits import Piece
from lsmerge.errors import CorruptFileError
from lsmerge.merge.written import is_targeted
from lsmerge.meta.data_file import BucketId, CommitKind, DataFile
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.version import SortedRun, place_order
from lsmerge.rowkind import (
    COMMIT_TIMESTAMP_COLUMN,
    KIND_COLUMN,
    ROW_KIND_COLUMN,
    SNAPSHOT_ID_COLUMN,
    RowKind,
)
from lsmerge.schema import TableSchema


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


class ChangeFiles(NamedTuple):
    """The files that tell what one snapshot changed: what it took away, then what it wrote."""

    removed: list[DataFile]
    added: list[DataFile]

    def of_places(self, places: Collection[BucketId]) -> "ChangeFiles":
        """Those of some buckets."""
        return ChangeFiles(*([file for file in files if file.place in places] for files in self))


def change_files(context: TableContext, snapshot: Snapshot) -> ChangeFiles:
    """Where the changes of a snapshot are. Requires: it is not a rollback, of which nothing is written down."""
    files = context.versions.delta(snapshot)
    if snapshot.kind is CommitKind.OVERWRITE:
        if not context.options.streaming_read_overwrite:
            return ChangeFiles([], [])
        return ChangeFiles(context.versions.removed(snapshot), files)
    if context.options.changelog_producer != "none":
        return ChangeFiles([], [file for file in files if not file.is_data])
    return ChangeFiles([], files if snapshot.kind is CommitKind.APPEND else [])


def changes_of(
    context: TableContext, snapshot: Snapshot, files: ChangeFiles | None = None
) -> Iterator[pa.RecordBatch]:
    """What one snapshot changed, or as much of it as some of the files tell."""
    removed, added = change_files(context, snapshot) if files is None else files
    rows = _added_rows(context, snapshot, added)
    if context.schema.is_cross_partition:
        leaving = _added_rows(context, snapshot, _where_keys_leave(added))
        rows = deletes_first(context, leaving, rows)
    told = _shown if _are_operands(context, snapshot) else as_changes
    before = as_changes(context, replaced_rows(context, snapshot, removed), snapshot)
    return chain(before, told(context, rows, snapshot))


def _where_keys_leave(files: list[DataFile]) -> list[DataFile]:
    """The files of the buckets that a key may have left."""
    places = {file.place for file in files if file.run.num_retracts}
    return [file for file in files if file.place in places]


def _added_rows(
    context: TableContext, snapshot: Snapshot, files: list[DataFile]
) -> Iterator[pa.RecordBatch]:
    if snapshot.kind is CommitKind.OVERWRITE or context.options.changelog_producer == "none":
        return _written_rows(context, snapshot, files)
    return _stored_rows(context, files)


def _written_rows(
    context: TableContext, snapshot: Snapshot, files: list[DataFile]
) -> Iterator[pa.RecordBatch]:
    for batch in composed_batches(context, bucket_sections(files), forget_before=0):
        shows_whole = context.engine.one_add_per_key and is_targeted(batch)
        yield current_rows(context, snapshot, batch) if shows_whole else batch


def whole_snapshot(
    context: TableContext, snapshot: Snapshot, pieces: Sequence[Piece] | None = None
) -> Iterator[pa.RecordBatch]:
    """What all changes up to a snapshot add up to, as inserts; all of it, or some keys of some buckets.

    With the full-compaction producer that is what the last full compaction left: later rows are still to be told.
    """
    names = context.schema.column_names
    sections = _told(context, snapshot, pieces)
    return as_changes(context, resolved_batches(context, sections, names), snapshot)


def as_changes(
    context: TableContext, rows: Iterable[pa.RecordBatch], snapshot: Snapshot
) -> Iterator[pa.RecordBatch]:
    """Visible rows with the columns of a changelog; those without a kind are inserts."""
    defaults = default_values(context.schema)
    return _shown(context, (with_defaults(batch, defaults) for batch in rows), snapshot)


def _are_operands(context: TableContext, snapshot: Snapshot) -> bool:
    """Whether the rows that a snapshot tells are still to be merged with older ones.

    A null in them is no value then, and a default in its place would be taken for one by whoever merges them.
    """
    is_upsert = snapshot.kind is not CommitKind.OVERWRITE
    is_written = context.options.changelog_producer == "none"
    return is_upsert and is_written and not context.engine.one_add_per_key


def _shown(
    context: TableContext, rows: Iterable[pa.RecordBatch], snapshot: Snapshot
) -> Iterator[pa.RecordBatch]:
    schema = changelog_schema(context.schema)
    return (_with_change_columns(batch, snapshot, schema) for batch in rows)


def _told(
    context: TableContext, snapshot: Snapshot, pieces: Sequence[Piece] | None
) -> Iterator[Section]:
    version = context.versions.load(snapshot)
    if pieces is None:
        pieces = [Piece(place, ALL_KEYS) for place in version.places()]
    version.preload({piece.place for piece in pieces})
    for place, span in pieces:
        yield from split_into_sections(told_runs(context, version.runs(place)), span=span)


def told_runs(context: TableContext, runs: list[SortedRun]) -> list[SortedRun]:
    """The runs of a bucket whose rows followers have been told of."""
    if context.options.changelog_producer != "full-compaction":
        return runs
    return [run for run in runs if run.level == context.options.num_levels - 1]


def _stored_rows(context: TableContext, files: Iterable[DataFile]) -> Iterator[pa.RecordBatch]:
    """The rows of changelog files, bucket by bucket, as they were written."""
    in_order = sorted(files, key=lambda file: place_order(file.place))
    return ordered_map(lambda read: read(), _block_reads(context, in_order))


def _block_reads(
    context: TableContext, files: Iterable[DataFile]
) -> Iterator[partial[pa.RecordBatch]]:
    for file in files:
        reader = context.reader(file)
        for number in range(reader.num_blocks):
            yield partial(reader.read_block, number, context.schema.file_schema)


def _with_change_columns(
    batch: pa.RecordBatch, snapshot: Snapshot, schema: pa.Schema
) -> pa.RecordBatch:
    count, names = batch.num_rows, batch.schema.names
    arrays = [
        _symbols(batch) if KIND_COLUMN in names else pa.repeat(RowKind.INSERT.symbol, count),
        *(batch.column(field.name) for field in schema if field.name in names),
        pa.repeat(pa.scalar(snapshot.id, pa.int64()), count),
        pa.repeat(pa.scalar(snapshot.timestamp_ms, pa.timestamp("ms", "UTC")), count),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _symbols(batch: pa.RecordBatch) -> pa.Array:
    symbols = pa.array([RowKind(code).symbol for code in sorted(RowKind)], pa.string())
    try:
        return symbols.take(batch.column(KIND_COLUMN))
    except pa.ArrowIndexError as error:
        raise CorruptFileError("a file of changes", f"a row of an unknown kind: {error}") from error
