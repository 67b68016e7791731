"""What a report shows, as plain values: read from a table once, through its public methods."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from lsmerge import Table

# Kinds of snapshots by which rows came; all others write rows anew that were there.
COMMITS = ("append", "overwrite")


@dataclass(frozen=True, slots=True)
class File:
    """One data file and the range of keys that it covers, ends included."""

    level: int
    rows: int
    size_bytes: int
    low: tuple[Any, ...]
    high: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Bucket:
    """One tree: its runs, newest first, each of files without a key in common."""

    name: str
    runs: tuple[tuple[File, ...], ...]

    @property
    def files(self) -> list[File]:
        return [file for run in self.runs for file in run]

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def rows(self) -> int:
        """Stored rows, older ones of a key among them."""
        return sum(file.rows for file in self.files)

    @property
    def space_amplification(self) -> float:
        """Bytes for each byte of the oldest run, which holds the most keys; an upper estimate."""
        oldest = sum(file.size_bytes for file in self.runs[-1]) if self.runs else 0
        return self.size_bytes / oldest if oldest else 1.0


@dataclass(frozen=True, slots=True)
class Event:
    """What one snapshot did."""

    id: int
    time: datetime
    kind: str
    user: str | None
    rows: int
    bytes_added: int
    files_added: int
    files_removed: int
    changelog_rows: int
    changelog_bytes: int

    @property
    def is_commit(self) -> bool:
        """Whether rows came with it."""
        return self.kind in COMMITS

    @property
    def bytes_written(self) -> int:
        """Data and changelog."""
        return self.bytes_added + self.changelog_bytes


@dataclass(frozen=True, slots=True)
class Figures:
    """All that a report is made of."""

    uri: str
    primary_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    options: tuple[tuple[str, str], ...]
    buckets: tuple[Bucket, ...]
    history: tuple[Event, ...]
    tags: tuple[tuple[str, int], ...]
    consumers: tuple[tuple[str, int], ...]

    @property
    def size_bytes(self) -> int:
        return sum(bucket.size_bytes for bucket in self.buckets)

    @property
    def rows(self) -> int:
        return sum(bucket.rows for bucket in self.buckets)

    @property
    def files(self) -> int:
        return sum(len(bucket.files) for bucket in self.buckets)

    @property
    def read_amplification(self) -> int:
        """Runs that a read of one key may have to look at, in the worst bucket."""
        return max((len(bucket.runs) for bucket in self.buckets), default=0)

    @property
    def write_amplification(self) -> float:
        """Bytes written for each byte that commits wrote, in the snapshots that are left."""
        committed = self.bytes_committed
        return (committed + self.bytes_rewritten) / committed if committed else 1.0

    @property
    def bytes_committed(self) -> int:
        return sum(event.bytes_written for event in self.history if event.is_commit)

    @property
    def bytes_rewritten(self) -> int:
        return sum(event.bytes_written for event in self.history if not event.is_commit)

    @property
    def space_amplification(self) -> float:
        """Bytes stored for each byte of the oldest runs."""
        oldest = sum(sum(f.size_bytes for f in bucket.runs[-1]) for bucket in self.buckets)
        return self.size_bytes / oldest if oldest else 1.0


def figures_of(table: Table) -> Figures:
    """The figures of a table as it is now."""
    history = table.history()
    return Figures(
        uri=table.uri,
        primary_key=table.primary_key,
        partition_by=table.partition_by,
        columns=tuple((field.name, str(field.type)) for field in table.schema),
        options=tuple(sorted(table.options.items())),
        buckets=tuple(_buckets(table.files())),
        history=tuple(map(_event, history)),
        tags=tuple((name, tag.snapshot.id) for name, tag in table.tags().items()),
        consumers=tuple(table.consumers().items()),
    )


def _buckets(files: Sequence[Any]) -> Iterable[Bucket]:
    """Files come bucket by bucket and run by run."""
    for (partition, number), members in groupby(files, key=lambda f: (f.partition, f.bucket)):
        runs = groupby(members, key=lambda file: file.run)
        yield Bucket(_name(partition, number), tuple(tuple(map(_file, run)) for _, run in runs))


def _name(partition: dict[str, Any], number: int) -> str:
    values = ", ".join(f"{name} = {value}" for name, value in partition.items())
    return f"{values}, bucket {number}" if values else f"bucket {number}"


def _file(info: Any) -> File:
    low, high = tuple(info.min_key.values()), tuple(info.max_key.values())
    return File(info.level, info.rows, info.size_bytes, low, high)


def _event(entry: Any) -> Event:
    return Event(
        id=entry.id,
        time=entry.time,
        kind=entry.kind.value,
        user=entry.commit_user,
        rows=entry.rows_added,
        bytes_added=entry.bytes_added,
        files_added=entry.files_added,
        files_removed=entry.files_removed,
        changelog_rows=entry.changelog_rows,
        changelog_bytes=entry.changelog_bytes,
    )
