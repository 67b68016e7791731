"""Whether a table still holds what rows were computed from: the check of commits that read before they write.

Compactions and the like rewrite files and change no row, so they do not count.
"""

from lsmerge.errors import CommitConflictError, ObjectNotFoundError
from lsmerge.meta.data_file import CommitKind
from lsmerge.meta.snapshot import Snapshot, SnapshotStore

_KEEPS_ROWS = (CommitKind.COMPACT, CommitKind.RESCALE, CommitKind.SORT_COMPACT)


def check_unchanged(snapshots: SnapshotStore, based_on: int, latest: Snapshot | None) -> None:
    """Raise CommitConflictError if a snapshot after `based_on`, up to `latest`, may have changed rows."""
    newest = 0 if latest is None else latest.id
    for number in range(based_on + 1, newest + 1):
        kind = _kind_of(snapshots, number)
        if kind not in _KEEPS_ROWS:
            raise CommitConflictError(
                f"snapshot {number} ({kind or 'expired'}) came after snapshot {based_on}, which the rows were "
                "computed from; nothing was published: read again, and write again"
            )


def _kind_of(snapshots: SnapshotStore, number: int) -> CommitKind | None:
    try:
        return snapshots.read(number).kind
    except ObjectNotFoundError:
        return None
