"""Whole partitions written anew beside writers who go on: what rescaling and sort-compacting have in common.

    files of the partitions -> the same rows elsewhere -> at publishing, what came meanwhile follows -> one snapshot

Rows are composed as in any compaction, never resolved, so later rows still find all they need. Level-0 files that
writers commit meanwhile are placed anew when the rewrite lands. A compaction, overwrite or rewrite that takes its
inputs away makes it write that partition again from what they left, a few times; then it raises CommitConflictError and
has changed nothing.
Followers of the changelog see nothing, except with the producer `full-compaction`: like a full compaction it tells
what came since the last one.
"""

import logging
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from lsmerge.engine.context import TableContext
from lsmerge.engine.producer import changelog_of_compaction
from lsmerge.engine.progress import ProgressHook, Tally
from lsmerge.engine.run_output import discard
from lsmerge.engine.schema_views import reading, refreshed
from lsmerge.engine.splits import rows_of
from lsmerge.errors import (
    CommitConflictError,
    CommitUnknownError,
    InvalidOptionError,
    LsmergeError,
    SnapshotExpiredError,
)
from lsmerge.failpoints import failpoint
from lsmerge.meta.commit import CommitRequest
from lsmerge.meta.data_file import BucketId, CommitKind, DataFile, Edit, Partition
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.version import Version, partition_order
from lsmerge.tracing import span

logger = logging.getLogger("lsmerge.rewrite")

MAX_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class RewriteReport:
    """What a rewrite of partitions did; `snapshot_id` is None where there was nothing to do."""

    snapshot_id: int | None
    partitions: int
    files_removed: int
    files_added: int
    rows_written: int
    bytes_written: int


NOTHING_DONE = RewriteReport(None, 0, 0, 0, 0, 0)


class Placing(Protocol):
    """Where the rows of partitions go, and what must change with them."""

    @property
    def kind(self) -> CommitKind:
        """What the snapshot is called."""

    @property
    def passes(self) -> int:
        """How often rows are read."""

    def partitions(self, version: Version) -> list[Partition]:
        """The partitions to write anew, which hold files."""

    def rewrite(self, version: Version, partition: Partition, tally: Tally) -> list[DataFile]:
        """The rows of a partition in new files of the top level; nothing stays if it fails."""

    def follow(self, file: DataFile) -> tuple[DataFile, ...]:
        """The rows of a level-0 file that came after the rewrite, where they belong now."""

    def completed(self, edit: Edit, version: Version | None, /) -> Edit:
        """The edit, which lands on `version`, with what else it must publish."""

    def forget(self, partition: Partition, /) -> None:
        """What was written for a partition does not count any more."""

    def discard(self) -> None:
        """Delete what `completed` made."""


PlacingOf: TypeAlias = Callable[[TableContext], Placing]


def rewrite_partitions(
    context: TableContext,
    placing_of: PlacingOf,
    progress: ProgressHook | None = None,
    done: "Mapping[Partition, Rewritten] | None" = None,
) -> RewriteReport:
    """Write partitions anew as one snapshot; what others have `done` of them counts as long as it is current.

    Waits for an automatic compaction of the same open table, which it would only race with.
    """
    with context.upkeep.turn:
        rewrite = _Rewrite(context, placing_of, progress, done or {})
        try:
            with span("lsmerge.rewrite", context.store.uri):
                report = rewrite.until_published()
            _note(context, report)
            return report
        except BaseException:
            if not rewrite.may_be_published:
                rewrite.discard()
            raise


def _note(context: TableContext, report: RewriteReport) -> None:
    if report.snapshot_id is None:
        return
    context.counters.add(
        rewrites=1,
        rewrite_rows_written=report.rows_written,
        rewrite_bytes_written=report.bytes_written,
    )
    logger.info("%s: %s", context.store.uri, report)


