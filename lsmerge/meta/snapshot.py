"""Snapshots: one committed state each, numbered from 1, created once and never changed.

Numbers are given in order and expire in order, so those that are there have no gap: a missing one between two
others is a lost commit, and nothing may be published on top of it. What lies below the newest mark of expiry
(expiry_mark.py) is no snapshot, whatever files are there. The newest is found by listing once and then by trying the
numbers above the one known; the hint file decides nothing.
"""

import operator
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa

from lsmerge.errors import (
    CorruptFileError,
    LsmergeError,
    ObjectNotFoundError,
    SnapshotExpiredError,
    SnapshotNotFoundError,
    StorageError,
)
from lsmerge.meta.data_file import CommitKind
from lsmerge.meta.expiry_mark import ExpiryMarks
from lsmerge.meta.manifest import ManifestRef
from lsmerge.storage import checked_json, layout
from lsmerge.storage.object_store import ObjectStore

# How often a listing that shows no snapshot is repeated where there must be one: it may race with an expiry.
MAX_LISTINGS = 20


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
    oldest first: rows with a smaller sequence were committed at or before that time. `rollbacks` are the snapshots up
    to this one that brought files of an older one back; expiry looks at them before it deletes a file. `layout_since`
    is the newest snapshot that changed how many buckets some partition has; 0 if none did.
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
    rollbacks: tuple[int, ...] = ()
    layout_since: int = 0

    @property
    def manifests(self) -> tuple[ManifestRef, ...]:
        """All manifests in the order they apply."""
        return (*self.base, self.delta)

    def sequence_at(self, time_ms: int) -> int:
        """Rows with a smaller sequence number were committed at or before that time, as far as the clock can tell."""
        clock = (*self.sequence_clock, (self.next_sequence, self.timestamp_ms))
        return max((sequence for sequence, ms in clock if ms <= time_ms), default=0)

    def to_json(self) -> dict[str, Any]:
        """What the snapshot file holds, as docs/format.md says."""
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
            **({"rollbacks": list(self.rollbacks)} if self.rollbacks else {}),
            **({"layout-since": self.layout_since} if self.layout_since else {}),
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "Snapshot":
        """Inverse of `to_json`; content of another shape raises what reading it raises."""
        user, identifier = content["commit-user"], content["commit-id"]
        base = tuple(ManifestRef.from_json(ref) for ref in content["base"])
        if len({ref.name for ref in base}) < len(base):
            raise ValueError("a manifest is named twice")
        return cls(
            id=_number(content["id"]),
            commit_uuid=_text(content["commit-uuid"]),
            kind=CommitKind(content["kind"]),
            timestamp_ms=_number(content["timestamp-ms"]),
            schema_id=_number(content["schema-id"]),
            next_sequence=_number(content["next-sequence"]),
            base=base,
            delta=ManifestRef.from_json(content["delta"]),
            commit_user=None if user is None else _text(user),
            commit_id=None if identifier is None else _number(identifier),
            num_rows_added=_number(content["rows-added"]),
            sequence_clock=tuple((_number(s), _number(ms)) for s, ms in content["sequence-clock"]),
            users={
                name: UserProgress(_number(n), _number(at))
                for name, (n, at) in content["users"].items()
            },
            rollbacks=tuple(_number(n) for n in content.get("rollbacks", ())),
            layout_since=_number(content.get("layout-since", 0)),
        )


