"""The files of a table at one snapshot, as an immutable value.

A Version holds the live manifest entries as an Arrow table; a bucket's files become objects when asked for.
"""

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import pyarrow as pa

from lsmerge.errors import LsmergeError
from lsmerge.meta import manifest
from lsmerge.meta.bucket_index import IndexFile
from lsmerge.meta.data_file import BucketId, DataFile, FileKind, Partition
from lsmerge.meta.manifest import ManifestRef
from lsmerge.meta.snapshot import Snapshot
from lsmerge.storage.object_store import ObjectStore

MAX_MANIFESTS_KEPT = 64


@dataclass(frozen=True, slots=True)
class SortedRun:
    """Files with disjoint key ranges in key order: one level-0 file, or all files of a higher level."""

    level: int
    files: tuple[DataFile, ...]

    @property
    def size_bytes(self) -> int:
        return sum(file.run.size_bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """What one commit added and removed; a file that it moved to another level is both, but has no new bytes."""

    files_added: int
    files_removed: int
    bytes_added: int
    changelog_rows: int
    changelog_bytes: int


class Version:
    """The live files of a table at one snapshot."""

    def __init__(self, snapshot: Snapshot, live: pa.Table) -> None:
        self.snapshot = snapshot
        self.live = live
        self._files: dict[BucketId, tuple[DataFile, ...]] = {}

    @cached_property
    def entries(self) -> pa.Table:
        """Those of the data files."""
        return manifest.of_kind(self.live, FileKind.DATA)

    def extended(self, snapshot: Snapshot, added: pa.Table) -> "Version":
        """The version after a commit that only added these entries; what is known of buckets is known of it."""
        live = manifest.in_few_chunks(pa.concat_tables([self.live, added]))
        version = Version(snapshot, live)
        version._files.update(self._files)
        for file in manifest.data_files(manifest.of_kind(added, FileKind.DATA)):
            if file.place in version._files:
                version._files[file.place] += (file,)
        return version

    @cached_property
    def bucket_counts(self) -> dict[Partition, int]:
        """Of each partition that holds files: how many buckets it has, 0 if no file tells."""
        return manifest.bucket_counts(self.entries)

    def places(self) -> list[BucketId]:
        """All buckets that hold files, in order."""
        return sorted(manifest.places(self.entries), key=place_order)

    def files(self, place: BucketId) -> tuple[DataFile, ...]:
        """The files of one bucket."""
        if place not in self._files:
            self._load([place])
        return self._files[place]

    def partition_files(self, partitions: Collection[Partition]) -> tuple[DataFile, ...]:
        """All files of some partitions."""
        return tuple(manifest.data_files(manifest.of_partitions(self.entries, partitions)))

    def runs(self, place: BucketId) -> list[SortedRun]:
        """The sorted runs of one bucket, newest first."""
        return sorted_runs(self.files(place))

    @cached_property
    def indexed_partitions(self) -> list[tuple[str | None, ...]]:
        """The partitions that have dynamic buckets."""
        return [manifest.partition_values(text) for text in self._index_rows]

    def index_files(self, partition: tuple[str | None, ...]) -> list[IndexFile]:
        """The index files of one partition."""
        rows = self._index_rows.get(manifest.partition_text(partition), [])
        return manifest.index_files(self._index_entries.take(pa.array(rows, pa.int64())))

    @cached_property
    def index_names(self) -> frozenset[str]:
        """The names of all index files."""
        return frozenset(self._index_entries["name"].to_pylist())

    def index_files_named(self, names: Collection[str]) -> list[IndexFile]:
        """The index files with these names."""
        import pyarrow.compute as pc

        entries = self._index_entries
        wanted = pa.array(names, pa.string())
        return manifest.index_files(entries.filter(pc.is_in(entries["name"], value_set=wanted)))

    @cached_property
    def _index_entries(self) -> pa.Table:
        return manifest.of_kind(self.live, FileKind.INDEX)

    @cached_property
    def _index_rows(self) -> dict[str, list[int]]:
        """Which entries are of which partition; only those of a partition asked for become objects."""
        rows: dict[str, list[int]] = {}
        for row, text in enumerate(self._index_entries["partition"].to_pylist()):
            rows.setdefault(text, []).append(row)
        return rows

    def contains(self, files: Collection[DataFile]) -> bool:
        """Whether every one of these files is live, at the level it is said to have."""
        import pyarrow.compute as pc

        levels = {file.name: file.level for file in files}
        names = pa.array(list(levels), pa.string())
        live = self.entries.select(["name", "level"])
        found = live.filter(pc.is_in(live["name"], value_set=names)).to_pylist()
        return {row["name"]: row["level"] for row in found} == levels

    def preload(self, places: Collection[BucketId]) -> None:
        """Materialise several buckets in one pass over the entries."""
        missing = [place for place in places if place not in self._files]
        if missing:
            self._load(missing)

    def _load(self, places: Collection[BucketId]) -> None:
        by_place: dict[BucketId, list[DataFile]] = {place: [] for place in places}
        for file in manifest.data_files(manifest.of_buckets(self.entries, places)):
            by_place.setdefault(file.place, []).append(file)
        for place in places:
            self._files[place] = tuple(by_place[place])


class VersionReader:
    """Loads versions; manifests are immutable, so what was parsed once is reused."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._newest: Version | None = None
        self._lock = threading.Lock()
        self._tables: OrderedDict[ManifestRef, pa.Table] = OrderedDict()

    def load(self, snapshot: Snapshot) -> Version:
        """The version of `snapshot`, derived from the one loaded last where it only adds a delta."""
        newest = self._newest
        if newest is not None and newest.snapshot.commit_uuid == snapshot.commit_uuid:
            return newest
        if newest is not None and newest.snapshot.manifests == snapshot.base:
            version = _following(newest, snapshot, self._read(snapshot.delta))
        else:
            tables = [self._read(ref) for ref in snapshot.manifests]
            version = Version(snapshot, manifest.live_entries(tables))
        if newest is None or snapshot.id > newest.snapshot.id:
            self._newest = version
        return version

    def delta(self, snapshot: Snapshot) -> list[DataFile]:
        """What one commit added."""
        added = manifest.added(self._read(snapshot.delta))
        return manifest.data_files(manifest.runs(added))

    def removed(self, snapshot: Snapshot) -> list[DataFile]:
        """The data files that one commit removed."""
        removed = manifest.removed(self._read(snapshot.delta))
        return manifest.data_files(manifest.of_kind(removed, FileKind.DATA))

    def change_counts(self, snapshot: Snapshot) -> ChangeCounts:
        """How much one commit added and removed."""
        import pyarrow.compute as pc

        entries = self._read(snapshot.delta)
        added, gone = manifest.added(entries), manifest.removed(entries)
        old = gone["name"].combine_chunks()
        new = added.filter(pc.invert(pc.is_in(added["name"], value_set=old)))
        changes = manifest.of_kind(new, FileKind.CHANGELOG)
        return ChangeCounts(
            files_added=added.num_rows,
            files_removed=gone.num_rows,
            bytes_added=_sum(manifest.of_kind(new, FileKind.DATA), "size_bytes"),
            changelog_rows=_sum(changes, "num_rows"),
            changelog_bytes=_sum(changes, "size_bytes"),
        )

    def tables(self, refs: Iterable[ManifestRef]) -> list[pa.Table]:
        """The entries of several manifests, in order."""
        return [self._read(ref) for ref in refs]

    def note(self, ref: ManifestRef, table: pa.Table) -> None:
        """Take the entries of a manifest from who wrote it."""
        with self._lock:
            self._tables[ref] = table
            self._tables.move_to_end(ref)
            while len(self._tables) > MAX_MANIFESTS_KEPT:
                self._tables.popitem(last=False)

    def _read(self, ref: ManifestRef) -> pa.Table:
        with self._lock:
            table = self._tables.get(ref)
        if table is None:
            table = manifest.read_manifest(self._store, ref)
        self.note(ref, table)
        return table


def _sum(entries: pa.Table, column: str) -> int:
    import pyarrow.compute as pc

    return pc.sum(entries[column]).as_py() or 0


def _following(version: Version, snapshot: Snapshot, delta: pa.Table) -> Version:
    """The version of `snapshot`, whose delta follows on `version`."""
    net = manifest.net_entries([delta])
    if manifest.removed(net).num_rows == 0:
        return version.extended(snapshot, net)
    return Version(snapshot, manifest.live_entries([version.live, net]))


def partition_order(partition: Partition) -> tuple[tuple[bool, str], ...]:
    """A total order of partitions: nulls first within a column."""
    return tuple((value is not None, value or "") for value in partition)


def place_order(place: BucketId) -> tuple[tuple[tuple[bool, str], ...], int]:
    """A total order of buckets, by partition first."""
    return partition_order(place.partition), place.bucket


def sorted_runs(files: Sequence[DataFile]) -> list[SortedRun]:
    """Group a bucket's files into sorted runs, newest first."""
    level_zero = sorted(
        (file for file in files if file.level == 0), key=lambda f: f.sequence_max, reverse=True
    )
    runs = [SortedRun(0, (file,)) for file in level_zero]
    for level in sorted({file.level for file in files} - {0}):
        members = sorted((f for f in files if f.level == level), key=lambda f: f.run.min_key)
        runs.append(SortedRun(level, tuple(members)))
    return runs


def is_by_age(runs: Sequence[SortedRun]) -> bool:
    """Whether every row of a run arrived after all rows of the runs behind it."""
    return all(
        min(file.sequence_min for file in newer.files)
        > max(file.sequence_max for file in older.files)
        for newer, older in pairwise(runs)
    )


def check_bucket(place: BucketId, files: Sequence[DataFile]) -> None:
    """The invariants that every published bucket keeps; a violation is a bug and is never published."""
    for run in sorted_runs(files):
        for left, right in zip(run.files, run.files[1:], strict=False):
            if left.run.max_key >= right.run.min_key:
                raise LsmergeError(
                    f"level {run.level} of {place} would hold overlapping files "
                    f"{left.name} and {right.name}; the commit was not published"
                )
