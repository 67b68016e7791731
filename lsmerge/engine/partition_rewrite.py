"""Whole partitions written anew beside writers who go on: what rescaling and sort-compacting have in common.

    files of the partitions -> the same rows elsewhere -> at publishing, what came meanwhile follows -> one snapshot

Rows are composed as in any compaction, never resolved, so later rows still find all they need. Level-0 files that
writers commit meanwhile are placed anew when the rewrite lands. A compaction, overwrite or rewrite that takes its
inputs away makes it begin again from what they left, a few times; then it raises CommitConflictError and has changed
nothing.
Followers of the changelog see nothing, except with the producer `full-compaction`: like a full compaction it tells
what came since the last one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from lsmerge.engine.context import TableContext
from lsmerge.engine.producer import changelog_of_compaction
from lsmerge.engine.progress import ProgressHook, Tally
from lsmerge.engine.run_output import discard
from lsmerge.engine.schema_views import reading, refreshed
from lsmerge.errors import (
    CommitConflictError,
    CommitUnknownError,
    LsmergeError,
    SnapshotExpiredError,
)
from lsmerge.meta.commit import CommitRequest
from lsmerge.meta.data_file import BucketId, CommitKind, DataFile, Edit, Partition
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.version import Version, partition_order

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

    def rewrite(self, version: Version, partition: Partition, tally: Tally) -> list[DataFile]:
        """The rows of a partition in new files of the top level; nothing stays if it fails."""

    def follow(self, file: DataFile) -> tuple[DataFile, ...]:
        """The rows of a level-0 file that came after the rewrite, where they belong now."""

    def completed(self, edit: Edit, version: Version | None, /) -> Edit:
        """The edit, which lands on `version`, with what else it must publish."""

    def discard(self) -> None:
        """Delete what `completed` made."""


# The partitions to write anew as a version shows them, and how; None if there is nothing to do.
Choose = Callable[[TableContext, Version], tuple[Sequence[Partition], Placing] | None]


def rewrite_partitions(
    context: TableContext, choose: Choose, progress: ProgressHook | None = None
) -> RewriteReport:
    """Write partitions anew as one snapshot.

    Waits for an automatic compaction of the same open table, which it would only race with.
    """
    with context.upkeep.turn:
        for _ in range(MAX_ATTEMPTS - 1):
            try:
                return _attempt(context, choose, progress)
            except CommitConflictError:
                context = refreshed(context)
        return _attempt(context, choose, progress)


def live_partitions(version: Version) -> list[Partition]:
    """The partitions that hold files, in order."""
    return sorted(version.bucket_counts, key=partition_order)


def _attempt(context: TableContext, choose: Choose, progress: ProgressHook | None) -> RewriteReport:
    latest = context.snapshots.latest()
    version = None if latest is None else context.versions.load(latest)
    chosen = None if version is None else choose(context, version)
    if version is None or chosen is None:
        return NOTHING_DONE
    rewrite = _Rewrite(context, version, *chosen)
    try:
        rewrite.rewrite_all(progress)
        snapshot = rewrite.publish()
    except CommitUnknownError:
        raise  # the new files may be referenced
    except BaseException:
        rewrite.discard()
        raise
    return rewrite.report(snapshot)


class _Rewrite:
    """The files of some partitions, and what takes their place."""

    def __init__(
        self,
        context: TableContext,
        version: Version,
        partitions: Sequence[Partition],
        placing: Placing,
    ) -> None:
        self._context = context
        self._version = version
        self._partitions = partitions
        self._placing = placing
        self._inputs = version.partition_files(partitions)
        self._made: list[DataFile] = []
        # By the name of a file that came after the rewrite began: the same rows, placed anew.
        self._late: dict[str, tuple[DataFile, ...]] = {}
        self._changelog: list[DataFile] = []

    def rewrite_all(self, progress: ProgressHook | None) -> None:
        """All partitions, as the version shows them."""
        places = [p for p in self._version.places() if p.partition in set(self._partitions)]
        rows = self._placing.passes * sum(file.run.num_rows for file in self._inputs)
        tally = Tally(progress, len(places), rows)
        try:
            with reading(self._context, self._version.snapshot):
                for partition in self._partitions:
                    self._rewrite(partition, tally)
        except SnapshotExpiredError as error:
            raise CommitConflictError(
                f"the files to write anew are gone: a compaction was faster, and {error}"
            ) from error

    def _rewrite(self, partition: Partition, tally: Tally) -> None:
        places = [place for place in self._version.places() if place.partition == partition]
        for place in places:
            self._changelog += self._told(place)
        files = self._placing.rewrite(self._version, partition, tally)
        self._made += files
        rows_read = sum(f.run.num_rows for place in places for f in self._version.files(place))
        if sum(file.run.num_rows for file in files) > rows_read:
            raise LsmergeError(f"writing partition {list(partition)} anew gave more rows than read")
        tally.settle(self._placing.passes * rows_read, buckets=len(places))

    def _told(self, place: BucketId) -> tuple[DataFile, ...]:
        """All rows go to the top level, which is what the producer `full-compaction` tells changes of."""
        top = self._context.options.num_levels - 1
        return changelog_of_compaction(self._context, place, self._version.runs(place), top)

    def publish(self) -> Snapshot:
        nothing = Edit(self._placing.kind, self._context.schema.id)
        request = CommitRequest(nothing, self._context.env.new_id(), rebase=self._rebased)
        return self._context.committer.commit(request)

    def discard(self) -> None:
        discard(self._context, [*self._made, *self._late_parts, *self._changelog])
        self._placing.discard()

    def report(self, snapshot: Snapshot) -> RewriteReport:
        added = [*self._made, *self._late_parts]
        return RewriteReport(
            snapshot.id,
            len(self._partitions),
            len(self._inputs) + len(self._late),
            len(added),
            sum(file.run.num_rows for file in added),
            sum(file.run.size_bytes for file in added),
        )

    @property
    def _late_parts(self) -> list[DataFile]:
        return [part for parts in self._late.values() for part in parts]

    def _rebased(self, latest: Snapshot | None) -> Edit:
        """Replaces the inputs, and what came since."""
        version = None if latest is None else self._context.versions.load(latest)
        late = self._late_files(version)
        self._forget_late({file.name for file in late})
        for file in late:
            if file.name not in self._late:
                self._late[file.name] = self._placing.follow(file)
        placed_anew = (part for file in late for part in self._late[file.name])
        edit = Edit(
            self._placing.kind,
            self._context.schema.id,
            add=(*self._made, *placed_anew, *self._changelog),
            remove=(*self._inputs, *late),
            num_buckets=self._context.options.bucket,
        )
        return self._placing.completed(edit, version)

    def _late_files(self, version: Version | None) -> list[DataFile]:
        """Files that the partitions have got since, in the order of their rows."""
        known = {file.name for file in self._inputs}
        live = () if version is None else version.partition_files(self._partitions)
        late = sorted((f for f in live if f.name not in known), key=lambda f: f.sequence_max)
        if any(file.level > 0 for file in late):
            raise CommitConflictError(
                "a partition was compacted while it was written anew; nothing was published, do it again"
            )
        return late

    def _forget_late(self, live: set[str]) -> None:
        for name in [name for name in self._late if name not in live]:
            discard(self._context, self._late.pop(name))
