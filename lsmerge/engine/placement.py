"""Where rows go: partition by value; bucket by hash (fixed), or by an index of the hashes met so far (dynamic).

A dynamic bucket is chosen when a hash is first met, and changes only if the partition is sort-compacted or rolled back
over that. Two writers may meet the same new hash at once and choose differently; the later commit sees what the
earlier one chose, moves its own rows there and publishes only the choices that are still its own. Where an index was
made anew, all rows of a commit are placed again. So at every snapshot a hash has one bucket.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from lsmerge.engine.bucket_assignment import BucketRules, assign
from lsmerge.engine.bucket_counts import BucketCounts
from lsmerge.engine.buckets import split_by_bucket, split_by_partition
from lsmerge.engine.context import TableContext
from lsmerge.engine.hash_index import (
    BucketSet,
    HashIndex,
    ascending,
    discard_indexes,
    foldable,
    key_hashes,
)
from lsmerge.engine.parallel import ordered_map
from lsmerge.engine.places import by_bucket, index_at
from lsmerge.engine.resplit import resplit_all
from lsmerge.engine.unpublished import UnpublishedRuns
from lsmerge.meta.bucket_index import IndexFile, write_index
from lsmerge.meta.data_file import BucketId, DataFile, Edit, Partition
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.version import Version

# One step of adapting an edit to the snapshot it lands on; steps are chained, each taking the edit of the one before.
RebaseStep: TypeAlias = Callable[[Snapshot | None, Edit], Edit]


# Runs that came by different layouts are placed anew whatever the layout of the snapshot that they land on.
OF_SEVERAL_LAYOUTS = -1


class Placed(NamedTuple):
    """The hashes that a writer was the first to place, one file a partition, and the snapshot it placed them by.

    `layout` says since when hashes were in the buckets that this snapshot has for them.
    """

    indexes: tuple[IndexFile, ...] = ()
    snapshot_id: int = 0
    layout: int = 0


class Placer(Protocol):
    """Gives the rows of one commit their places."""

    @property
    def steps(self) -> tuple[RebaseStep, ...]:
        """What must be done anew whenever the snapshot changes on which the commit lands."""

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[BucketId, pa.RecordBatch]]:
        """The rows of each bucket, in arrival order."""

    def count_of(self, partition: Partition) -> int:
        """How many buckets rows of the partition are split into; 0 if something else than their number decides."""

    def hand_over(self) -> Placed:
        """Make the runs, and what was placed, such that another process can go on with them."""

    def adopt(self, files: Sequence[DataFile], placed: Placed) -> None:
        """Go on with what another process handed over; its rows come after all so far."""

    def discard(self) -> None:
        """Delete what was written for a commit that does not happen."""


class FixedPlacer:
    """Fixed buckets: the hash alone decides, among as many buckets as the partition has.

    All runs are split by one view of the counts. Where a partition was rescaled before the commit lands, its runs are
    split anew.
    """

    def __init__(self, context: TableContext, runs: UnpublishedRuns) -> None:
        self._context = context
        self._runs = runs

    @cached_property
    def _counts(self) -> BucketCounts:
        return BucketCounts.for_writing(self._context)

    @property
    def steps(self) -> tuple[RebaseStep, ...]:
        return (self._rebase,)

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[BucketId, pa.RecordBatch]]:
        context = self._context
        return split_by_bucket(context.schema, context.options, batch, self._counts.of)

    def count_of(self, partition: Partition) -> int:
        return self._counts.of(partition)

    def hand_over(self) -> Placed:
        self._count()
        return Placed()

    def adopt(self, files: Sequence[DataFile], placed: Placed) -> None:  # noqa: ARG002
        self._runs.adopt(files)

    def discard(self) -> None:
        """Nothing but runs was written."""

    def _rebase(self, latest: Snapshot | None, edit: Edit) -> Edit:
        """The runs with their bucket counts, which are those of `latest`."""
        self._count()
        counts = BucketCounts(self._context, latest)
        wanted = [(file, counts.of(file.place.partition)) for file in self._runs.files]
        stale = [(file, count) for file, count in wanted if file.num_buckets != count]
        for file, parts in resplit_all(self._context, stale):
            self._runs.replace(file, parts)
        self._counts = counts
        return replace(edit, add=tuple(self._runs.files), layout=counts.layout)

    def _count(self) -> None:
        """Let the runs say what count they were split by."""
        self._runs.files[:] = [
            file if file.num_buckets else _counted(file, self._counts) for file in self._runs.files
        ]


def _counted(file: DataFile, counts: BucketCounts) -> DataFile:
    return replace(file, num_buckets=counts.of(file.place.partition))


@dataclass(slots=True)
class _Places:
    """A partition's hashes: those placed in a snapshot, and those that this writer placed since."""

    known: HashIndex
    fresh: HashIndex = field(default_factory=HashIndex)

    @property
    def index(self) -> HashIndex:
        return HashIndex((*self.known.sets, *self.fresh.sets))


