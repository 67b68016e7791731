"""Changes that outlive their snapshots.

    changelog/changelog-<snapshot id>.json    a snapshot that expired, as far as readers of its changes need it
    changelog/expired-<n>.json                changes of snapshots below n are no more

Where a table retains its changes longer than its snapshots, a record of each snapshot is created, durably, before the
snapshot expires. A record keeps the manifest of its commit and the changelog files that are named there, no rows of
the table. The mark is the one instant at which changes expire: a record below it does not count, also one that
another expiry, which knew less, created later.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from lsmerge.errors import ObjectExistsError, ObjectNotFoundError
from lsmerge.meta.expiry_mark import ExpiryMark, ExpiryMarks
from lsmerge.meta.snapshot import Snapshot, parse_snapshot
from lsmerge.storage import checked_json, layout
from lsmerge.storage.object_store import ObjectStore


class ChangeRecords:
    """The records of one table."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._marks = ExpiryMarks(store, layout.CHANGELOG_DIR)

    def ids(self) -> list[int]:
        """Snapshots that have a record, ascending; some may not have expired yet."""
        listed = self._listed()
        earliest = self.earliest_id() if listed else 1
        return [number for number in listed if number >= earliest]

    def earliest_id(self) -> int:
        """Changes of snapshots below have expired."""
        return self._marks.earliest()

    def read(self, snapshot_id: int) -> Snapshot:
        """One record, as a snapshot without the manifests of those before it; ObjectNotFoundError if there is none."""
        path = layout.change_record_path(snapshot_id)
        return parse_snapshot(path, checked_json.load(path, self._store.get(path)), snapshot_id)

    def find(self, snapshot_id: int) -> Snapshot | None:
        """The same; None if there is none or its changes have expired."""
        try:
            found = self.read(snapshot_id)
        except ObjectNotFoundError:
            return None
        return found if snapshot_id >= self.earliest_id() else None

    def all(self) -> Iterator[Snapshot]:
        """All records, in order; those that expire meanwhile are passed over."""
        for number in self.ids():
            with suppress(ObjectNotFoundError):
                yield self.read(number)

    def keep(self, snapshot: Snapshot) -> None:
        """Create the record of a snapshot that is about to expire; durable on return."""
        record = replace(snapshot, base=(), users={}, sequence_clock=(), rollbacks=())
        path = layout.change_record_path(snapshot.id)
        try:
            self._store.put(path, checked_json.dump(record.to_json()))
        except ObjectExistsError:
            self._store.confirm(path)  # of another expiry, or of one that did not get further

    def expire(self, first: int) -> None:
        """Let changes of snapshots below `first` expire, and delete their records."""
        if first > self.earliest_id():
            self._marks.publish(ExpiryMark(first, {}))
        for number in self._listed():
            if number < first:
                self._store.delete(layout.change_record_path(number))

    def _listed(self) -> list[int]:
        listed = self._store.list(layout.CHANGELOG_DIR)
        found = (layout.change_record_id_of(info.path) for info in listed)
        return sorted(number for number in found if number is not None)
