"""The changelog path: the changes of one snapshot after the other, from where a reader wants to start.

A consumer is a reader whose place is kept in the table. Its place moves on when the reader asks for more after the last
batch of a snapshot, so whoever stops inside a snapshot gets it again, from its beginning and with the same id.

All batches of a snapshot have the same columns. A reader that ends has those of the table when it began; one that
follows takes over the newest ones with the first snapshot that was made under a newer schema.
"""

from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from lsmerge.engine.changelog_rows import changes_of, whole_snapshot
from lsmerge.engine.context import TableContext
from lsmerge.engine.schema_views import reading, refreshed
from lsmerge.engine.snapshot_diff import diff
from lsmerge.errors import ChangelogBrokenError, SnapshotExpiredError, SnapshotNotFoundError
from lsmerge.meta.change_records import ChangeRecords
from lsmerge.meta.consumer import ConsumerStore, Position
from lsmerge.meta.data_file import CommitKind
from lsmerge.meta.snapshot import Snapshot, snapshot_number

MIN_POLL_SECONDS = 0.01
MAX_POLL_SECONDS = 1.0
MODES = ("latest-full", "latest", "earliest")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def changelog(
    context: TableContext,
    start: Any = None,
    end: int | None = None,
    *,
    follow: bool = False,
    consumer: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """The changes from `start` to snapshot `end`, inclusive; `follow` waits for those to come.

    Ends that cannot be are refused by the call, not by the first step of the iterator. A consumer that has a
    place goes on there, whatever `start` says.
    """
    last = None if end is None else snapshot_number("end", end)
    progress = _Progress(ConsumerStore(context.store), consumer)
    position = progress.stored() or start_position(context, start)
    if position.snapshot_id <= context.snapshots.latest_id():
        changed(context, position.snapshot_id)
    progress.reach(position)
    progress.save()
    return _from(context, position, last, progress, follow=follow)


def start_position(context: TableContext, start: Any) -> Position:
    """Where a reader begins that asks for a snapshot, a mode or a time; the first snapshot by default."""
    if start is None:
        return Position(1)
    if isinstance(start, str):
        return _mode_position(context, start)
    if isinstance(start, datetime | pa.TimestampScalar):
        return Position(_first_since(context, _milliseconds(start)))
    number = snapshot_number("start", start)
    if number < 1:
        raise SnapshotNotFoundError(f"start = {number}: snapshots are numbered from 1")
    return Position(number)


class _Progress:
    """Where a consumer stands; nothing is kept for a reader without a name."""

    def __init__(self, store: ConsumerStore, name: str | None) -> None:
        self._store = store
        self._name = name
        self._saved = self._reached = None if name is None else store.position(name)
        if name is not None:
            store.end_lease(name)

    def stored(self) -> Position | None:
        return self._saved

    def reach(self, position: Position) -> None:
        self._reached = position

    def save(self) -> None:
        if self._name is not None and self._reached is not None and self._reached != self._saved:
            self._store.advance(self._name, self._reached)
            self._saved = self._reached


def _from(
    context: TableContext,
    position: Position,
    end: int | None,
    progress: _Progress,
    *,
    follow: bool,
) -> Iterator[pa.RecordBatch]:
    number, pause = position.snapshot_id, MIN_POLL_SECONDS
    if position.is_whole:
        snapshot = context.snapshots.get(number)
        with reading(context, snapshot):
            yield from whole_snapshot(context, snapshot)
        number += 1
        progress.reach(Position(number))
    while end is None or number <= end:
        if number <= context.snapshots.latest_id():
            snapshot = changed(context, number)
            if follow and snapshot.schema_id > context.schema.id:
                context = refreshed(context)
            yield from _delivered(context, snapshot, progress)
            number += 1
            pause = MIN_POLL_SECONDS
        elif follow:
            progress.save()
            context.env.sleep(pause)
            pause = min(2 * pause, MAX_POLL_SECONDS)
        else:
            break
    progress.save()


def _delivered(
    context: TableContext, snapshot: Snapshot, progress: _Progress
) -> Iterator[pa.RecordBatch]:
    """The changes of one snapshot. Snapshots without any are not worth a write of their own."""
    is_empty = True
    with reading(context, snapshot):
        for batch in changes(context, snapshot):
            if is_empty:
                progress.save()
            is_empty = False
            context.counters.add(changes_read=batch.num_rows)
            yield batch
    progress.reach(Position(snapshot.id + 1))
    if not is_empty:
        progress.save()


def changes(context: TableContext, snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
    """What one snapshot changed, a rollback included."""
    if snapshot.kind is CommitKind.ROLLBACK:
        return _rolled_back(context, snapshot)
    return changes_of(context, snapshot)


def _rolled_back(context: TableContext, snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
    """What a rollback changed: nothing is written down of it, so the snapshot before it is compared."""
    before = snapshot.id - 1
    if context.options.changelog_producer == "full-compaction":
        raise _broken(snapshot, "which what full compactions tell leaves out")
    try:
        rows = diff(context, before, snapshot.id)
        with reading(context, context.snapshots.get(before)):
            yield from rows
    except SnapshotNotFoundError as error:
        raise _broken(snapshot, f"and what it changed went with snapshot {before}") from error


def _broken(snapshot: Snapshot, reason: str) -> ChangelogBrokenError:
    return ChangelogBrokenError(
        f"snapshot {snapshot.id} rolled the table back, {reason}: read the table at snapshot {snapshot.id}, "
        f"and follow the changes from {snapshot.id + 1}"
    )


def changed(context: TableContext, number: int) -> Snapshot:
    """A snapshot whose changes are there: it is retained, or they have outlived it."""
    try:
        return context.snapshots.get(number)
    except SnapshotNotFoundError:
        record = ChangeRecords(context.store).find(number)
        if record is not None:
            return record
        ids = _ids_of_changes(context)
        if not ids or number > ids[-1]:
            raise
    first = next(id_ for id_ in ids if id_ >= number)
    raise SnapshotExpiredError(
        f"snapshot {number} is gone, and what it changed with it; the earliest one left is {first}: "
        f"start={first} goes on there, start='latest-full' begins with all rows (a consumer keeps its place until "
        "delete_consumer forgets it)"
    )


def _ids_of_changes(context: TableContext) -> list[int]:
    """The snapshots whose changes can be read, ascending."""
    # Snapshots first: one that expires meanwhile has its record by then.
    ids = context.snapshots.ids()
    return sorted({*ids, *ChangeRecords(context.store).ids()})


def _mode_position(context: TableContext, mode: str) -> Position:
    if mode not in MODES:
        raise SnapshotNotFoundError(
            f"start = {mode!r}: give a snapshot's number, a time, or one of {', '.join(MODES)}"
        )
    latest = context.snapshots.latest_id()
    if mode == "latest-full" and latest:
        return Position(latest, is_whole=True)
    if mode == "latest":
        return Position(latest + 1)
    return Position(min(_ids_of_changes(context), default=1))


def _first_since(context: TableContext, time_ms: int) -> int:
    """The first snapshot committed at that time or later; the next one to come if there is none."""
    ids = _ids_of_changes(context)
    found = bisect_left(ids, time_ms, key=lambda id_: changed(context, id_).timestamp_ms)
    return ids[found] if found < len(ids) else ids[-1] + 1 if ids else 1


def _milliseconds(time: Any) -> int:
    """Since 1970, rounded up: a snapshot of that millisecond is not before the time."""
    if isinstance(time, pa.TimestampScalar):
        time = time.cast(pa.timestamp("us", time.type.tz), safe=False).as_py()
    if time is None or time.tzinfo is None:
        raise SnapshotNotFoundError(
            f"start = {time!r}: a time needs its zone, such as datetime(2024, 1, 31, tzinfo=timezone.utc)"
        )
    before_epoch: timedelta = _EPOCH - time
    return -(before_epoch // timedelta(milliseconds=1))
