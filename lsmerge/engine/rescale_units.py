"""A rescale whose rows other processes write: units to do anywhere, and one snapshot of what they made.

Parts are published together, as rescale.py publishes what it made itself. A partition that somebody compacted or
overwrote meanwhile is written again by the process that publishes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lsmerge.engine.context import TableContext
from lsmerge.engine.handed_over import check_there, published_since
from lsmerge.engine.partition_rewrite import (
    NOTHING_DONE,
    RewriteReport,
    Rewritten,
    rewrite_partitions,
    rewritten,
)
from lsmerge.engine.partition_spec import select
from lsmerge.engine.progress import Tally
from lsmerge.engine.rescale import BucketCount, wanted_count
from lsmerge.engine.schema_views import reading, with_schema_id
from lsmerge.engine.splits import PinnedSnapshot, found_again
from lsmerge.errors import (
    CommitConflictError,
    InvalidOptionError,
    SnapshotExpiredError,
)
from lsmerge.meta.data_file import BucketId, DataFile, Partition
from lsmerge.meta.version import Version


@dataclass(frozen=True, slots=True)
class RescaleUnit:
    """Old buckets of a partition that share new ones, as a snapshot shows them."""

    number: int
    snapshot: PinnedSnapshot
    old: tuple[BucketId, ...]
    new: tuple[int, ...]
    count: int


@dataclass(frozen=True, slots=True)
class RescalePart:
    """What takes the place of the buckets of a unit, not published yet."""

    unit: int
    made: tuple[DataFile, ...]
    changelog: tuple[DataFile, ...]


class RescalePlan:
    """The partitions to split, by what the newest snapshot shows."""

    def __init__(self, context: TableContext, num_buckets: Any, partition: Any) -> None:
        self._context = context
        self._named = partition
        self._count = wanted_count(context, num_buckets)
        latest = context.snapshots.latest()
        self._version = None if latest is None else context.versions.load(latest)
        select(context.schema, partition, [])  # refuses a wrong name even if there is nothing to do
        self.units = tuple(self._planned()) if self._version is not None else ()

    def finish(self, parts: Sequence[RescalePart]) -> RewriteReport:
        """Publish what all units have written; nothing of it stays if that fails. What is published stays published."""
        self._check_each_once(parts)
        if self._is_published(parts):
            return NOTHING_DONE
        files = (file for part in parts for file in (*part.made, *part.changelog))
        check_there(self._context, files, "plan the job again, and run its units")
        return rewrite_partitions(self._context, self._placing, done=self._done(parts))

    def _is_published(self, parts: Sequence[RescalePart]) -> bool:
        if self._version is None:
            return False
        latest = self._context.snapshots.latest()
        published = published_since(self._context, self._version.snapshot.id, latest)
        return any(file.name in published for part in parts for file in part.made)

    def _planned(self) -> Iterator[RescaleUnit]:
        version = self._version
        assert version is not None, "an empty table has no units"
        snapshot = version.snapshot
        pinned = PinnedSnapshot(snapshot.id, snapshot.commit_uuid, self._context.schema.id)
        placing = self._placing(self._context)
        families = (f for p in placing.partitions(version) for f in placing.families(version, p))
        for number, (old, new) in enumerate(families):
            yield RescaleUnit(number, pinned, tuple(old), tuple(new), self._count)

    def _placing(self, context: TableContext) -> BucketCount:
        return BucketCount(context, self._named, self._count)

    def _check_each_once(self, parts: Sequence[RescalePart]) -> None:
        """A part that is missing would be rows that are lost."""
        given = sorted(part.unit for part in parts)
        if given != [unit.number for unit in self.units]:
            raise InvalidOptionError(
                f"finish: reports of units {given}; pass what run_unit gave for each of the "
                f"{len(self.units)} units, once"
            )

    def _done(self, parts: Sequence[RescalePart]) -> dict[Partition, Rewritten]:
        done: dict[Partition, Rewritten] = {}
        for part in sorted(parts, key=lambda part: part.unit):
            partition = self.units[part.unit].old[0].partition
            if partition not in done:
                assert self._version is not None, "units have a snapshot"
                done[partition] = Rewritten(self._version.partition_files([partition]), [], [])
            done[partition].files.extend(part.made)
            done[partition].changelog.extend(part.changelog)
        return done


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
    placing, uncounted = BucketCount(context, None, unit.count), Tally(None, 0, 0)
    done = rewritten(
        context, version, unit.old, lambda: placing.split(version, unit.old, unit.new, uncounted)
    )
    return RescalePart(unit.number, tuple(done.files), tuple(done.changelog))