def live_partitions(version: Version) -> list[Partition]:
    """The partitions that hold files, in order."""
    return sorted(version.bucket_counts, key=partition_order)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A partition that was written anew as a whole: the files it had, and what takes their place."""

    inputs: tuple[DataFile, ...]
    files: list[DataFile]
    changelog: list[DataFile]

    def is_current(self, live: Iterable[DataFile]) -> bool:
        """Whether the partition still has these files, and beside them only what writers added."""
        levels = {file.name: file.level for file in live}
        kept = all(levels.pop(file.name, None) == file.level for file in self.inputs)
        return kept and not any(levels.values())


def rewritten(
    context: TableContext,
    version: Version,
    places: Sequence[BucketId],
    write: Callable[[], Sequence[DataFile]],
) -> Rewritten:
    """What `write` makes of all files of some buckets, and the changes that this tells; nothing stays if it fails.

    All rows go to the top level, which is what the producer `full-compaction` tells changes of.
    """
    inputs = tuple(file for place in places for file in version.files(place))
    top = context.options.num_levels - 1
    made: list[DataFile] = []
    changelog: list[DataFile] = []
    try:
        for place in places:
            changelog += changelog_of_compaction(context, place, version.runs(place), top)
        made += write()
        if rows_of(made) > rows_of(inputs):
            raise LsmergeError(f"writing {list(places[0].partition)} anew gave more rows than read")
    except BaseException:
        discard(context, [*made, *changelog])
        raise
    return Rewritten(inputs, made, changelog)


def checked_count(what: str, given: Any, most: int) -> int:
    """A number of buckets as a user gives it."""
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise InvalidOptionError(f"{what} {given!r} buckets: give a whole number")
    count = operator.index(given)
    if not 1 <= count <= most:
        raise InvalidOptionError(f"{what} {count} buckets: accepted: 1 to {most}")
    return count


class _Rewrite:
    """Some partitions, and what takes the place of their files."""

    def __init__(
        self,
        context: TableContext,
        placing_of: PlacingOf,
        progress: ProgressHook | None,
        done: Mapping[Partition, Rewritten],
    ) -> None:
        self._context = context
        self._placing_of = placing_of
        self._placing = placing_of(context)
        self._progress = progress
        self._done: dict[Partition, Rewritten] = dict(done)
        # By the name of a file that came after its partition was written anew: the same rows, placed anew.
        self._late: dict[str, tuple[Partition, tuple[DataFile, ...]]] = {}
        # From the moment of publishing on, until it is known that nothing was: an interrupt tells neither.
        self.may_be_published = False

    def until_published(self) -> RewriteReport:
        """Begins again when somebody takes inputs away; what was done of other partitions stays."""
        for _ in range(MAX_ATTEMPTS - 1):
            try:
                return self._attempt()
            except CommitConflictError:
                self._refresh()
        return self._attempt()

    def discard(self) -> None:
        """Delete everything that was written."""
        for partition in list(self._done):
            self._forget(partition)
        self._placing.discard()

    def _refresh(self) -> None:
        """Under another schema nothing that was done counts."""
        context = refreshed(self._context)
        if context is not self._context:
            self.discard()
            self._context, self._placing = context, self._placing_of(context)

    def _attempt(self) -> RewriteReport:
        latest = self._context.snapshots.latest()
        version = None if latest is None else self._context.versions.load(latest)
        partitions = [] if version is None else self._placing.partitions(version)
        self._keep_current(version, set(partitions))
        if version is None or not partitions:
            return NOTHING_DONE
        self._rewrite_all(version, [p for p in partitions if p not in self._done])
        return self._report(self._publish())

    def _keep_current(self, version: Version | None, wanted: set[Partition]) -> None:
        for partition, done in list(self._done.items()):
            live = () if version is None else version.partition_files([partition])
            if partition not in wanted or not done.is_current(live):
                self._forget(partition)

    def _forget(self, partition: Partition) -> None:
        done = self._done.pop(partition)
        discard(self._context, [*done.files, *done.changelog])
        late = [name for name, (place, _) in self._late.items() if place == partition]
        self._forget_late(late)
        self._placing.forget(partition)

    def _forget_late(self, names: Iterable[str]) -> None:
        for name in names:
            discard(self._context, self._late.pop(name)[1])

    def _rewrite_all(self, version: Version, partitions: list[Partition]) -> None:
        """Partitions as the version shows them."""
        places = [place for place in version.places() if place.partition in set(partitions)]
        rows = sum(file.run.num_rows for file in version.partition_files(partitions))
        tally = Tally(self._progress, len(places), self._placing.passes * rows)
        try:
            with reading(self._context, version.snapshot):
                for partition in partitions:
                    self._rewrite(version, partition, tally)
        except SnapshotExpiredError as error:
            raise CommitConflictError(
                f"the files to write anew are gone: a compaction was faster, and {error}"
            ) from error

    def _rewrite(self, version: Version, partition: Partition, tally: Tally) -> None:
        places = [place for place in version.places() if place.partition == partition]
        done = rewritten(
            self._context, version, places, lambda: self._placing.rewrite(version, partition, tally)
        )
        self._done[partition] = done
        failpoint("rewrite.after-partition")
        tally.settle(self._placing.passes * rows_of(done.inputs), buckets=len(places))

    def _publish(self) -> Snapshot:
        nothing = Edit(self._placing.kind, self._context.schema.id)
        request = CommitRequest(nothing, self._context.env.new_id(), rebase=self._rebased)
        failpoint("rewrite.before-publish")
        self.may_be_published = True
        try:
            snapshot = self._context.committer.commit(request)
        except CommitUnknownError:
            raise
        except LsmergeError:
            self.may_be_published = False
            raise
        failpoint("rewrite.after-publish")
        return snapshot

    def _report(self, snapshot: Snapshot) -> RewriteReport:
        added = [file for done in self._done.values() for file in done.files]
        added += [part for _, parts in self._late.values() for part in parts]
        return RewriteReport(
            snapshot.id,
            len(self._done),
            sum(len(done.inputs) for done in self._done.values()) + len(self._late),
            len(added),
            sum(file.run.num_rows for file in added),
            sum(file.run.size_bytes for file in added),
        )

    def _rebased(self, latest: Snapshot | None) -> Edit:
        """Replaces the inputs, and what came since."""
        version = None if latest is None else self._context.versions.load(latest)
        inputs = [file for done in self._done.values() for file in done.inputs]
        late = self._late_files(version, {file.name for file in inputs})
        self._forget_late(self._late.keys() - {file.name for file in late})
        for file in late:
            if file.name not in self._late:
                self._late[file.name] = file.place.partition, self._placing.follow(file)
        placed_anew = (part for file in late for part in self._late[file.name][1])
        made = (file for done in self._done.values() for file in (*done.files, *done.changelog))
        edit = Edit(
            self._placing.kind,
            self._context.schema.id,
            add=(*made, *placed_anew),
            remove=(*inputs, *late),
            num_buckets=self._context.options.bucket,
        )
        return self._placing.completed(edit, version)

    def _late_files(self, version: Version | None, known: set[str]) -> list[DataFile]:
        """Files that the partitions have got since, in the order of their rows."""
        live = () if version is None else version.partition_files(list(self._done))
        late = sorted((f for f in live if f.name not in known), key=lambda f: f.sequence_max)
        if any(file.level > 0 for file in late):
            raise CommitConflictError(
                "a partition was compacted while it was written anew; nothing was published, do it again"
            )
        return late
