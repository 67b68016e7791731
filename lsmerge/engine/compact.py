"""The compaction path, top to bottom.

    pick (pure) -> sections -> divide (pure): move or merge -> new runs -> commit

Reads and writes go on meanwhile: the inputs stay until the result is published. A compaction that loses to another
one raises CommitConflictError and leaves the table as the other one made it. Buckets are compacted side by side,
within one memory budget.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa

from lsmerge.engine.compaction_jobs import Job, can_forget, jobs
from lsmerge.engine.context import TableContext
from lsmerge.engine.index_renewal import renew_indexes
from lsmerge.engine.merging import composed_batches
from lsmerge.engine.move import MoveRules, divide
from lsmerge.engine.parallel import ordered_map
from lsmerge.engine.partition_spec import select
from lsmerge.engine.producer import changelog_of_compaction
from lsmerge.engine.progress import ProgressHook, Tally
from lsmerge.engine.run_output import RunOutput, RunTarget, discard
from lsmerge.engine.schema_views import reading
from lsmerge.engine.sections import Section, split_into_sections
from lsmerge.env import CORES
from lsmerge.errors import (
    CommitConflictError,
    CommitUnknownError,
    LsmergeError,
    SnapshotExpiredError,
)
from lsmerge.failpoints import failpoint
from lsmerge.meta.commit import CommitRequest
from lsmerge.meta.data_file import BucketId, CommitKind, DataFile, Edit
from lsmerge.meta.snapshot import Snapshot
from lsmerge.tracing import span

logger = logging.getLogger("lsmerge.compaction")


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
    buckets_lost: int = 0
    """Buckets that another compaction was faster with; only units of a job go on after that."""


class CommitIdentity(NamedTuple):
    """Who commits what: the pair that is published at most once."""

    user: str | None = None
    identifier: int | None = None


ANONYMOUS = CommitIdentity()


def compact(
    context: TableContext,
    *,
    full: bool = False,
    partition: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    progress: ProgressHook | None = None,
) -> CompactionReport:
    """Compact every bucket that needs it, or all of them; publish the result as one snapshot.

    Waits for an automatic compaction of the same open table, which it would only race with.
    """
    with context.upkeep.turn:
        latest, places = selected_places(context, partition)
        if latest is None:
            return _report(None, [])
        report = compact_places(context, latest, places, full=full, progress=progress)
        if full:
            renew_indexes(context, partition)
        return report


def selected_places(
    context: TableContext, partition: Any
) -> tuple[Snapshot | None, list[BucketId]]:
    """The newest snapshot, and the buckets of the partitions named, or of all."""
    latest = context.snapshots.latest()
    live = [] if latest is None else context.versions.load(latest).places()
    # No column named at all: any value of each.
    given = None if partition == {} else partition
    wanted = set(select(context.schema, given, [place.partition for place in live]))
    return latest, [place for place in live if place.partition in wanted]


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
    with span("lsmerge.compaction", context.store.uri, full=full) as current:
        report = _compact_places(context, latest, places, full, progress, identity)
        current.note(buckets=report.buckets, bytes_written=report.bytes_written)
    if report.snapshot_id is not None:
        logger.info("%s: %s", context.store.uri, report)
        _count(context, report)
    return report


def _compact_places(
    context: TableContext,
    latest: Snapshot,
    places: Sequence[BucketId],
    full: bool,
    progress: ProgressHook | None,
    identity: CommitIdentity,
) -> CompactionReport:
    try:
        with reading(context, latest):
            work = list(jobs(context, latest, places, full=full))
            failpoint("compact.after-pick")
            edits = _all_edits(context, work, progress)
    except SnapshotExpiredError as error:
        raise CommitConflictError(
            f"the files to compact are gone: another compaction was faster, and {error}"
        ) from error
    if not edits:
        return _report(None, [])
    return _report(_publish(context, edits, identity), edits)


def _count(context: TableContext, report: CompactionReport) -> None:
    context.counters.add(
        compactions=1,
        compaction_files_moved=report.files_moved,
        compaction_rows_read=report.rows_read,
        compaction_rows_written=report.rows_written,
        compaction_bytes_read=report.bytes_read,
        compaction_bytes_written=report.bytes_written,
    )


def _publish(context: TableContext, edits: Sequence[Edit], identity: CommitIdentity) -> Snapshot:
    removed = tuple(file for edit in edits for file in edit.remove)
    added = tuple(file for edit in edits for file in edit.add)
    edit = Edit(
        CommitKind.COMPACT,
        context.schema.id,
        add=added,
        remove=removed,
        num_buckets=context.options.bucket,
    )
    request = CommitRequest(edit, context.env.new_id(), *identity)
    try:
        failpoint("compact.before-publish")
        snapshot = context.committer.commit(request)
    except CommitUnknownError:
        raise  # the outputs may be referenced
    except LsmergeError:
        failpoint("compact.before-discard")
        discard(context, _new_files(edit))
        raise
    if snapshot.commit_uuid != request.commit_uuid:
        discard(context, _new_files(edit))  # the same was done before, with outputs of its own
    failpoint("compact.after-publish")
    context.runs.forget(context.file_path(file) for file in _replaced(edit))
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
        failpoint("compact.after-bucket")
        return edit

    try:
        return list(ordered_map(do, work))
    except BaseException:
        # All threads have ended by now, and what each of them made is known.
        discard(context, [file for edit in made for file in _new_files(edit)])
        raise


def _new_files(edit: Edit) -> list[DataFile]:
    """The files that an edit adds and that did not exist before it; those it moves did."""
    before = {file.name for file in edit.remove}
    return [file for file in edit.add if file.name not in before]


def _replaced(edit: Edit) -> list[DataFile]:
    """The files that an edit removes; those it moves stay."""
    after = {file.name for file in edit.add}
    return [file for file in edit.remove if file.name not in after]


def _rewrite(context: TableContext, job: Job, tally: Tally) -> Edit:
    """Merge what overlaps or is small, move the rest."""
    division = divide(split_into_sections(job.runs), _move_rules(context, job))
    output = RunOutput(
        context, RunTarget(job.place, job.level, job.num_buckets, job.uid, job.created_ms)
    )
    written = [
        file
        for sections in division.rewrites
        for file in output.write(_composed(context, sections, job, tally))
    ]
    inputs = [file for group in division.rewrites for section in group for file in section.files]
    try:
        _check_conservation(job.place, inputs, written)
        changelog = changelog_of_compaction(context, job.place, job.runs, job.level)
        tally.add(job.num_rows - sum(file.run.num_rows for file in written), buckets=1)
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


def _composed(
    context: TableContext, sections: Sequence[Section], job: Job, tally: Tally
) -> Iterator[pa.RecordBatch]:
    for batch in composed_batches(context, sections, job.forget_before):
        yield batch
        tally.add(batch.num_rows)  # it is written by now


def _move_rules(context: TableContext, job: Job) -> MoveRules:
    options = context.options

    def can_stay_whole(file: DataFile) -> bool:
        return (
            file.run.format == options.format_at(job.level)
            and options.compression_at(file.level) == options.compression_at(job.level)
            and not can_forget(file, job.forget_before)
        )

    return MoveRules(job.level, options.target_file_size, can_stay_whole)


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
    written = [file for edit in edits for file in _new_files(edit) if file.is_data]
    added = {file.name for edit in edits for file in edit.add if file.is_data}
    replaced = [file for edit in edits for file in _replaced(edit)]
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
