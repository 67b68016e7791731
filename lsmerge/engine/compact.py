"""The compaction path, top to bottom.

    pick (pure) -> sections -> divide (pure): move or merge -> new runs -> commit

Reads and writes go on meanwhile: the inputs stay until the result is published. A compaction that loses to another
one raises CommitConflictError and leaves the table as the other one made it. Buckets are compacted side by side,
within one memory budget.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa

from lsmerge.engine.compaction_jobs import Job, can_forget, jobs
from lsmerge.engine.context import TableContext
from lsmerge.engine.memory import release_unused
from lsmerge.engine.merging import composed_batches
from lsmerge.engine.move import MoveRules, divide
from lsmerge.engine.parallel import ordered_map
from lsmerge.engine.partition_filter import in_partition
from lsmerge.engine.producer import changelog_of_compaction
from lsmerge.engine.progress import ProgressHook, Tally
from lsmerge.engine.schema_views import reading
from lsmerge.engine.sections import split_into_sections
from lsmerge.env import CORES
from lsmerge.errors import (
    CommitConflictError,
    CommitUnknownError,
    LsmergeError,
    SnapshotExpiredError,
    StorageError,
)
from lsmerge.merge.written import is_targeted, with_written
from lsmerge.meta.commit import CommitRequest
from lsmerge.meta.data_file import BucketId, CommitKind, DataFile, Edit
from lsmerge.meta.snapshot import Snapshot
from lsmerge.storage import layout
from lsmerge.storage.run_file import RunWriter
from lsmerge_native.keys import Keys

logger = logging.getLogger("lsmerge")

# Part of the budget for what an unfinished file holds: rows that compress very well make many of them.
SHARE_FOR_FILTER = 8


@dataclass(frozen=True, slots=True)
class CompactionReport:
    """What one compaction did. Files that were only moved to another level are not among those added and removed."""

    snapshot_id: int | None
    buckets: int
    files_removed: int
    files_added: int
    rows_read: int
    rows_written: int
    bytes_read: int
    bytes_written: int
    files_moved: int = 0


class CommitIdentity(NamedTuple):
    """Who commits what: the pair that is published at most once."""

    user: str | None = None
    identifier: int | None = None


ANONYMOUS = CommitIdentity()


def compact(
    context: TableContext,
    *,
    full: bool = False,
    partition: Mapping[str, Any] | None = None,
    progress: ProgressHook | None = None,
) -> CompactionReport:
    """Compact every bucket that needs it, or all of them; publish the result as one snapshot.

    Waits for an automatic compaction of the same open table, which it would only race with.
    """
    is_wanted = in_partition(context.schema, partition)
    with context.upkeep.turn:
        latest = context.snapshots.latest()
        if latest is None:
            return _report(None, [])
        places = filter(is_wanted, context.versions.load(latest).places())
        return compact_places(context, latest, list(places), full=full, progress=progress)


def compact_places(
    context: TableContext,
    latest: Snapshot,
    places: Sequence[BucketId],
    *,
    full: bool,
    progress: ProgressHook | None = None,
    identity: CommitIdentity = ANONYMOUS,
) -> CompactionReport:
    """Compact those of the buckets that need it, as `latest` shows them."""
    try:
        with reading(context, latest):
            work = list(jobs(context, latest, places, full=full))
            edits = _all_edits(context, work, progress)
    except SnapshotExpiredError as error:
        raise CommitConflictError(
            f"the files to compact are gone: another compaction was faster, and {error}"
        ) from error
    if not edits:
        return _report(None, [])
    report = _report(_publish(context, edits, identity), edits)
    logger.info("%s: %s", context.store.uri, report)
    return report


def _publish(context: TableContext, edits: Sequence[Edit], identity: CommitIdentity) -> Snapshot:
    removed = tuple(file for edit in edits for file in edit.remove)
    added = tuple(file for edit in edits for file in edit.add)
    edit = Edit(CommitKind.COMPACT, context.schema.id, add=added, remove=removed)
    request = CommitRequest(edit, context.env.new_id(), *identity)
    try:
        snapshot = context.committer.commit(request)
    except CommitUnknownError:
        raise  # the outputs may be referenced
    except LsmergeError:
        discard(context, written_by(edit))
        raise
    if snapshot.commit_uuid != request.commit_uuid:
        discard(context, written_by(edit))  # the same was done before, with outputs of its own
    return snapshot


def _all_edits(
    context: TableContext, work: Sequence[Job], progress: ProgressHook | None
) -> list[Edit]:
    """The edits of all buckets; if one fails, nothing of the others stays."""
    share = context.sharing_budget(min(CORES, len(work)))
    tally = Tally(progress, len(work), sum(job.num_rows for job in work))
    made: list[Edit] = []

    def do(job: Job) -> Edit:
        edit = _rewrite(share, job, tally)
        made.append(edit)
        return edit

    try:
        return list(ordered_map(do, work))
    except BaseException:
        # All threads have ended by now, and what each of them made is known.
        discard(context, [file for edit in made for file in written_by(edit)])
        raise


def written_by(edit: Edit) -> list[DataFile]:
    """The files that an edit adds and that did not exist before it; those it moves did."""
    before = {file.name for file in edit.remove}
    return [file for file in edit.add if file.name not in before]


def _rewrite(context: TableContext, job: Job, tally: Tally) -> Edit:
    """Merge what overlaps or is small, move the rest."""
    division = divide(split_into_sections(job.runs), _move_rules(context, job))
    output = _Output(context, job, tally)
    written = [
        file
        for sections in division.rewrites
        for file in output.write(composed_batches(context, sections, job.forget_before))
    ]
    inputs = [file for group in division.rewrites for section in group for file in section.files]
    try:
        _check_conservation(job.place, inputs, written)
        changelog = changelog_of_compaction(context, job.place, job.runs, job.level)
        tally.add(job.num_rows - output.num_rows, buckets=1)
    except BaseException:
        discard(context, written)
        raise
    moved = [replace(file, level=job.level) for file in division.moves]
    return Edit(
        CommitKind.COMPACT,
        context.schema.id,
        add=(*written, *moved, *changelog),
        remove=(*inputs, *division.moves),
    )


def _move_rules(context: TableContext, job: Job) -> MoveRules:
    options = context.options

    def can_stay_whole(file: DataFile) -> bool:
        return (
            file.run.format == options.format_at(job.level)
            and options.compression_at(file.level) == options.compression_at(job.level)
            and not can_forget(file, job.forget_before)
        )

    return MoveRules(job.level, options.target_file_size, can_stay_whole)


class _Output:
    """Writes sorted batches as files of one level, each closed when it reaches the target size.

    Files say what rows wrote from the first batch on that does: whole rows before it pay nothing.

    If writing fails, none of its files stays, also not those of earlier calls.
    """

    def __init__(self, context: TableContext, job: Job, tally: Tally) -> None:
        self._context = context
        self._job = job
        self._tally = tally
        self._format = context.run_format(job.level)
        self._files: list[DataFile] = []
        self._writer: RunWriter | None = None
        self._is_targeted = False
        self.num_rows = 0

    def write(self, batches: Iterator[pa.RecordBatch]) -> list[DataFile]:
        """The files that hold `batches`, and nothing else."""
        start = len(self._files)
        try:
            for batch in batches:
                self._append(batch, self._context.keys(batch))
                self.num_rows += batch.num_rows
                self._tally.add(batch.num_rows)
            self._finish()
        except BaseException:
            if self._writer is not None:
                self._writer.abort()
            discard(self._context, self._files)
            raise
        return self._files[start:]

    def _append(self, batch: pa.RecordBatch, keys: Keys) -> None:
        if is_targeted(batch) and not self._is_targeted:
            self._finish()
            self._is_targeted = True
        rows = with_written(batch) if self._is_targeted else batch
        target = self._context.options.target_file_size
        start = 0
        while start < rows.num_rows:
            if self._writer is None:
                self._writer = self._open()
            stop = _fitting(rows, keys, start, target - self._writer.size_bytes)
            self._writer.write(rows.slice(start, stop - start), keys.slice(start, stop))
            start = stop
            if self._is_full(self._writer):
                self._finish()
        release_unused()

    def _is_full(self, writer: RunWriter) -> bool:
        options = self._context.options
        room = options.scan_memory_budget // SHARE_FOR_FILTER
        return writer.size_bytes >= options.target_file_size or writer.held_bytes >= room

    def _open(self) -> RunWriter:
        name = layout.run_name(self._job.uid, len(self._files), self._format.format)
        path = self._context.bucket_path(self._job.place, name)
        schema = self._context.schema
        fields = schema.targeted_file_schema if self._is_targeted else schema.file_schema
        return RunWriter(self._context.store, path, fields, self._format)

    def _finish(self) -> None:
        if self._writer is None:
            return
        writer, self._writer = self._writer, None
        job, schema_id = self._job, self._context.schema.id
        file = DataFile(job.place, job.level, writer.finish(), schema_id, job.created_ms)
        self._files.append(file)


def _fitting(batch: pa.RecordBatch, keys: Keys, start: int, room: int) -> int:
    """Where to stop so that the rows from `start` on take about `room` bytes uncompressed and no key is cut."""
    row_bytes = max(1, batch.nbytes // batch.num_rows)
    stop = start + max(1, room // row_bytes)
    if stop >= len(keys):
        return len(keys)
    return keys.search(keys.bytes_at(stop - 1), right=True)


def discard(context: TableContext, files: Sequence[DataFile]) -> None:
    """Delete files that were never published."""
    for file in files:
        with suppress(StorageError):  # then it is an orphan: nothing refers to it
            context.store.delete(context.file_path(file))


def _check_conservation(
    place: BucketId, inputs: Sequence[DataFile], outputs: Sequence[DataFile]
) -> None:
    """A merge may drop rows, never invent them, and never leave the key range of its inputs."""
    if not outputs:
        return
    if sum(f.run.num_rows for f in outputs) > sum(f.run.num_rows for f in inputs):
        raise LsmergeError(f"compaction of {place} produced more rows than it read; not published")
    low, high = min(f.run.min_key for f in inputs), max(f.run.max_key for f in inputs)
    if min(f.run.min_key for f in outputs) < low or max(f.run.max_key for f in outputs) > high:
        raise LsmergeError(f"compaction of {place} left the key range of its inputs; not published")


def _report(snapshot: Snapshot | None, edits: Sequence[Edit]) -> CompactionReport:
    written = [file for edit in edits for file in written_by(edit) if file.is_data]
    added = {file.name for edit in edits for file in edit.add if file.is_data}
    replaced = [file for edit in edits for file in edit.remove if file.name not in added]
    return CompactionReport(
        snapshot_id=None if snapshot is None else snapshot.id,
        buckets=len(edits),
        files_removed=len(replaced),
        files_added=len(written),
        rows_read=sum(file.run.num_rows for file in replaced),
        rows_written=sum(file.run.num_rows for file in written),
        bytes_read=sum(file.run.size_bytes for file in replaced),
        bytes_written=sum(file.run.size_bytes for file in written),
        files_moved=len(added) - len(written),
    )
