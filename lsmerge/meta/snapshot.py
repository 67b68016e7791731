"""Snapshots: one committed state each, numbered from 1, created once and never changed.

The latest snapshot is found from a hint and by trying the numbers above it; the hint may be missing, stale or
damaged without harm.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from lsmerge.errors import (
    CorruptFileError,
    ObjectNotFoundError,
    SnapshotNotFoundError,
    StorageError,
)
from lsmerge.meta.data_file import CommitKind
from lsmerge.meta.manifest import ManifestRef
from lsmerge.storage import checked_json, layout
from lsmerge.storage.object_store import ObjectStore


@dataclass(frozen=True, slots=True)
class UserProgress:
    """The newest commit of one commit user: what makes a replayed commit recognisable at once."""

    max_identifier: int
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One committed state of a table.

    `base` lists the manifests of everything before this commit, `delta` the one this commit wrote.
    `next_sequence` is the first sequence number not given yet. `sequence_clock` holds (sequence, time) samples,
    oldest first: rows with a smaller sequence were committed at or before that time.
    """

    id: int
    commit_uuid: str
    kind: CommitKind
    timestamp_ms: int
    schema_id: int
    next_sequence: int
    base: tuple[ManifestRef, ...]
    delta: ManifestRef
    commit_user: str | None = None
    commit_id: int | None = None
    num_rows_added: int = 0
    sequence_clock: tuple[tuple[int, int], ...] = ()
    users: dict[str, UserProgress] = field(default_factory=dict)

    @property
    def manifests(self) -> tuple[ManifestRef, ...]:
        """All manifests in the order they apply."""
        return (*self.base, self.delta)

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "commit-uuid": self.commit_uuid,
            "kind": self.kind.value,
            "timestamp-ms": self.timestamp_ms,
            "schema-id": self.schema_id,
            "next-sequence": self.next_sequence,
            "commit-user": self.commit_user,
            "commit-id": self.commit_id,
            "rows-added": self.num_rows_added,
            "base": [ref.to_json() for ref in self.base],
            "delta": self.delta.to_json(),
            "sequence-clock": [list(sample) for sample in self.sequence_clock],
            "users": {
                user: [progress.max_identifier, progress.snapshot_id]
                for user, progress in self.users.items()
            },
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "Snapshot":
        return cls(
            id=int(content["id"]),
            commit_uuid=str(content["commit-uuid"]),
            kind=CommitKind(content["kind"]),
            timestamp_ms=int(content["timestamp-ms"]),
            schema_id=int(content["schema-id"]),
            next_sequence=int(content["next-sequence"]),
            base=tuple(ManifestRef.from_json(ref) for ref in content["base"]),
            delta=ManifestRef.from_json(content["delta"]),
            commit_user=content["commit-user"],
            commit_id=content["commit-id"],
            num_rows_added=int(content["rows-added"]),
            sequence_clock=tuple((int(s), int(ms)) for s, ms in content["sequence-clock"]),
            users={
                user: UserProgress(int(n), int(at)) for user, (n, at) in content["users"].items()
            },
        )


class SnapshotStore:
    """Reads and publishes the snapshot files of one table."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._known_latest = 0
        self._latest: Snapshot | None = None

    def read(self, snapshot_id: int) -> Snapshot:
        """One snapshot; ObjectNotFoundError if its file is not there."""
        path = layout.snapshot_path(snapshot_id)
        content = checked_json.load(path, self._store.get(path))
        try:
            snapshot = Snapshot.from_json(content)
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptFileError(path, f"not a snapshot: {error!r}") from error
        if snapshot.id != snapshot_id:
            raise CorruptFileError(path, f"holds snapshot {snapshot.id}")
        return snapshot

    def get(self, snapshot_id: int) -> Snapshot:
        """One snapshot by id, or an error that names the ones there are."""
        try:
            return self.read(snapshot_id)
        except ObjectNotFoundError:
            raise SnapshotNotFoundError(
                f"snapshot {snapshot_id} does not exist; {self._range_text()}"
            ) from None

    def latest(self) -> Snapshot | None:
        """The newest committed snapshot, or None before the first commit."""
        number = self.latest_id()
        if number == 0:
            return None
        # Snapshots are never changed and their numbers never given twice, so the one read last may serve again.
        latest = self._latest
        if latest is None or latest.id != number:
            latest = self._latest = self.read(number)
        return latest

    def latest_id(self) -> int:
        """The newest snapshot's id, 0 before the first commit."""
        start = self._known_latest or self._hint()
        if start == 0 or not self._exists(start):
            start = max(self.ids(), default=0)
        while self._exists(start + 1):
            start += 1
        self._known_latest = start
        return start

    def ids(self) -> list[int]:
        """The ids of all snapshot files, ascending."""
        found = (layout.snapshot_id_of(info.path) for info in self._store.list(layout.SNAPSHOT_DIR))
        return sorted(id_ for id_ in found if id_ is not None)

    def newest_first(self) -> Iterator[Snapshot]:
        """All retained snapshots."""
        for id_ in reversed(self.ids()):
            yield self.read(id_)

    def publish(self, snapshot: Snapshot) -> None:
        """Create the snapshot's file if absent: the one instant at which a commit happens."""
        self._store.put(layout.snapshot_path(snapshot.id), checked_json.dump(snapshot.to_json()))

    def note_latest(self, snapshot_id: int) -> None:
        """Leave the hint. Failing to is harmless: the hint only saves a few look-ups."""
        self._known_latest = max(self._known_latest, snapshot_id)
        try:
            self._store.replace(layout.LATEST_HINT, str(snapshot_id).encode())
        except StorageError:
            return

    def _hint(self) -> int:
        try:
            text = self._store.get(layout.LATEST_HINT).to_pybytes()
        except StorageError:
            return 0
        # A damaged hint with many digits would only cost a failed look-up.
        return int(text) if text.isdigit() and len(text) < 18 else 0

    def _exists(self, snapshot_id: int) -> bool:
        return self._store.exists(layout.snapshot_path(snapshot_id))

    def _range_text(self) -> str:
        ids = self.ids()
        return f"snapshots {ids[0]} to {ids[-1]} do" if ids else "the table has no snapshot yet"
