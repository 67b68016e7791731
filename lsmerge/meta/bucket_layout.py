"""How many buckets each partition has, as commits see it: pure functions on an edit and the version it lands on.

Invariant: all files of a partition were split by one bucket count, so that a key is found in one bucket.
"""

from collections.abc import Iterable

import pyarrow as pa

from lsmerge.errors import CommitConflictError
from lsmerge.meta import manifest
from lsmerge.meta.data_file import DataFile, Edit, Partition
from lsmerge.meta.version import Version


def changes_layout(edit: Edit, version: Version) -> bool:
    """Whether some partition has another bucket count after `edit`; two counts in one partition are refused."""
    touched = {file.place.partition for file in (*edit.add, *edit.remove)}
    entries = manifest.of_partitions(version.entries, touched)
    before = manifest.bucket_counts(entries)
    staying = manifest.bucket_counts(_without(entries, edit.remove))
    added = _counts_of(edit.add)
    changed = False
    for partition in touched:
        found = added.get(partition, set()) | {staying.get(partition, (0, 0))[0]}
        after = _one_count(partition, found - {0}) or edit.num_buckets
        changed |= after != before.get(partition, (edit.num_buckets, 0))[0]
    return changed


def _without(entries: pa.Table, files: Iterable[DataFile]) -> pa.Table:
    import pyarrow.compute as pc

    names = pa.array([file.name for file in files], pa.string())
    return entries.filter(pc.invert(pc.is_in(entries["name"], value_set=names)))


def _counts_of(files: Iterable[DataFile]) -> dict[Partition, set[int]]:
    counts: dict[Partition, set[int]] = {}
    for file in files:
        counts.setdefault(file.place.partition, set()).add(file.num_buckets)
    return counts


def _one_count(partition: Partition, counts: set[int]) -> int:
    if len(counts) > 1:
        raise CommitConflictError(
            f"partition {list(partition)} would hold rows split into {' and '.join(map(str, sorted(counts)))} "
            "buckets: it was rescaled, or written to, meanwhile; nothing was published, do it again"
        )
    return next(iter(counts), 0)
