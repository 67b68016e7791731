"""Rescaling: the rows of partitions split into another number of buckets, as one snapshot.

    runs of the old buckets -> composed operands in key order -> split by Murmur3 -> new runs -> commit

Operands are kept as they are or shortened as in any compaction, never resolved, so later rows still find all they
need. Rows that writers add to a partition meanwhile are split anew when the rescale lands; a compaction, overwrite or
rescale that takes its files away makes it fail with CommitConflictError and change nothing. Followers of the changelog
see nothing of it, except with the producer `full-compaction`: like a full compaction it tells what came since the last.
"""

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

from lsmerge.engine.bucket_counts import BucketCounts
from lsmerge.engine.buckets import related_buckets, split_by_hash
from lsmerge.engine.context import TableContext
from lsmerge.engine.merging import composed_batches
from lsmerge.engine.partition_spec import select
from lsmerge.engine.producer import changelog_of_compaction
from lsmerge.engine.redistribute import Target, redistribute
from lsmerge.engine.resplit import resplit
from lsmerge.engine.run_output import discard
from lsmerge.engine.schema_views import reading, with_schema_id
from lsmerge.engine.sections import split_into_sections
from lsmerge.engine.splits import PinnedSnapshot, found_again
from lsmerge.errors import (
    CommitConflictError,
    CommitUnknownError,
    InvalidOptionError,
    LsmergeError,
    SnapshotExpiredError,
)
from lsmerge.meta.commit import CommitRequest
from lsmerge.meta.data_file import BucketId, CommitKind, DataFile, Edit, Partition
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.version import Version, partition_order

MAX_BUCKETS = 2**15 - 1


@dataclass(frozen=True, slots=True)
class RescaleReport:
    """What one rescale did; `snapshot_id` is None where all partitions had the count already."""

    snapshot_id: int | None
    partitions: int
    files_removed: int
    files_added: int
    rows_written: int
    bytes_written: int


def rescale(context: TableContext, num_buckets: Any, partition: Any = None) -> RescaleReport:
    """Split the partitions named, or all, into `num_buckets` buckets.

    Waits for an automatic compaction of the same open table, which it would only race with.
    """
    with context.upkeep.turn:
        plan = plan_rescale(context, num_buckets, partition)
        parts: list[RescalePart] = []
        try:
            parts += (rescale_part(context, unit) for unit in plan.units())
        except BaseException:
            discard(context, [file for part in parts for file in part.files])
            raise
        return plan.finish(parts)


@dataclass(frozen=True, slots=True)
class RescaleUnit:
    """Old buckets of a partition that share new ones, as a snapshot shows them."""

    snapshot: PinnedSnapshot
    partition: Partition
    old: tuple[int, ...]
    new: tuple[int, ...]
    count: int


@dataclass(frozen=True, slots=True)
class RescalePart:
    """What takes the place of the buckets of a unit, not published yet."""

    made: tuple[DataFile, ...]
    changelog: tuple[DataFile, ...]

    @property
    def files(self) -> tuple[DataFile, ...]:
        return (*self.made, *self.changelog)


def plan_rescale(context: TableContext, num_buckets: Any, partition: Any) -> "RescalePlan":
    """Which partitions are to be split, by what the newest snapshot shows."""
    count = _checked_count(context, num_buckets)
    latest = context.snapshots.latest()
    version = None if latest is None else context.versions.load(latest)
    counts = BucketCounts(context, latest)
    live = sorted(version.bucket_counts, key=partition_order) if version is not None else []
    chosen = {p: counts.of(p) for p in select(context.schema, partition, live)}
    return RescalePlan(context, version, {p: n for p, n in chosen.items() if n != count}, count)


def rescale_part(context: TableContext, unit: RescaleUnit) -> RescalePart:
    """Write the new buckets of one unit."""
    view = with_schema_id(context, unit.snapshot.schema_id)
    try:
        snapshot = found_again(view, unit.snapshot)
        with reading(view, snapshot):
            return _rewritten(view, view.versions.load(snapshot), unit)
    except SnapshotExpiredError as error:
        raise CommitConflictError(
            f"the files to rescale are gone: a compaction was faster, and {error}"
        ) from error


def _rewritten(context: TableContext, version: Version, unit: RescaleUnit) -> RescalePart:
    top = context.options.num_levels - 1
    places = [BucketId(unit.partition, bucket) for bucket in unit.old]
    # All rows go to the top level, which is what the producer `full-compaction` tells changes of.
    changelog = [
        file
        for place in places
        for file in changelog_of_compaction(context, place, version.runs(place), top)
    ]
    runs = [run for place in places for run in version.runs(place)]
    sections = split_into_sections(runs)
    try:
        made = redistribute(
            context,
            Target(unit.partition, unit.new, top, unit.count),
            lambda: composed_batches(context, sections, forget_before=0),
            lambda batch: split_by_hash(context.schema, context.options, batch, unit.count),
        )
    except BaseException:
        discard(context, changelog)
        raise
    part = RescalePart(tuple(made), tuple(changelog))
    rows_read = sum(file.run.num_rows for run in runs for file in run.files)
    if sum(file.run.num_rows for file in made) > rows_read:
        discard(context, part.files)
        raise LsmergeError(f"rescaling {list(unit.partition)} gave more rows than it read")
    return part


