"""The changelog in planned batches, for readers that hand the work to other processes.

    start -> position -> advance (limits) -> position -> splits of what lies between -> read anywhere -> commit

A position is a JSON value: the snapshot whose changes come next, and whether all rows of it come first, as inserts. Of
two positions everything between is known for ever, so a batch that is planned again has the same rows. Splits of whole
buckets keep the changes of a key in one split, in order. A batch ends where rows change their buckets, else the buckets
of before and after would have to be read together. A snapshot is never divided between batches.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

import pyarrow as pa

from lsmerge.engine.change_splits import (
    ChangeSplit,
    change_pieces,
    split_up,
    whole_pieces,
)
from lsmerge.engine.changelog_rows import change_files, changelog_schema
from lsmerge.engine.context import TableContext
from lsmerge.engine.follow import changed, start_position
from lsmerge.engine.schema_views import reading, refreshed
from lsmerge.engine.splits import DEFAULT_TARGET_SIZE, bytes_of, rows_of, target_bytes
from lsmerge.meta.consumer import ConsumerStore, Position
from lsmerge.meta.data_file import CommitKind
from lsmerge.meta.snapshot import Snapshot
from lsmerge.moment import span_ms

# A lease is renewed when this part of it is left: often enough to survive a few missed turns.
RENEW_AT = 0.75


class FeedPosition(TypedDict):
    """Where a reader of changes stands."""

    snapshot: int
    whole: bool


@dataclass(frozen=True, slots=True)
class FeedLimits:
    """What one batch may hold at most; a snapshot that is larger comes alone."""

    snapshots: int | None = None
    rows: int | None = None
    size_bytes: int | None = None

    def allow(self, snapshots: int, rows: int, size_bytes: int) -> bool:
        """Whether so much may be in one batch."""
        return all(
            limit is None or amount <= limit
            for amount, limit in (
                (snapshots, self.snapshots),
                (rows, self.rows),
                (size_bytes, self.size_bytes),
            )
        )


class Feed:
    """Plans the reading of a table's changelog.

    With a `consumer` the table remembers what has been committed, and nothing that comes after it expires; `ttl` is
    how long that lasts after the last sign of life, for ever by default.

    >>> import lsmerge, pyarrow as pa
    >>> t = lsmerge.create_table("memory://feed", pa.schema({"k": pa.int64()}), "k")
    >>> _ = t.upsert({"k": [1]}), t.upsert({"k": [2]})
    >>> feed = t.feed()
    >>> begin = feed.start("earliest")
    >>> end = feed.advance(begin, max_snapshots=1)
    >>> begin, end
    ({'snapshot': 1, 'whole': False}, {'snapshot': 2, 'whole': False})
    >>> [batch["k"].to_pylist() for split in feed.splits(begin, end) for batch in t.read_split(split)]
    [[1]]
    """

    def __init__(self, context: TableContext, consumer: str | None, ttl: Any) -> None:
        self._context = context
        self._consumer = consumer
        self._ttl_ms = None if ttl is None else span_ms("ttl", ttl)
        self._consumers = ConsumerStore(context.store)
        if consumer is not None and ttl is None:
            self._consumers.end_lease(consumer)
        self._lease_until = 0

    @property
    def schema(self) -> pa.Schema:
        """The columns of the changes."""
        self._refresh()
        return changelog_schema(self._context.schema)

    def start(self, start: Any = None) -> FeedPosition:
        """Where a reader begins, as `Table.changelog` takes it; a consumer that has a place goes on there."""
        self._refresh()
        position = None
        if self._consumer is not None:
            position = self._consumers.position(self._consumer)
        if position is None:
            position = start_position(self._context, start)
        if position.snapshot_id <= self._context.snapshots.latest_id():
            changed(self._context, position.snapshot_id)
        found = FeedPosition(snapshot=position.snapshot_id, whole=position.is_whole)
        self.commit(found)
        return found

    def latest(self) -> FeedPosition:
        """The end of all that is there now."""
        self.keep_alive()
        return FeedPosition(snapshot=self._context.snapshots.latest_id() + 1, whole=False)

    def advance(
        self,
        begin: FeedPosition,
        upto: FeedPosition | None = None,
        *,
        max_snapshots: int | None = None,
        max_rows: int | None = None,
        max_bytes: int | None = None,
    ) -> FeedPosition:
        """Where the batch that begins at `begin` ends: at `upto`, or the newest, or before it passes a limit."""
        self._refresh()
        self.keep_alive()
        end = (self.latest() if upto is None else upto)["snapshot"]
        number = begin["snapshot"]
        if begin["whole"]:
            return FeedPosition(snapshot=number + 1, whole=False)
        batch = _Batch(FeedLimits(max_snapshots, max_rows, max_bytes))
        while number < end:
            snapshot = changed(self._context, number)
            if not batch.takes(snapshot, _Amount.of(self._context, snapshot)):
                break
            number += 1
        return FeedPosition(snapshot=number, whole=False)

    def splits(
        self,
        begin: FeedPosition,
        end: FeedPosition,
        target_size: Any = None,
        *,
        whole_buckets: bool = True,
    ) -> list[ChangeSplit]:
        """What lies between two positions, in parts of about `target_size` bytes for `Table.read_split`.

        The default is 32 MB. With `whole_buckets` all changes of a bucket are in one part, oldest first, however large
        it gets, and so are those of buckets that may hold changes of the same key.
        """
        self._refresh()
        target = target_bytes(DEFAULT_TARGET_SIZE if target_size is None else target_size)
        first, whole = begin["snapshot"], list[ChangeSplit]()
        if begin["whole"]:
            whole = split_up(self._context, whole_pieces(self._context, first, target), target)
            first += 1
        pieces = [
            piece
            for number in range(first, end["snapshot"])
            for piece in change_pieces(self._context, number, whole_buckets=whole_buckets)
        ]
        told = split_up(self._context, pieces, target, whole_buckets=whole_buckets)
        return [*whole, *told]

    def commit(self, position: FeedPosition) -> None:
        """Everything before `position` has been dealt with: a consumer needs it no more."""
        if self._consumer is None:
            return
        # First: without a lease it would be waited for, should the reader never come back.
        self.keep_alive()
        place = Position(position["snapshot"], position["whole"])
        stored = self._consumers.position(self._consumer)
        if stored is None or stored.snapshot_id < place.snapshot_id:
            self._consumers.advance(self._consumer, place)

    def keep_alive(self) -> None:
        """A sign of life of the consumer."""
        if self._consumer is None or self._ttl_ms is None:
            return
        now = self._context.env.now_ms()
        if self._lease_until - now < RENEW_AT * self._ttl_ms:
            self._lease_until = now + self._ttl_ms
            self._consumers.lease(self._consumer, self._lease_until)

    def _refresh(self) -> None:
        """Another process may have altered the table since."""
        self._context = refreshed(self._context)


class _Amount(NamedTuple):
    """How much one snapshot tells, and whether it must not share a batch with others."""

    rows: int
    size_bytes: int
    is_apart: bool

    @property
    def is_told(self) -> bool:
        return self.rows > 0 or self.is_apart

    @classmethod
    def of(cls, context: TableContext, snapshot: Snapshot) -> "_Amount":
        if snapshot.kind is CommitKind.ROLLBACK:
            return cls(0, 0, is_apart=True)
        with reading(context, snapshot):
            files = change_files(context, snapshot)
        told = [*files.removed, *files.added]
        moves_rows = snapshot.kind is CommitKind.OVERWRITE or snapshot.layout_since == snapshot.id
        return cls(rows_of(told), bytes_of(told), is_apart=bool(told) and moves_rows)


class _Batch:
    """What a batch that is being planned holds so far."""

    def __init__(self, limits: FeedLimits) -> None:
        self._limits = limits
        self._told = self._rows = self._size = 0
        self._layout: int | None = None
        self._is_closed = False

    def takes(self, snapshot: Snapshot, amount: "_Amount") -> bool:
        """Whether one more snapshot belongs to the batch.

        One that tells nothing is always taken, so that a reader does not wait at a snapshot that will expire.
        """
        is_first = self._layout is None
        if self._is_closed or not (is_first or self._goes_with(snapshot, amount)):
            return False
        self._told += amount.is_told
        self._rows += amount.rows
        self._size += amount.size_bytes
        if self._told > 1 and not self._limits.allow(self._told, self._rows, self._size):
            return False
        self._layout, self._is_closed = snapshot.layout_since, amount.is_apart
        return True

    def _goes_with(self, snapshot: Snapshot, amount: "_Amount") -> bool:
        return not amount.is_apart and snapshot.layout_since == self._layout
