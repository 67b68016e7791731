"""Figures of a table's trees, per bucket and in total, for whoever tunes or watches them.

Sizes, runs and rows are those of the newest snapshot. What was written over time is counted from the snapshots that
are retained; a file that was only moved to another level was not written again.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lsmerge.engine.context import TableContext
from lsmerge.meta import manifest
from lsmerge.meta.data_file import BucketId, CommitKind
from lsmerge.meta.manifest import Action
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.version import SortedRun, Version


@dataclass(frozen=True, slots=True)
class RunStats:
    """One sorted run."""

    level: int
    files: int
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class BucketStats:
    """One bucket: its runs, newest first, and the bytes written to it by commits and by all that came after."""

    partition: tuple[tuple[str, str | None], ...]
    bucket: int
    runs: tuple[RunStats, ...]
    bytes_committed: int
    bytes_compacted: int

    @property
    def rows(self) -> int:
        """Rows stored, before they are merged."""
        return sum(run.rows for run in self.runs)

    @property
    def files(self) -> int:
        """Files of all runs."""
        return sum(run.files for run in self.runs)

    @property
    def size_bytes(self) -> int:
        """Bytes of the files of all runs."""
        return sum(run.size_bytes for run in self.runs)

    @property
    def levels(self) -> tuple[int, ...]:
        """The levels that hold files."""
        return _levels(self.runs)

    @property
    def read_amplification(self) -> int:
        """Runs that a read of one key may have to look at."""
        return len(self.runs)

    @property
    def write_amplification(self) -> float:
        """Bytes written for each byte that commits wrote; 1.0 before any compaction."""
        return _write_amplification(self)

    @property
    def space_amplification(self) -> float:
        """Bytes stored for each byte of the oldest run, which holds the most keys; an upper estimate."""
        return _ratio(self.size_bytes, self.runs[-1].size_bytes if self.runs else 0)

    def __repr__(self) -> str:
        where = "".join(f"{name}={text}/" for name, text in self.partition)
        runs = ", ".join(f"L{run.level} {_size(run.size_bytes)}" for run in self.runs)
        return f"{where}bucket-{self.bucket}: {_summary(self)} [{runs}]"


@dataclass(frozen=True, slots=True)
class TableStats:
    """All buckets of a table at one snapshot."""

    snapshot_id: int | None
    buckets: tuple[BucketStats, ...]

    @property
    def rows(self) -> int:
        """Rows stored, before they are merged."""
        return sum(bucket.rows for bucket in self.buckets)

    @property
    def files(self) -> int:
        """Files of the table."""
        return sum(bucket.files for bucket in self.buckets)

    @property
    def size_bytes(self) -> int:
        """Bytes of the files of the table."""
        return sum(bucket.size_bytes for bucket in self.buckets)

    @property
    def runs(self) -> tuple[RunStats, ...]:
        """The runs of all buckets."""
        return tuple(run for bucket in self.buckets for run in bucket.runs)

    @property
    def levels(self) -> tuple[int, ...]:
        """The levels that hold files in some bucket."""
        return _levels(self.runs)

    @property
    def bytes_committed(self) -> int:
        """Bytes that commits wrote."""
        return sum(bucket.bytes_committed for bucket in self.buckets)

    @property
    def bytes_compacted(self) -> int:
        """Bytes that compactions and rewrites of partitions wrote."""
        return sum(bucket.bytes_compacted for bucket in self.buckets)

    @property
    def read_amplification(self) -> int:
        """Runs that a read of one key may have to look at, in the worst bucket."""
        return max((bucket.read_amplification for bucket in self.buckets), default=0)

    @property
    def write_amplification(self) -> float:
        """Bytes written for each byte that commits wrote."""
        return _write_amplification(self)

    @property
    def space_amplification(self) -> float:
        """Bytes stored for each byte of the oldest runs."""
        return _ratio(self.size_bytes, sum(b.runs[-1].size_bytes for b in self.buckets if b.runs))

    def __repr__(self) -> str:
        lines = [f"snapshot {self.snapshot_id}, {len(self.buckets)} buckets: {_summary(self)}"]
        return "\n  ".join([*lines, *map(repr, self.buckets)])


def stats(context: TableContext) -> TableStats:
    """The figures of the newest snapshot."""
    latest = context.snapshots.latest()
    if latest is None:
        return TableStats(None, ())
    version = context.versions.load(latest)
    places = version.places()
    version.preload(places)
    written = _written(context, list(context.snapshots.newest_first()))
    buckets = (_bucket_stats(context, version, place, written) for place in places)
    return TableStats(latest.id, tuple(buckets))


_Written = Counter[tuple[BucketId, bool]]


def _bucket_stats(
    context: TableContext, version: Version, place: BucketId, written: _Written
) -> BucketStats:
    names = context.schema.partition_by
    return BucketStats(
        partition=tuple(zip(names, place.partition, strict=True)),
        bucket=place.bucket,
        runs=tuple(map(_run_stats, version.runs(place))),
        bytes_committed=written[place, True],
        bytes_compacted=written[place, False],
    )


def _run_stats(run: SortedRun) -> RunStats:
    rows = sum(file.run.num_rows for file in run.files)
    return RunStats(run.level, len(run.files), rows, run.size_bytes)


def _written(context: TableContext, snapshots: Sequence[Snapshot]) -> _Written:
    """Bytes written per bucket, by commits (True) and by compactions (False)."""
    total: _Written = Counter()
    for snapshot in snapshots:
        is_commit = snapshot.kind in (CommitKind.APPEND, CommitKind.OVERWRITE)
        for place, size in _new_files(context, snapshot):
            total[place, is_commit] += size
    return total


def _new_files(context: TableContext, snapshot: Snapshot) -> Iterator[tuple[BucketId, int]]:
    [table] = context.versions.tables([snapshot.delta])
    rows = table.select(["action", "partition", "bucket", "name", "size_bytes"]).to_pylist()
    before = {row["name"] for row in rows if row["action"] == Action.REMOVE}
    for row in rows:
        if row["action"] == Action.ADD and row["name"] not in before:
            values = manifest.partition_values(row["partition"])
            yield BucketId(values, row["bucket"]), row["size_bytes"]


def _levels(runs: Sequence[RunStats]) -> tuple[int, ...]:
    return tuple(sorted({run.level for run in runs}))


def _write_amplification(figures: BucketStats | TableStats) -> float:
    written = figures.bytes_committed + figures.bytes_compacted
    return _ratio(written, figures.bytes_committed)


def _summary(figures: BucketStats | TableStats) -> str:
    levels = ",".join(map(str, figures.levels)) or "-"
    return (
        f"{figures.rows:,} rows, {_size(figures.size_bytes)} in {figures.files} files, "
        f"{len(figures.runs)} runs on levels {levels}; amplification: "
        f"read {figures.read_amplification}, write {figures.write_amplification:.1f}, "
        f"space {figures.space_amplification:.1f}"
    )


def _size(count: int) -> str:
    size, units = float(count), iter(("bytes", "KB", "MB", "GB"))
    unit = next(units)
    for larger in units:
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 1.0
