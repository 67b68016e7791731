"""Hash indexes without the hashes of keys that are gone.

A hash that was placed stays in its index when its key is deleted or moves to another partition, and costs memory and
look-ups for ever. After a full compaction on demand the files hold little but what is visible: an index of which most
is dead is then made anew from the keys in the files, as one snapshot, and takes the place of the old one. Writers that
placed rows meanwhile place them again, as after a sort-compaction. Who meets a change of such a partition gives up:
the next full compaction comes to it.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lsmerge.engine.context import TableContext
from lsmerge.engine.hash_index import HashIndex, ascending, discard_indexes, key_hashes
from lsmerge.engine.partition_spec import select
from lsmerge.engine.schema_views import reading
from lsmerge.errors import CommitConflictError, CommitUnknownError, LsmergeError
from lsmerge.meta.bucket_index import IndexFile, write_index
from lsmerge.meta.commit import CommitRequest
from lsmerge.meta.data_file import CommitKind, DataFile, Edit, Partition
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.version import Version

# An index with so many hashes, and so many times as many as there are rows, is worth making anew.
MANY_HASHES = 10_000
TIMES_THE_ROWS = 2

logger = logging.getLogger("lsmerge.compaction")


@dataclass(frozen=True, slots=True)
class _Renewal:
    """The index of a partition before and after, and the files that it was made from."""

    partition: Partition
    files: tuple[DataFile, ...]
    old: tuple[IndexFile, ...]
    new: tuple[IndexFile, ...]

    def fits(self, version: Version) -> bool:
        """Whether the partition is still as it was read."""
        files = version.partition_files([self.partition])
        return _names(files) == _names(self.files) and _names(
            version.index_files(self.partition)
        ) == _names(self.old)


def renew_indexes(context: TableContext, partition: Any) -> Snapshot | None:
    """Make those indexes of the partitions named, or of all, anew that are mostly dead; None if none is."""
    latest = context.snapshots.latest()
    if latest is None or not context.options.has_dynamic_buckets:
        return None
    version = context.versions.load(latest)
    with reading(context, latest):
        wanted = select(context.schema, partition or None, version.indexed_partitions)
        renewals = [_renewal(context, version, p) for p in wanted if _is_mostly_dead(version, p)]
    return _published(context, renewals) if renewals else None


def _is_mostly_dead(version: Version, partition: Partition) -> bool:
    hashes = sum(file.num_hashes for file in version.index_files(partition))
    if hashes < MANY_HASHES:
        return False
    rows = sum(file.run.num_rows for file in version.partition_files([partition]))
    return hashes > TIMES_THE_ROWS * rows


def _renewal(context: TableContext, version: Version, partition: Partition) -> _Renewal:
    files = version.partition_files([partition])
    index = _index_of(context, files).merged()
    old, env = tuple(version.index_files(partition)), context.env
    if len(index) == 0:
        return _Renewal(partition, files, old, ())
    new = write_index(context.store, env.new_id(), partition, index.stored(), env.now_ms())
    return _Renewal(partition, files, old, (new,))


def _index_of(context: TableContext, files: Sequence[DataFile]) -> HashIndex:
    """The hashes of all rows, in the buckets where they are."""
    index, fields = HashIndex(), context.fields(context.schema.trimmed_key)
    for file in files:
        reader = context.reader(file)
        for number in range(reader.num_blocks):
            hashes = ascending(key_hashes(context.schema, reader.read_block(number, fields)))
            index = index.with_hashes(file.place.bucket, index.missing(hashes))
    return index


def _published(context: TableContext, renewals: Sequence[_Renewal]) -> Snapshot | None:
    written = [file for renewal in renewals for file in renewal.new]
    request = CommitRequest(
        Edit(CommitKind.COMPACT, context.schema.id),
        context.env.new_id(),
        rebase=lambda latest: _edit(context, renewals, latest),
    )
    try:
        snapshot = context.committer.commit(request)
    except CommitUnknownError:
        raise  # the new indexes may be referred to
    except CommitConflictError as conflict:
        logger.info("%s: hash indexes stay as they are: %s", context.store.uri, conflict)
        discard_indexes(context.store, written)
        return None
    except LsmergeError:
        discard_indexes(context.store, written)
        raise
    used = context.versions.load(snapshot).index_names
    discard_indexes(context.store, (file for file in written if file.name not in used))
    return snapshot


def _edit(context: TableContext, renewals: Sequence[_Renewal], latest: Snapshot | None) -> Edit:
    version = None if latest is None else context.versions.load(latest)
    fitting = [renewal for renewal in renewals if version is not None and renewal.fits(version)]
    if not fitting:
        raise CommitConflictError("their partitions were written to meanwhile")
    return Edit(
        CommitKind.COMPACT,
        context.schema.id,
        add_index=tuple(file for renewal in fitting for file in renewal.new),
        remove_index=tuple(file for renewal in fitting for file in renewal.old),
        num_buckets=context.options.bucket,
        moves_keys=True,
    )


def _names(files: Sequence[DataFile | IndexFile]) -> set[str]:
    return {file.name for file in files}
