"""How many buckets each partition has, as commits see it: pure functions on an edit and the version it lands on.

Invariant: all files of a partition were split by one bucket count, so that a key is found in one bucket.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

import pyarrow as pa

from lsmerge.errors import CommitConflictError
from lsmerge.meta import manifest
from lsmerge.meta.data_file import DataFile, Edit, Partition
from lsmerge.meta.version import Version


def changes_layout(edit: Edit, version: Version) -> bool:
    """Whether some partition has another bucket count after `edit`; two counts in one partition are refused."""
    coming = [file for file in edit.add if file.is_data]
    if _replaces_like_by_like(coming, edit.remove):
        return False
    touched = {file.place.partition for file in (*coming, *edit.remove)}
    entries = manifest.of_partitions(version.entries, touched)
    before = manifest.bucket_counts(entries)
    staying = manifest.bucket_counts(_without(entries, edit.remove))
    found: dict[Partition, set[int]] = {partition: set() for partition in touched}
    for partition, count in chain(staying.items(), _counts(coming)):
        found[partition].add(count or edit.num_buckets)
    after = {p: _one_count(p, counts) or edit.num_buckets for p, counts in found.items()}
    return any(after[p] != (before.get(p, 0) or edit.num_buckets) for p in touched)


def _replaces_like_by_like(coming: Iterable[DataFile], going: Iterable[DataFile]) -> bool:
    """Whether the files that come have the partitions and counts of those that go, which are live: a compaction.

    Those that stay have the same count by the invariant, so the entries need not be looked at.
    """
    before = set(_counts(going))
    return set(_counts(coming)) == before and all(count for _, count in before)


def _without(entries: pa.Table, files: Iterable[DataFile]) -> pa.Table:
    import pyarrow.compute as pc

    names = pa.array([file.name for file in files], pa.string())
    return entries.filter(pc.invert(pc.is_in(entries["name"], value_set=names)))


def _counts(files: Iterable[DataFile]) -> Iterator[tuple[Partition, int]]:
    return ((file.place.partition, file.num_buckets) for file in files)


def _one_count(partition: Partition, counts: set[int]) -> int:
    if len(counts) > 1:
        raise CommitConflictError(
            f"partition {list(partition)} would hold rows split into {' and '.join(map(str, sorted(counts)))} "
            "buckets: it was rescaled, or written to, meanwhile; nothing was published, do it again"
        )
    return next(iter(counts), 0)