class SnapshotStore:
    """Reads and publishes the snapshot files of one table."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._marks = ExpiryMarks(store)
        self._known_latest = 0
        self._latest: Snapshot | None = None

    def read(self, snapshot_id: int) -> Snapshot:
        """One snapshot; ObjectNotFoundError if its file is not there."""
        path = layout.snapshot_path(snapshot_id)
        content = checked_json.load(path, self._store.get(path))
        return parse_snapshot(path, content, snapshot_id)

    def get(self, snapshot_id: int) -> Snapshot:
        """One snapshot by id, or an error that names the ones there are."""
        number = snapshot_number("snapshot", snapshot_id)
        try:
            snapshot = self.read(number)
        except ObjectNotFoundError:
            snapshot = None
        earliest = self.earliest_id()
        if 0 < number < earliest:
            raise SnapshotExpiredError(
                f"snapshot {number} has expired; the earliest left is {earliest} (a tag or a consumer "
                "keeps snapshots from expiring)"
            )
        if snapshot is None:
            raise SnapshotNotFoundError(f"snapshot {number} does not exist; {self._range_text()}")
        return snapshot

    def latest(self) -> Snapshot | None:
        """The newest committed snapshot, or None before the first commit."""
        while number := self.latest_id():
            # Snapshots are never changed and their numbers never given twice, so the one read last may serve again.
            if self._latest is not None and self._latest.id == number:
                return self._latest
            try:
                self._latest = self.read(number)
            except ObjectNotFoundError:
                continue  # it has expired meanwhile, so there is a newer one
            return self._latest
        return None

    def recent(self) -> Snapshot | None:
        """One that was the newest when this store looked last; the newest if it never did."""
        return self._latest if self._latest is not None else self.latest()

    def latest_id(self) -> int:
        """The newest snapshot's id, 0 before the first commit; CorruptFileError if one below it is missing."""
        known = number = self._known_latest
        while number := number or self._listed_latest():
            while self._exists(number + 1):
                number += 1
            # The newest is the one that is still there after its successor was seen missing: snapshots expire oldest
            # first. A file that a late writer left below the mark does not count.
            if self._exists(number) and (number == known or number >= self.earliest_id()):
                break
            number = 0
        self._known_latest = number
        return number

    def earliest_id(self) -> int:
        """The smallest id that a snapshot may have; those below have expired."""
        return self._marks.earliest()

    def first_id(self) -> int:
        """The smallest id of a snapshot that is there. Requires: there is one."""
        earliest = self.earliest_id()
        return earliest if self._exists(earliest) else min(self.ids(), default=self.latest_id())

    def is_retained(self, snapshot: Snapshot) -> bool:
        """Whether the snapshot has not expired; its files are there if so."""
        return snapshot.id >= self.earliest_id()

    def is_in_line(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot that was just published continues the table.

        It does not if others used its number and let it expire since its predecessor was read. SnapshotExpiredError
        if so many have expired that nobody can tell.
        """
        if snapshot.id >= self.earliest_id():
            return True
        commit = self._marks.newest().commits.get(snapshot.id)
        if commit is None:
            raise SnapshotExpiredError(f"snapshot {snapshot.id} expired long ago")
        return commit == snapshot.commit_uuid

    def ids(self) -> list[int]:
        """The ids of all snapshots, ascending."""
        found = [layout.snapshot_id_of(info.path) for info in self._store.list(layout.SNAPSHOT_DIR)]
        earliest = self.earliest_id()
        return sorted(id_ for id_ in found if id_ is not None and id_ >= earliest)

    def check_unbroken(self, below: int, above: int) -> None:
        """Every number between two snapshots is there too, whether a listing showed it or not."""
        # A listing is not taken at one instant: it may miss what was committed or show what expired while it ran.
        number = below + 1
        while number < above:
            if self._exists(number):
                number += 1
                continue
            earliest = self.earliest_id()
            if number >= earliest:
                raise CorruptFileError(
                    layout.snapshot_path(number),
                    f"missing, although snapshots {below} and {above} are there; put it back before "
                    "the table is used again",
                )
            number = earliest

    def newest_first(self) -> Iterator[Snapshot]:
        """All retained snapshots."""
        for id_ in reversed(self.ids()):
            try:
                yield self.read(id_)
            except ObjectNotFoundError:
                if id_ >= self.earliest_id():
                    raise
                return

    def publish(self, snapshot: Snapshot) -> None:
        """Create the snapshot's file if absent: the one instant at which a commit happens."""
        self._store.put(layout.snapshot_path(snapshot.id), _serialise(snapshot))

    def note_latest(self, snapshot: Snapshot) -> None:
        """Leave the hint, which spares other readers the listing. Failing to is harmless.

        Requires: this store has published the snapshot, so that it need not be read to be known.
        """
        self._known_latest = max(self._known_latest, snapshot.id)
        self._latest = snapshot
        try:
            self._store.replace(layout.LATEST_HINT, str(snapshot.id).encode())
        except StorageError:
            return

    def noted_latest(self) -> int:
        """What the hint says, 0 if it says nothing. It is not checked: more than a hint it must not be."""
        try:
            return int(bytes(self._store.get(layout.LATEST_HINT)))
        except (ObjectNotFoundError, ValueError):
            return 0

    def withdraw(self, snapshot: Snapshot) -> None:
        """Take back what was published out of line. Failing to is harmless: it lies below the mark."""
        self._known_latest = 0
        with suppress(StorageError):
            self._store.delete(layout.snapshot_path(snapshot.id))

    def _listed_latest(self) -> int:
        for _ in range(MAX_LISTINGS):
            ids = self.ids()
            for below, above in pairwise(ids):
                self.check_unbroken(below, above)
            if ids:
                return ids[-1]
            earliest = self.earliest_id()
            if earliest == 1:
                # Not listed, and yet there: a link in its place is refused here.
                return int(self._exists(1))
        raise CorruptFileError(
            layout.snapshot_path(earliest), "missing, although only those before it have expired"
        )

    def _exists(self, snapshot_id: int) -> bool:
        return self._store.exists(layout.snapshot_path(snapshot_id))

    def _range_text(self) -> str:
        ids = self.ids()
        return f"snapshots {ids[0]} to {ids[-1]} do" if ids else "the table has no snapshot yet"


def parse_snapshot(path: str, content: dict[str, Any], snapshot_id: int | None = None) -> Snapshot:
    """The snapshot that a file holds, whose number is known unless None."""
    try:
        snapshot = Snapshot.from_json(content)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptFileError(path, f"not a snapshot: {error!r}") from error
    if snapshot_id is not None and snapshot.id != snapshot_id:
        raise CorruptFileError(path, f"holds snapshot {snapshot.id}")
    return snapshot


def snapshot_number(what: str, value: Any) -> int:
    """A snapshot's id as a user gave it; `what` names the argument in the refusal."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise SnapshotNotFoundError(
            f"{what} = {value!r}: snapshots go by number; give a whole number, 1 or more"
        )
    return operator.index(value)


def _serialise(snapshot: Snapshot) -> bytes:
    """The bytes of a snapshot's file. Ensures: reading them gives an equal snapshot."""
    path = layout.snapshot_path(snapshot.id)
    try:
        data = checked_json.dump(snapshot.to_json())
        read_back = Snapshot.from_json(checked_json.load(path, pa.py_buffer(data)))
    except (KeyError, TypeError, ValueError, CorruptFileError) as error:
        raise _unreadable(path, repr(error)) from error
    if read_back != snapshot:
        raise _unreadable(path, f"{read_back} instead of {snapshot}")
    return data


def _unreadable(path: str, reason: str) -> LsmergeError:
    return LsmergeError(f"{path} would not read back as written: {reason}; nothing was published")


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r} is not a whole number")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    return value
