"""Files that one process wrote and another one publishes: they must be there still, and in no snapshot yet.

A file that two snapshots add would be told twice, and expiry would take it from the second with the first.
"""

from collections.abc import Iterable

from lsmerge.engine.context import TableContext
from lsmerge.errors import CommitConflictError
from lsmerge.meta.data_file import DataFile
from lsmerge.meta.snapshot import Snapshot


def check_there(context: TableContext, files: Iterable[DataFile], again: str) -> None:
    """Refuse what was discarded meanwhile, or removed as an orphan; `again` says what to do then."""
    for file in files:
        if not context.store.exists(context.file_path(file)):
            raise CommitConflictError(
                f"{context.file_path(file)} is gone: it was discarded, or removed as an orphan; nothing was published: "
                f"{again}"
            )


def published_since(context: TableContext, after: int, latest: Snapshot | None) -> set[str]:
    """Names of the files that snapshots after number `after`, up to `latest`, have brought."""
    if latest is None or latest.id <= after:
        return set()
    earliest = context.snapshots.earliest_id()
    older = [context.snapshots.read(id_) for id_ in range(max(after + 1, earliest), latest.id)]
    snapshots = [*older, latest]
    names = {file.name for one in snapshots for file in context.versions.delta(one)}
    if earliest > after + 1:
        # What came with snapshots that have expired is live in the earliest one, or gone for good.
        version = context.versions.load(snapshots[0])
        names |= {file.name for place in version.places() for file in version.files(place)}
    return names