class RescalePlan:
    """The files of some partitions, and what takes their place."""

    def __init__(
        self,
        context: TableContext,
        version: Version | None,
        partitions: Mapping[Partition, int],
        count: int,
    ) -> None:
        self._context = context
        self._version = version
        self._partitions = partitions
        self._count = count
        self._inputs = () if version is None else version.partition_files(partitions)
        self._made: list[DataFile] = []
        # By the name of a file that came after the rewrite began: the same rows, split anew.
        self._late: dict[str, tuple[DataFile, ...]] = {}
        self._changelog: list[DataFile] = []

    def units(self) -> Iterator[RescaleUnit]:
        """Old buckets that share new ones are read together, others apart, so that few runs are open at once."""
        if self._version is None:
            return
        snapshot, count = self._version.snapshot, self._count
        pinned = PinnedSnapshot(snapshot.id, snapshot.commit_uuid, self._context.schema.id)
        for partition, old_count in self._partitions.items():
            for first in range(gcd(old_count, count)):
                old = related_buckets(first, count, old_count)
                new = related_buckets(first, old_count, count)
                yield RescaleUnit(pinned, partition, tuple(old), tuple(new), count)

    def finish(self, parts: Sequence[RescalePart]) -> RescaleReport:
        """Publish what all units have written; nothing of it stays if that fails."""
        if not self._partitions:
            return RescaleReport(None, 0, 0, 0, 0, 0)
        self._made = [file for part in parts for file in part.made]
        self._changelog = [file for part in parts for file in part.changelog]
        try:
            return self.report(self.publish())
        except CommitUnknownError:
            raise  # the new files may be referenced
        except BaseException:
            self.discard()
            raise

    def publish(self) -> Snapshot:
        nothing = Edit(CommitKind.RESCALE, self._context.schema.id)
        request = CommitRequest(nothing, self._context.env.new_id(), rebase=self._rebased)
        return self._context.committer.commit(request)

    def discard(self) -> None:
        late = [file for files in self._late.values() for file in files]
        discard(self._context, [*self._made, *late, *self._changelog])

    def report(self, snapshot: Snapshot) -> RescaleReport:
        late = [file for files in self._late.values() for file in files]
        added = [*self._made, *late]
        return RescaleReport(
            snapshot.id,
            len(self._partitions),
            len(self._inputs) + len(self._late),
            len(added),
            sum(file.run.num_rows for file in added),
            sum(file.run.size_bytes for file in added),
        )

    def _rebased(self, latest: Snapshot | None) -> Edit:
        """Replaces the inputs, and what came since."""
        late = self._late_files(latest)
        self._forget_late({file.name for file in late})
        for file in late:
            if file.name not in self._late:
                self._late[file.name] = resplit(self._context, file, self._count)
        split_anew = (made for file in late for made in self._late[file.name])
        return Edit(
            CommitKind.RESCALE,
            self._context.schema.id,
            add=(*self._made, *split_anew, *self._changelog),
            remove=(*self._inputs, *late),
            num_buckets=self._context.options.bucket,
        )

    def _late_files(self, latest: Snapshot | None) -> list[DataFile]:
        """Files that the partitions have got since, in the order of their rows."""
        known = {file.name for file in self._inputs}
        live = () if latest is None else self._live(latest)
        late = sorted((f for f in live if f.name not in known), key=lambda f: f.sequence_max)
        if any(file.level > 0 for file in late):
            raise CommitConflictError(
                "a partition was compacted while it was rescaled; nothing was published, rescale it again"
            )
        return late

    def _live(self, latest: Snapshot) -> tuple[DataFile, ...]:
        return self._context.versions.load(latest).partition_files(self._partitions)

    def _forget_late(self, live: set[str]) -> None:
        for name in [name for name in self._late if name not in live]:
            discard(self._context, self._late.pop(name))


def _checked_count(context: TableContext, num_buckets: Any) -> int:
    if context.options.bucket < 1:
        raise InvalidOptionError(
            f"rescale: the table has 'bucket' = {context.options.bucket}, so its buckets grow by themselves; "
            "only tables with a fixed number of buckets are rescaled"
        )
    if isinstance(num_buckets, bool) or not hasattr(num_buckets, "__index__"):
        raise InvalidOptionError(f"rescale to {num_buckets!r} buckets: give a whole number")
    count = operator.index(num_buckets)
    if not 1 <= count <= MAX_BUCKETS:
        raise InvalidOptionError(f"rescale to {count} buckets: accepted: 1 to {MAX_BUCKETS}")
    return count
