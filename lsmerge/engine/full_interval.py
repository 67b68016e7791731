"""A full compaction after every `full-compaction.delta-commits` commits.

Such a compaction is itself a commit with an identity: the user below, and the id of the snapshot it compacted. So
every later snapshot says in O(1) how far the last one reached, two processes do not publish the same one twice, and
what remains is to count the commits since.
"""

import pyarrow as pa

from lsmerge.engine.compact import CommitIdentity, compact_places
from lsmerge.engine.context import TableContext
from lsmerge.engine.upkeep import CommitCount
from lsmerge.errors import SnapshotNotFoundError
from lsmerge.meta import manifest
from lsmerge.meta.data_file import BucketId, CommitKind
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.version import place_order

COMMIT_USER = "lsmerge.full-compaction"
_WRITES = (CommitKind.APPEND, CommitKind.OVERWRITE)


def compact_if_due(context: TableContext) -> bool:
    """Compact every bucket fully if it is time to; whether it was. Requires: the caller has the turn."""
    every, latest = context.options.full_compaction_delta_commits, context.snapshots.latest()
    if every is None or latest is None or not _is_due(context, latest, every):
        return False
    compact_places(
        context,
        latest,
        _unfinished(context, latest),
        full=True,
        progress=context.upkeep.check_open,
        identity=CommitIdentity(COMMIT_USER, latest.id),
    )
    return True


def _is_due(context: TableContext, latest: Snapshot, every: int) -> bool:
    """Whether `every` commits with rows came after the last one that a full compaction covered."""
    known = _counted(context, latest)
    commits = known.commits
    for number in range(latest.id, known.upto, -1):
        try:
            snapshot = latest if number == latest.id else context.snapshots.get(number)
        except SnapshotNotFoundError:
            return True  # expired since: there may have been any number of commits
        commits += snapshot.kind in _WRITES and snapshot.num_rows_added > 0
        if commits >= every:
            return True
    context.upkeep.counted = CommitCount(known.after, latest.id, commits)
    return False


def _counted(context: TableContext, latest: Snapshot) -> CommitCount:
    """What is known without reading: the last count, unless a full compaction came after it."""
    progress = latest.users.get(COMMIT_USER)
    after = 0 if progress is None else progress.max_identifier
    known = context.upkeep.counted
    if known is not None and known.after == after and known.upto <= latest.id:
        return known
    return CommitCount(after, after, 0)


def _unfinished(context: TableContext, latest: Snapshot) -> list[BucketId]:
    """The buckets that have anything outside the top level: also above it, where there were more levels once."""
    import pyarrow.compute as pc

    entries = context.versions.load(latest).entries
    top = pa.scalar(context.options.num_levels - 1, pa.int8())
    elsewhere = entries.filter(pc.not_equal(entries["level"], top))
    return sorted(manifest.places(elsewhere), key=place_order)
