"""Tables whose key leaves the partition open: a key lives in one partition at a time.

What a row does that names another partition than the one its key lives in depends on the engine:

    deduplicate                    deletes it there and lives here from now on
    partial-update, aggregation    is written where the key lives, with that partition's values
    first-row                      is dropped

Where keys live is asked of the table (homes.py) when rows come, and asked again of every snapshot that others
publish before the commit. A retract without partition values, as `delete` makes it, of a key that lives nowhere does
nothing.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import pyarrow as pa

from lsmerge.engine.buckets import split_by_partition
from lsmerge.engine.context import TableContext
from lsmerge.engine.hash_index import BucketSet, HashIndex, key_hashes
from lsmerge.engine.hash_layers import Layer, LivingLayers, Piece, followed
from lsmerge.engine.homes import Homes
from lsmerge.engine.located import LocatedRows, rounds
from lsmerge.engine.lookup import POSITION, merged_rows, numbered
from lsmerge.engine.placement import DynamicPlacer, Placed, RebaseStep
from lsmerge.engine.places import by_bucket, index_at
from lsmerge.engine.unpublished import UnpublishedRuns
from lsmerge.merge.groups import Groups
from lsmerge.meta.data_file import BucketId, DataFile, Edit, Partition
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.version import Version
from lsmerge.options import TableOptions
from lsmerge_native.reduce import pick_first, pick_last


class Crossing(Protocol):
    """What an engine does with rows whose key lives in another partition."""

    def route(self, homes: Homes, batch: pa.RecordBatch) -> pa.RecordBatch:
        """New rows as they are to be written."""

    @property
    def stays(self) -> bool:
        """Whether rows that were written stay when their key turns out to live elsewhere."""

    def for_home(self, rows: LocatedRows) -> pa.RecordBatch:
        """What such rows give to the partition where their key lives."""


class Moving:
    """Deduplicate: the newest row decides where its key lives."""

    stays = True

    def route(self, homes: Homes, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow.compute as pc

        newest = LocatedRows.of(homes, batch, pick_last).only_chosen()
        away = newest.is_elsewhere
        # A delete is wanted where the key lives, and nowhere else.
        spent = pc.or_(pc.and_(newest.is_retract, away), newest.is_stray)
        written = newest.batch.filter(pc.invert(spent))
        return pa.concat_batches([newest.filter(away).deletes_at_home(), written])

    def for_home(self, rows: LocatedRows) -> pa.RecordBatch:
        return rows.deletes_at_home()


class Staying:
    """Partial-update and aggregation: the first row decides where its key lives."""

    stays = False

    def route(self, homes: Homes, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow.compute as pc

        rows = LocatedRows.of(homes, batch, pick_first)
        while rows.is_stray.true_count:
            # The next row of the key is its first then.
            rows = LocatedRows.of(homes, rows.batch.filter(pc.invert(rows.is_stray)), pick_first)
        return rows.moved_to(pc.if_else(rows.is_elsewhere, rows.home, rows.chosen_here))

    def for_home(self, rows: LocatedRows) -> pa.RecordBatch:
        return rows.moved_to(rows.home)


class Ignoring:
    """First-row: a key that lives somewhere takes no further row."""

    stays = False

    def route(self, homes: Homes, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow.compute as pc

        oldest = LocatedRows.of(homes, batch, pick_first).only_chosen()
        return oldest.batch.filter(pc.invert(oldest.is_elsewhere))

    def for_home(self, rows: LocatedRows) -> pa.RecordBatch:
        return rows.batch.slice(0, 0)


_CROSSINGS: Mapping[str, Callable[[], Crossing]] = {
    "deduplicate": Moving,
    "partial-update": Staying,
    "aggregation": Staying,
    "first-row": Ignoring,
}


def _removes_keys(options: TableOptions) -> bool:
    """Whether a retract may remove what is there of a key."""
    return bool(
        options.delete_behavior == "allow"
        or options.aggregation_remove_record_on_delete
        or options.partial_update_remove_record_on_delete
    )


class CrossPartitionPlacer:
    """Places rows by where their keys live, then by dynamic bucket."""

    def __init__(
        self,
        context: TableContext,
        runs: UnpublishedRuns,
        spill: Callable[[BucketId], None],
        sharers: int = 1,
    ) -> None:
        self._context = context
        self._runs = runs
        self._spill = spill
        self._dynamic = DynamicPlacer(context, runs, sharers)
        self._crossing = _CROSSINGS[context.options.merge_engine]()
        self._removes = not self._crossing.stays and _removes_keys(context.options)
        self._fresh: list[Layer] = []

    @property
    def steps(self) -> tuple[RebaseStep, ...]:
        return (self._follow, self._dynamic.rebase)

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[BucketId, pa.RecordBatch]]:
        if batch.num_rows == 0:
            return
        # Where a retract may remove a key, rows that come after it may live elsewhere.
        parts = rounds(self._context.schema, batch) if self._removes else (batch,)
        for part in parts:
            yield from self._dynamic.split(self._crossing.route(self._homes(), part))

    def count_of(self, partition: Partition) -> int:
        return self._dynamic.count_of(partition)

    def hand_over(self) -> Placed:
        return self._dynamic.hand_over()

    def adopt(self, files: Sequence[DataFile], placed: Placed) -> None:
        """As the dynamic placer does. Requires: no other adopted run has rows of the same keys."""
        self._dynamic.adopt(files, placed)

    def discard(self) -> None:
        self._dynamic.discard()

    def _homes(self) -> Homes:
        """Where keys live, the rows of this commit included."""
        version = self._dynamic.version
        stored = version.indexed_partitions if version else ()
        partitions = list(dict.fromkeys((*stored, *self._dynamic.partitions)))
        layers = [self._context.key_map.at(version), self._fresh_layers()]
        return Homes(self._context, version, partitions, layers, self._own_files)

    def _fresh_layers(self) -> LivingLayers:
        """The hashes that this writer was the first to place."""
        sets: dict[Hashable, tuple[Partition, BucketSet]] = {
            item.hashes: (partition, item) for partition, item in self._dynamic.fresh
        }
        covered = {source.piece.key for layer in self._fresh for source in layer.sources}
        come = [
            Piece(item.hashes, partition, len(item.hashes))
            for partition, item in sets.values()
            if item.hashes not in covered
        ]

        def load(piece: Piece) -> HashIndex:
            return HashIndex([sets[piece.key][1]])

        self._fresh = list(followed(self._fresh, sets.keys(), come, load))
        return LivingLayers(self._fresh, sets.keys())

    def _own_files(self, place: BucketId) -> list[DataFile]:
        self._spill(place)
        return [file for file in self._runs.files if file.place == place]

    def _follow(self, latest: Snapshot | None, edit: Edit) -> Edit:
        """Find the keys that others moved before `latest`, and treat our rows of them as if they came now."""
        version = None if latest is None else self._context.versions.load(latest)
        # The dynamic placer, whose step comes next, keeps the version that the rows were placed by.
        if version is not None and version is not self._dynamic.version:
            self._dynamic.relocate(version)
            for file in list(self._runs.files):
                self._follow_run(file, version)
        return replace(edit, add=tuple(self._runs.files))

    def _follow_run(self, file: DataFile, version: Version) -> None:
        """Write a run anew if keys of it live elsewhere."""
        places: dict[BucketId, None] = {}
        is_changed = False
        for batch in self._runs.rows(file):
            parts = self._parts(file, version, batch)
            is_changed |= parts[file.place] is not batch or len(parts) > 1
            places.update(dict.fromkeys(parts))
        if not is_changed:
            return
        replacement = []
        for place in places:

            def part(batch: pa.RecordBatch, place: BucketId = place) -> pa.RecordBatch:
                return self._parts(file, version, batch).get(place, batch.slice(0, 0))

            replacement += self._runs.rewrite(file, place, part)
        self._runs.replace(file, replacement)

    def _parts(
        self, file: DataFile, version: Version, batch: pa.RecordBatch
    ) -> dict[BucketId, pa.RecordBatch]:
        """What the rows of a run become, by place, now that the table is at `version`."""
        import pyarrow.compute as pc

        rows = LocatedRows.of(self._homes_at(version, file), batch, pick_first)
        away = rows.is_elsewhere
        if away.true_count == 0:
            return {file.place: batch}
        parts = {file.place: batch if self._crossing.stays else batch.filter(pc.invert(away))}
        for_home = self._crossing.for_home(self._undecided(rows.filter(away)))
        for partition, members in split_by_partition(self._context.schema.partition_by, for_home):
            hashes = key_hashes(self._context.schema, members)
            buckets = index_at(self._context, version, partition).buckets_of(hashes)
            parts |= {BucketId(partition, b): rows for b, rows in by_bucket(members, buckets)}
        return parts

    def _homes_at(self, version: Version, file: DataFile) -> Homes:
        """Where keys live before the rows of one of our runs."""

        def earlier(place: BucketId) -> list[DataFile]:
            # Rows that stay leave their deletes to `_undecided`, which looks at all our runs.
            own = [] if self._crossing.stays else self._runs.files[: self._runs.files.index(file)]
            return [other for other in own if other.place == place]

        layers = [self._context.key_map.at(version)]
        return Homes(self._context, version, version.indexed_partitions, layers, earlier)

    def _undecided(self, rows: LocatedRows) -> LocatedRows:
        """Without the keys for which this commit has rows at home that say what becomes of them there."""
        import pyarrow.compute as pc

        if not self._crossing.stays:
            return rows
        decided = [pa.array([], pa.int64())]
        keys = numbered(rows.batch.select(list(self._context.schema.primary_key)))
        for number in rows.home.unique().to_pylist():
            members = keys.filter(pc.equal(rows.home, pa.scalar(number, pa.int32())))
            decided.append(self._written_to(rows.partitions[number], members))
        positions = keys.column(POSITION)
        is_decided = pc.is_in(positions, value_set=pa.concat_arrays(decided))
        return rows.filter(pc.invert(is_decided))

    def _written_to(self, partition: Partition, keys: pa.RecordBatch) -> pa.Array:
        """The positions of the keys of which this commit has rows in a partition."""
        names = list(self._context.schema.trimmed_key)

        def all_keys(groups: Groups) -> pa.RecordBatch:
            return groups.take(pick_first(groups.plan), names)

        files = [file for file in self._runs.files if file.place.partition == partition]
        found = merged_rows(self._context, files, keys, all_keys)
        return pa.array([], pa.int64()) if found is None else found.column(POSITION)
