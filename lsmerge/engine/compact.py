"""The compaction path, top to bottom.

    pick (pure) -> sections -> merge -> new runs -> commit

Reads and writes go on meanwhile: the inputs stay until the result is published. A compaction that loses to another
one raises CommitConflictError and leaves the table as the other one made it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.engine.memory import release_unused
from lsmerge.engine.merging import composed_batches
from lsmerge.engine.pick import CompactionPlan, PickRules, RunSize, pick, pick_full
from lsmerge.engine.sections import split_into_sections
from lsmerge.errors import CommitUnknownError, LsmergeError, StorageError
from lsmerge.merge.order import FORGET_ALL
from lsmerge.meta.commit import CommitRequest
from lsmerge.meta.data_file import BucketId, CommitKind, DataFile, Edit
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.version import SortedRun
from lsmerge.options import TableOptions
from lsmerge.storage import layout
from lsmerge.storage.run_file import RunWriter

# Part of the budget for what an unfinished file holds: rows that compress very well make many of them.
SHARE_FOR_FILTER = 8


@dataclass(frozen=True, slots=True)
class CompactionReport:
    """What one compaction did."""

    snapshot_id: int | None
    buckets: int
    files_removed: int
    files_added: int
    rows_read: int
    rows_written: int
    bytes_read: int
    bytes_written: int


def compact(context: TableContext, *, full: bool = False) -> CompactionReport:
    """Compact every bucket that needs it, or all of them; publish the result as one snapshot."""
    latest = context.snapshots.latest()
    edits = _all_edits(context, latest, pick_full if full else pick) if latest else []
    removed = tuple(file for edit in edits for file in edit.remove)
    added = tuple(file for edit in edits for file in edit.add)
    if not removed:
        return _report(None, edits)
    edit = Edit(
        CommitKind.COMPACT,
        context.schema.id,
        add=added,
        remove=removed,
        num_buckets=context.options.bucket,
    )
    try:
        snapshot = context.committer.commit(CommitRequest(edit, context.env.new_id()))
    except CommitUnknownError:
        raise  # the outputs may be referenced
    except LsmergeError:
        discard(context, added)
        raise
    return _report(snapshot, edits)


Picker = Callable[[Sequence[RunSize], PickRules], CompactionPlan | None]


def _all_edits(context: TableContext, latest: Snapshot, picker: Picker) -> list[Edit]:
    """The edits of all buckets; if one fails, nothing of the others stays."""
    edits: list[Edit] = []
    try:
        for edit in _bucket_edits(context, latest, picker):
            edits.append(edit)  # noqa: PERF402 - what was made before a failure must be known
    except BaseException:
        discard(context, [file for edit in edits for file in edit.add])
        raise
    return edits


def _bucket_edits(context: TableContext, latest: Snapshot, picker: Picker) -> Iterator[Edit]:
    version = context.versions.load(latest)
    places = version.places()
    version.preload(places)
    rules = _pick_rules(context.options)
    for place in places:
        runs = version.runs(place)
        forget = _forget_before(context, latest)
        plan = picker([_run_size(run, forget) for run in runs], rules)
        if plan is not None:
            forget = forget if plan.count == len(runs) else 0
            yield _rewrite(context, place, runs[: plan.count], plan.output_level, forget)


def _run_size(run: SortedRun, forget_before: int) -> RunSize:
    can_forget = any(f.run.num_retracts and f.sequence_min < forget_before for f in run.files)
    return RunSize(run.level, run.size_bytes, can_forget)


def _pick_rules(options: TableOptions) -> PickRules:
    return PickRules(
        num_levels=options.num_levels,
        trigger=options.num_sorted_run_compaction_trigger,
        max_size_amplification_percent=options.compaction_max_size_amplification_percent,
        size_ratio=options.compaction_size_ratio,
    )


def _forget_before(context: TableContext, latest: Snapshot) -> int:
    """Retracts below this sequence number may go once the oldest run is part of the compaction.

    1. All older rows of their keys are in this compaction, so they hide nothing outside it.
    2. Rows written later are newer by arrival, so where arrival alone decides no retract could hide them.
    3. Where a column decides a late row may be older than the retract: it is remembered for
       `tombstone.retention` after it was committed, as far as the sequence clock can tell.
    """
    if not context.engine.order.columns:
        return FORGET_ALL
    deadline = context.env.now_ms() - context.options.tombstone_retention_ms
    clock = (*latest.sequence_clock, (latest.next_sequence, latest.timestamp_ms))
    return max((sequence for sequence, ms in clock if ms <= deadline), default=0)


def _rewrite(
    context: TableContext, place: BucketId, runs: Sequence[SortedRun], level: int, forget: int
) -> Edit:
    inputs = tuple(file for run in runs for file in run.files)
    batches = composed_batches(context, split_into_sections(runs), forget)
    output = RunOutput(context, place, level, max(file.num_buckets for file in inputs))
    outputs = output.write(batches)
    try:
        _check_conservation(place, inputs, outputs)
    except LsmergeError:
        discard(context, outputs)
        raise
    return Edit(CommitKind.COMPACT, context.schema.id, add=outputs, remove=inputs)


class RunOutput:
    """Writes sorted batches as files of one level, each closed when it reaches the target size."""

    def __init__(
        self, context: TableContext, place: BucketId, level: int, num_buckets: int
    ) -> None:
        self._context = context
        self._place = place
        self._level = level
        self._num_buckets = num_buckets
        self._format = context.run_format(level)
        self._uid = context.env.new_id()
        self._files: list[DataFile] = []
        self._writer: RunWriter | None = None

    def write(self, batches: Iterator[pa.RecordBatch]) -> tuple[DataFile, ...]:
        """All batches, or nothing if one fails."""
        try:
            for batch in batches:
                self.append(batch)
            return self.finish()
        except BaseException:
            self.abort()
            raise

    def append(self, batch: pa.RecordBatch) -> None:
        """Batches come in key order."""
        # A batch holds whole keys only, so a file may end after any of them.
        if self._writer is None:
            self._writer = self._open()
        self._writer.write(batch, self._context.keys(batch))
        release_unused()
        if self._is_full(self._writer):
            self._end_file()

    def finish(self) -> tuple[DataFile, ...]:
        """The files written."""
        self._end_file()
        return tuple(self._files)

    def abort(self) -> None:
        """Leave nothing."""
        if self._writer is not None:
            self._writer.abort()
        discard(self._context, self._files)

    def _is_full(self, writer: RunWriter) -> bool:
        options = self._context.options
        room = options.scan_memory_budget // SHARE_FOR_FILTER
        return writer.size_bytes >= options.target_file_size or writer.held_bytes >= room

    def _open(self) -> RunWriter:
        name = layout.run_name(self._uid, len(self._files), self._format.format)
        path = self._context.bucket_path(self._place, name)
        schema = self._context.schema.file_schema
        return RunWriter(self._context.store, path, schema, self._format)

    def _end_file(self) -> None:
        if self._writer is None:
            return
        writer, self._writer = self._writer, None
        summary, context = writer.finish(), self._context
        self._files.append(
            DataFile(
                self._place,
                self._level,
                summary,
                context.schema.id,
                context.env.now_ms(),
                num_buckets=self._num_buckets,
            )
        )


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
    removed = [file.run for edit in edits for file in edit.remove]
    added = [file.run for edit in edits for file in edit.add]
    return CompactionReport(
        snapshot_id=None if snapshot is None else snapshot.id,
        buckets=len(edits),
        files_removed=len(removed),
        files_added=len(added),
        rows_read=sum(run.num_rows for run in removed),
        rows_written=sum(run.num_rows for run in added),
        bytes_read=sum(run.size_bytes for run in removed),
        bytes_written=sum(run.size_bytes for run in added),
    )
