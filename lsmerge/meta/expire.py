"""Expiry: which snapshots may go, and which files only they needed.

    choose (pure) -> mark -> snapshot files, oldest first -> data files -> manifests

1. The mark is the one instant at which snapshots expire; what a crash leaves behind it are orphans.
2. A file goes only if no snapshot or tag that was there after the mark refers to it. Snapshots that come later refer to
   files of the earliest one, to new ones, or (a rollback) to those of a tag that was there before.
3. Changes that stay longer than their snapshots are recorded before the mark, and go by a mark of their own.
4. Any number of expiries may run at once, beside readers and writers.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from lsmerge.errors import ObjectNotFoundError
from lsmerge.failpoints import failpoint
from lsmerge.meta.change_records import ChangeRecords
from lsmerge.meta.data_file import DataFile
from lsmerge.meta.expiry_mark import REMEMBERED, ExpiryMark, ExpiryMarks
from lsmerge.meta.references import (
    Garbage,
    References,
    change_references,
    joined,
    only_in,
    references,
)
from lsmerge.meta.snapshot import Snapshot, SnapshotStore
from lsmerge.meta.tag import TagStore
from lsmerge.meta.version import VersionReader
from lsmerge.storage import layout
from lsmerge.storage.object_store import ObjectStore


@dataclass(frozen=True, slots=True)
class Retention:
    """How much stays: `at_least` whatever the others say, `at_most`, and what is not older than a time."""

    at_least: int = 1
    at_most: int | None = None
    older_than_ms: int | None = None


def first_retained(
    earliest: int, latest: int, retention: Retention, pins: Iterable[int], ages: Iterable[int]
) -> int:
    """The smallest id that stays. `ages` are the commit times from `earliest` on, read as far as needed."""
    by_count = earliest if retention.at_most is None else latest - retention.at_most + 1
    by_age = earliest
    if retention.older_than_ms is not None:
        for commit_ms in ages:
            if commit_ms >= retention.older_than_ms:
                break
            by_age += 1
    end = min(max(by_count, by_age), latest - max(1, retention.at_least) + 1, *pins, latest)
    return max(end, earliest)


@dataclass(frozen=True, slots=True)
class Released:
    """What goes: snapshots, in chains of one or of several in a row; records of changes; tags by name.

    The changes of `outlived` stay, although their snapshots go.
    """

    chains: Sequence[Sequence[Snapshot]]
    changes: Sequence[Snapshot] = ()
    tags: Container[str] = ()
    outlived: Sequence[Snapshot] = ()


class Expirer:
    """Expires snapshots of one table and deletes what nothing refers to any more."""

    def __init__(
        self,
        store: ObjectStore,
        snapshots: SnapshotStore,
        versions: VersionReader,
        path_of: Callable[[DataFile], str],
    ) -> None:
        self._store = store
        self._snapshots = snapshots
        self._versions = versions
        self._tags = TagStore(store, snapshots)
        self._marks = ExpiryMarks(store)
        self._changes = ChangeRecords(store)
        self._path_of = path_of

    def choose(self, retention: Retention, pins: Iterable[int]) -> tuple[int, int]:
        """The range of ids to expire, its end exclusive."""
        latest = self._snapshots.latest_id()
        if latest == 0:
            return 1, 1
        earliest = self._snapshots.first_id()
        ages = (snapshot.timestamp_ms for snapshot in self._read(earliest, latest))
        return earliest, first_retained(earliest, latest, retention, pins, ages)

    def first_change(self, retention: Retention, end: int, pins: Iterable[int]) -> int:
        """The first snapshot whose changes stay; at most `end`, the first snapshot that itself stays."""
        latest = self._snapshots.latest_id()
        if latest == 0:
            return end
        earliest = min([*self._changes.ids(), self._snapshots.first_id()])
        ages = map(self._change_age, range(earliest, latest))
        return min(end, first_retained(earliest, latest, retention, pins, ages))

    def expired_changes(self, first: int) -> Sequence[Snapshot]:
        """Records of changes before snapshot `first`."""
        return [record for record in self._changes.all() if record.id < first]

    def expire_changes(self, first: int) -> None:
        """Let the changes of snapshots below `first` expire: from now on nobody finds them."""
        self._changes.expire(first)
        failpoint("expire.after-changes")

    def expire(self, start: int, end: int, first_change: int) -> Sequence[Snapshot]:
        """Expire the snapshots from `start` to before `end`: from now on nobody finds them.

        The changes from snapshot `first_change` on stay.
        """
        released = list(self._read(start, end))
        if start == end:
            return released
        for snapshot in released:
            if snapshot.id >= first_change:
                self._changes.keep(snapshot)
                failpoint("expire.after-record")
        commits = self._marks.newest().commits
        commits.update((snapshot.id, snapshot.commit_uuid) for snapshot in released)
        recent = dict(sorted(commits.items())[-REMEMBERED:])
        failpoint("expire.before-mark")
        self._marks.publish(ExpiryMark(end, recent))
        failpoint("expire.after-mark")
        self._delete_snapshots(end)
        return released

    def garbage(self, released: Released, first: int = 1) -> Garbage:
        """What only the released snapshots and changes refer to.

        Snapshots from `first` on stay, if they have not expired; so do tags and changes that are not released.
        """
        if not any(released.chains) and not released.changes:
            return Garbage()
        chains = [self._readable(chain) for chain in released.chains]
        going = joined([*chains, *self._readable_changes(released.changes)])
        kept = [self._kept(first, released.tags), *self._readable_changes(released.outlived)]
        found = only_in(going, joined(kept))
        if found.manifests or any(not file.is_data for file in found.files):
            # Only then may a record need some of it; there can be many.
            found = only_in(going, joined([*kept, *self._recorded(released)]))
        return found

    def paths(self, garbage: Garbage) -> Iterator[str]:
        """The files of `garbage`, in the order in which they may go: a manifest after what it names."""
        yield from map(self._path_of, garbage.files)
        yield from (layout.index_path(index.name) for index in garbage.indexes)
        yield from (layout.manifest_path(ref.name) for ref in garbage.manifests)

    def delete(self, garbage: Garbage) -> None:
        """Delete the files. Requires: nothing can refer to them any more."""
        for path in self.paths(garbage):
            self._store.delete(path)

    def _readable(self, chain: Sequence[Snapshot]) -> References:
        """What the chain refers to; without its beginning, if another expiry is deleting that."""
        for start in range(len(chain)):
            with suppress(ObjectNotFoundError):
                return references(self._versions, chain[start:])
        return joined([])

    def _readable_changes(self, records: Iterable[Snapshot]) -> Iterator[References]:
        for record in records:
            with suppress(ObjectNotFoundError):  # another expiry is deleting them
                yield change_references(self._versions, record)

    def _recorded(self, released: Released) -> Iterator[References]:
        """What the records that stay refer to, of that which is released."""
        gone = {record.id for record in released.changes}
        snapshots = {snapshot.id for chain in released.chains for snapshot in chain}
        for record in self._changes.all():
            if record.id in snapshots - gone:
                yield from self._readable_changes([record])
            elif record.id not in gone:
                # Its manifest may be one of later snapshots too; its changelog files are named nowhere else.
                yield joined([]).with_manifest(record.delta)

    def _change_age(self, number: int) -> int:
        """When a snapshot was committed whose changes may have outlived it; one that is gone is as old as can be."""
        record = self._changes.find(number)
        if record is not None:
            return record.timestamp_ms
        return next((snapshot.timestamp_ms for snapshot in self._read(number, number + 1)), 0)

    def _kept(self, first: int, tags_gone: Container[str]) -> References:
        earliest = self._snapshots.earliest_id()
        try:
            return joined(self._kept_parts(max(first, earliest), tags_gone))
        except ObjectNotFoundError:
            if self._snapshots.earliest_id() == earliest:
                raise
        return self._kept(first, tags_gone)  # another expiry went on meanwhile

    def _kept_parts(self, first: int, tags_gone: Container[str]) -> Iterator[References]:
        # Tags before snapshots: a rollback publishes before it lets go of the tag that holds its files.
        tags = self._tags.all()
        latest = self._snapshots.latest()
        rollbacks = latest.rollbacks if latest else ()
        for number in (first, *(number for number in rollbacks if number > first)):
            yield references(self._versions, [self._snapshots.read(number)])
        for tag in tags:
            if tag.name not in tags_gone:
                # One that came too late, and whose creator died before taking it back, has lost its manifests.
                yield self._readable([tag.snapshot])

    def _read(self, start: int, end: int) -> Iterator[Snapshot]:
        for number in range(start, end):
            try:
                yield self._snapshots.read(number)
            except ObjectNotFoundError:
                if number >= self._snapshots.earliest_id():
                    raise

    def _delete_snapshots(self, end: int) -> None:
        """Delete the files of all that have expired, oldest first: readers rely on it."""
        listed = self._store.list(layout.SNAPSHOT_DIR)
        found = (layout.snapshot_id_of(info.path) for info in listed)
        for number in sorted(n for n in found if n is not None and n < end):
            self._store.delete(layout.snapshot_path(number))
            failpoint("expire.after-snapshot")