class DynamicPlacer:
    """Dynamic buckets: the bucket that the index names, or one with room for a new hash."""

    def __init__(self, context: TableContext, runs: UnpublishedRuns, sharers: int = 1) -> None:
        self._context = context
        self._runs = runs
        self._rules = BucketRules.of(context.options)
        self._sharers = sharers
        latest = context.snapshots.latest()
        self.version = None if latest is None else context.versions.load(latest)
        self._layout = _layout(self.version)
        self._partitions: dict[Partition, _Places] = {}
        self._written: list[IndexFile] = []

    @property
    def steps(self) -> tuple[RebaseStep, ...]:
        return (self.rebase,)

    @property
    def partitions(self) -> list[Partition]:
        """The partitions that this writer has placed rows in."""
        return list(self._partitions)

    @property
    def fresh(self) -> Iterator[tuple[Partition, BucketSet]]:
        """The hashes that this writer was the first to place."""
        for partition, places in self._partitions.items():
            yield from ((partition, item) for item in places.fresh.sets)

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[BucketId, pa.RecordBatch]]:
        schema = self._context.schema
        for partition, rows in split_by_partition(schema.partition_by, batch):
            buckets = self._place(partition, key_hashes(schema, rows))
            for bucket, members in by_bucket(rows, buckets):
                yield BucketId(partition, bucket), members

    def count_of(self, partition: Partition) -> int:  # noqa: ARG002
        return 0

    def rebase(self, latest: Snapshot | None, edit: Edit) -> Edit:
        """Give way to what others placed before `latest`, and publish what is newly placed."""
        self.discard()
        version = None if latest is None else self._context.versions.load(latest)
        self.relocate(version)
        folded: list[IndexFile] = []
        contents: list[tuple[Partition, HashIndex]] = []
        for partition, places in self._partitions.items():
            if version is not self.version:
                self._give_way(partition, places, index_at(self._context, version, partition))
            if len(places.fresh):
                small = self._foldable(version, partition, places.fresh)
                index = HashIndex((*self._context.indexes.load(small).sets, *places.fresh.sets))
                contents.append((partition, index.merged()))
                folded += small
        self._write(contents)
        self.version = version
        return replace(
            edit,
            add=tuple(self._runs.files),
            add_index=tuple(self._written),
            remove_index=tuple(folded),
            layout=self._layout,
        )

    def relocate(self, version: Version | None) -> None:
        """Move the rows written so far to the buckets that `version` has for them, if its index was made anew."""
        if _layout(version) == self._layout:
            return
        self._layout = _layout(version)
        own = (file.place.partition for file in self._runs.files)
        for partition in dict.fromkeys([*self._partitions, *own]):
            known = index_at(self._context, version, partition)
            places = _Places(known, self._unknown(partition, known))
            for file in self._own_files(partition):
                self._runs.replace(file, self._replaced(file, places.index))
            self._partitions[partition] = places

    def _own_files(self, partition: Partition) -> list[DataFile]:
        return [file for file in self._runs.files if file.place.partition == partition]

    def _unknown(self, partition: Partition, known: HashIndex) -> HashIndex:
        """The hashes of this writer's rows that an index does not have, in the first bucket that has one of them."""
        fresh = HashIndex()
        for file in self._own_files(partition):
            for batch in self._runs.rows(file):
                hashes = ascending(key_hashes(self._context.schema, batch))
                new = fresh.missing(known.missing(hashes))
                fresh = fresh.with_hashes(file.place.bucket, new)
        return fresh

    def hand_over(self) -> Placed:
        fresh = ((partition, places.fresh) for partition, places in self._partitions.items())
        self._write([(partition, index.merged()) for partition, index in fresh if len(index)])
        snapshot_id = self.version.snapshot.id if self.version else 0
        return Placed(tuple(self._written), snapshot_id, self._layout)

    def adopt(self, files: Sequence[DataFile], placed: Placed) -> None:
        self._runs.adopt(files)
        if placed.snapshot_id != (self.version.snapshot.id if self.version else 0):
            self.version = None  # whatever the newest snapshot has placed is looked at then
        if placed.layout != self._layout:
            self._layout = OF_SEVERAL_LAYOUTS
        for index in placed.indexes:
            fresh = self._context.indexes.load([index])
            self._join(index.partition, files, fresh)

    def _join(self, partition: Partition, files: Sequence[DataFile], fresh: HashIndex) -> None:
        """Add what the writer of some runs placed; where an earlier one has placed a hash, its rows go there."""
        places = self._partitions.setdefault(partition, _Places(HashIndex()))
        met, moved = _met(fresh, places.fresh)
        for file in files:
            if file.place.partition == partition and file.place.bucket in moved:
                self._runs.replace(file, self._replaced(file, places.fresh))
        for bucket, hashes in fresh.without(met).by_bucket():
            places.fresh = places.fresh.with_hashes(bucket, hashes)

    def _place(self, partition: Partition, hashes: pa.Array) -> pa.Array:
        """The bucket of each hash; new hashes are placed."""
        import pyarrow.compute as pc

        places = self._places(partition)
        found = places.index.buckets_of(hashes)
        missing = pc.less(found, pa.scalar(0, pa.int32()))
        new = hashes.filter(missing).unique()
        if len(new) == 0:
            return found
        counts = self._rules.shares(places.known.counts, self._sharers)
        counts.update(places.fresh.counts)
        for bucket, some in assign(counts, new, self._rules.shared_by(self._sharers)):
            places.fresh = places.fresh.with_hashes(bucket, ascending(some))
        return pc.if_else(missing, places.fresh.buckets_of(hashes), found)

    def _places(self, partition: Partition) -> _Places:
        if partition not in self._partitions:
            known = index_at(self._context, self.version, partition)
            self._partitions[partition] = _Places(known)
        return self._partitions[partition]

    def _give_way(self, partition: Partition, places: _Places, known: HashIndex) -> None:
        """Rows whose hash somebody else placed meanwhile go where it was placed."""
        places.known = known
        met, moved = _met(places.fresh, known)
        if len(met) == 0:
            return
        for file in self._own_files(partition):
            if file.place.bucket in moved:
                self._runs.replace(file, self._replaced(file, known))
        places.fresh = places.fresh.without(met)

    def _replaced(self, file: DataFile, known: HashIndex) -> list[DataFile]:
        """The run cut by the bucket that its rows belong to; hashes not known elsewhere stay."""
        here = pa.scalar(file.place.bucket, pa.int32())

        def buckets(batch: pa.RecordBatch) -> pa.Array:
            import pyarrow.compute as pc

            found = known.buckets_of(key_hashes(self._context.schema, batch))
            return pc.if_else(pc.less(found, pa.scalar(0, pa.int32())), here, found)

        def of_bucket(bucket: int) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
            import pyarrow.compute as pc

            wanted = pa.scalar(bucket, pa.int32())
            return lambda batch: batch.filter(pc.equal(buckets(batch), wanted))

        met = {
            number
            for batch in self._runs.rows(file)
            for number in buckets(batch).unique().to_pylist()
        }
        parts = []
        for bucket in sorted(met):
            place = BucketId(file.place.partition, bucket)
            parts += self._runs.rewrite(file, place, of_bucket(bucket))
        return parts

    def _foldable(
        self, version: Version | None, partition: Partition, fresh: HashIndex
    ) -> list[IndexFile]:
        """The small index files of before that are merged with the new hashes."""
        there = version.index_files(partition) if version else []
        by_size = sorted(there, key=lambda file: file.num_hashes)
        return by_size[: foldable([file.num_hashes for file in there], len(fresh))]

    def _write(self, contents: Sequence[tuple[Partition, HashIndex]]) -> None:
        """An index file for each partition, side by side: each waits for the disk."""
        context, written = self._context, self._written
        named = [(context.env.new_id(), context.env.now_ms(), *content) for content in contents]

        def write(item: tuple[str, int, Partition, HashIndex]) -> IndexFile:
            uid, now_ms, partition, content = item
            file = write_index(context.store, uid, partition, content.stored(), now_ms)
            context.indexes.keep(file, content)
            written.append(file)  # also if another one fails
            return file

        self._written = list(ordered_map(write, named))

    def discard(self) -> None:
        discard_indexes(self._context.store, self._written)
        self._written = []


def _layout(version: Version | None) -> int:
    """Since when hashes are in the buckets they are in."""
    return 0 if version is None else version.snapshot.layout_since


def _met(fresh: HashIndex, known: HashIndex) -> tuple[pa.Array, set[int]]:
    """The fresh hashes that are known after all, and the fresh buckets of those known in another one."""
    import pyarrow.compute as pc

    met, moved = [pa.array([], pa.uint32())], set()
    for bucket, hashes in fresh.by_bucket():
        found = known.buckets_of(hashes)
        is_known = pc.greater_equal(found, pa.scalar(0, pa.int32()))
        met.append(hashes.filter(is_known))
        if pc.any(pc.and_(is_known, pc.not_equal(found, pa.scalar(bucket, pa.int32())))).as_py():
            moved.add(bucket)
    return pa.concat_arrays(met), moved
