"""Which snapshot a read means, by number, tag or time; and what happened in each."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from lsmerge.engine.context import TableContext
from lsmerge.engine.schema_views import at_snapshot, reading
from lsmerge.errors import InvalidOptionError, SnapshotExpiredError, SnapshotNotFoundError
from lsmerge.meta.data_file import CommitKind
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.tag import TagStore
from lsmerge.moment import moment_ms

T = TypeVar("T")

# Snapshot, tag and timestamp of who asks for none.
NEWEST = (None, None, None)


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """What one snapshot did."""

    id: int
    time: datetime
    kind: CommitKind
    commit_user: str | None
    commit_id: int | None
    schema_id: int
    rows_added: int
    files_added: int
    files_removed: int
    bytes_added: int = 0
    """Bytes of new data files; files that were only moved to another level have none."""
    changelog_rows: int = 0
    changelog_bytes: int = 0


def chosen(
    context: TableContext, snapshot: Any = None, tag: Any = None, timestamp: Any = None
) -> tuple[TableContext, Snapshot | None]:
    """The snapshot meant, the newest if nothing is said, and the table as it is to be read.

    An older snapshot is read with the schema that it was made with, the newest one with the newest schema.
    """
    given = [value for value in (snapshot, tag, timestamp) if value is not None]
    if len(given) > 1:
        raise InvalidOptionError(
            f"snapshot = {snapshot!r}, tag = {tag!r}, timestamp = {timestamp!r}: give one of them"
        )
    if not given:
        return context, context.snapshots.latest()
    found = by_name(context, snapshot, tag) if timestamp is None else _at(context, timestamp)
    return at_snapshot(context, found), found


def by_name(context: TableContext, snapshot: Any, tag: Any) -> Snapshot:
    """A snapshot by number or tag; one that has expired is found if a tag keeps it."""
    tags = TagStore(context.store, context.snapshots)
    if tag is not None:
        return tags.get(tag).snapshot
    try:
        return context.snapshots.get(snapshot)
    except SnapshotExpiredError:
        held = tags.holding(int(snapshot))
        if held is None:
            raise
        return held.snapshot


def read_at(
    context: TableContext,
    at: tuple[Any, Any, Any],
    read: Callable[[TableContext, Snapshot | None], T],
) -> T:
    """What `read` gives for (snapshot, tag, timestamp); the newest snapshot if none is given, whatever expires."""
    while True:
        try:
            return read(*chosen(context, *at))
        except SnapshotExpiredError:
            if at != NEWEST:
                raise


def history(context: TableContext) -> list[HistoryEntry]:
    """What happened in each retained snapshot, oldest first."""
    entries: list[HistoryEntry] = []
    with suppress(SnapshotExpiredError):  # then all older ones have expired too
        for snapshot in context.snapshots.newest_first():
            with reading(context, snapshot):
                entries.append(_entry(context, snapshot))
    return entries[::-1]


def _at(context: TableContext, timestamp: Any) -> Snapshot:
    """The newest snapshot that is not after a time. Commit times never go back, so half of the rest is out at once."""
    moment = moment_ms("timestamp", timestamp)
    found, high = None, context.snapshots.latest_id()
    low = context.snapshots.first_id() if high else 1
    while low <= high:
        middle = (low + high) // 2
        snapshot = context.snapshots.get(middle)
        if snapshot.timestamp_ms <= moment:
            found, low = snapshot, middle + 1
        else:
            high = middle - 1
    if found is None:
        raise SnapshotNotFoundError(
            f"timestamp = {timestamp!r}: no snapshot is that old; {_oldest_text(context)}"
        )
    return found


def _oldest_text(context: TableContext) -> str:
    if context.snapshots.latest_id() == 0:
        return "the table has none yet"
    oldest = context.snapshots.get(context.snapshots.first_id())
    return f"the oldest left, {oldest.id}, is of {_time(oldest).isoformat()}"


def _entry(context: TableContext, snapshot: Snapshot) -> HistoryEntry:
    counts = context.versions.change_counts(snapshot)
    return HistoryEntry(
        id=snapshot.id,
        time=_time(snapshot),
        kind=snapshot.kind,
        commit_user=snapshot.commit_user,
        commit_id=snapshot.commit_id,
        schema_id=snapshot.schema_id,
        rows_added=snapshot.num_rows_added,
        files_added=counts.files_added,
        files_removed=counts.files_removed,
        bytes_added=counts.bytes_added,
        changelog_rows=counts.changelog_rows,
        changelog_bytes=counts.changelog_bytes,
    )


def _time(snapshot: Snapshot) -> datetime:
    return datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)
