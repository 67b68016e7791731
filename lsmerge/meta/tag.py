"""Tags: names for snapshots. A tagged snapshot stays readable after it has expired, until the tag goes.

A tag file holds a copy of its snapshot, since the snapshot's own file goes with its neighbours: numbers of snapshots
have no gap. Creating the file, which fails if it is there, makes the tag.

Tag and expiry agree on the files in this way: who expires creates the mark first and looks at the tags afterwards; who
tags creates the file first and looks at the mark afterwards. So at least one of them sees the other.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from lsmerge.errors import (
    CorruptFileError,
    InvalidOptionError,
    ObjectExistsError,
    ObjectNotFoundError,
    SnapshotExpiredError,
    SnapshotNotFoundError,
    TagExistsError,
)
from lsmerge.failpoints import failpoint
from lsmerge.meta.snapshot import Snapshot, SnapshotStore, parse_snapshot
from lsmerge.schema import unknown_name
from lsmerge.storage import checked_json, layout
from lsmerge.storage.object_store import ObjectStore

MAX_PATH_BYTES = 200


@dataclass(frozen=True, slots=True)
class Tag:
    """A named snapshot; None in `expires_ms` is for ever."""

    name: str
    snapshot: Snapshot
    created_ms: int
    expires_ms: int | None = None

    def is_over(self, now_ms: int) -> bool:
        """Whether the tag has outlived its time."""
        return self.expires_ms is not None and self.expires_ms <= now_ms

    def to_json(self) -> dict[str, Any]:
        """What the tag file holds, as docs/format.md says."""
        return {
            "name": self.name,
            "created-ms": self.created_ms,
            "expires-ms": self.expires_ms,
            "snapshot": self.snapshot.to_json(),
        }


class TagStore:
    """The tags of one table."""

    def __init__(self, store: ObjectStore, snapshots: SnapshotStore) -> None:
        self._store = store
        self._snapshots = snapshots

    def create(self, tag: Tag) -> None:
        """Store a new tag durably. TagExistsError if the name is taken, SnapshotExpiredError if it came too late."""
        path = tag_path(tag.name)
        try:
            self._store.put(path, checked_json.dump(tag.to_json()))
        except ObjectExistsError:
            raise TagExistsError(
                f"tag {tag.name!r} is there already; delete it first, or choose another name"
            ) from None
        failpoint("tag.after-create")
        if self._snapshots.is_retained(tag.snapshot) or self._is_held_by_others(tag):
            return
        self._store.delete(path, durable=True)
        raise SnapshotExpiredError(
            f"snapshot {tag.snapshot.id} expired while it was tagged {tag.name!r}; the earliest left "
            f"is {self._snapshots.earliest_id()}"
        )

    def get(self, name: Any) -> Tag:
        """A tag by name, or an error with the nearest one there is."""
        path = tag_path(name)
        try:
            return self.read(path)
        except ObjectNotFoundError:
            known = [tag.name for tag in self.all()]
            reason = unknown_name("tag", name, known) if known else f"unknown tag {name!r}"
            raise SnapshotNotFoundError(reason) from None

    def delete(self, tag: Tag) -> None:
        """Remove a tag for good; whether its files may go, the caller finds out afterwards."""
        self._store.delete(tag_path(tag.name), durable=True)
        failpoint("tag.after-delete")

    def all(self) -> list[Tag]:
        """All tags, by name."""
        found = []
        for path in self.paths():
            with suppress(ObjectNotFoundError):  # deleted since it was listed
                found.append(self.read(path))
        return sorted(found, key=lambda tag: tag.name)

    def paths(self) -> list[str]:
        """The files of all tags."""
        listed = (info.path for info in self._store.list(layout.TAG_DIR))
        return sorted(filter(layout.is_tag_path, listed))

    def holding(self, snapshot_id: int) -> Tag | None:
        """A tag of the snapshot with this number."""
        return next((tag for tag in self.all() if tag.snapshot.id == snapshot_id), None)

    def holds(self, snapshot: Snapshot) -> bool:
        """Whether a tag keeps the snapshot."""
        return any(tag.snapshot.commit_uuid == snapshot.commit_uuid for tag in self.all())

    def _is_held_by_others(self, tag: Tag) -> bool:
        others = (other for other in self.all() if other.name != tag.name)
        return any(other.snapshot.commit_uuid == tag.snapshot.commit_uuid for other in others)

    def read(self, path: str) -> Tag:
        """The tag in a file; ObjectNotFoundError if it is not there."""
        content = checked_json.load(path, self._store.get(path))
        try:
            snapshot = parse_snapshot(path, content["snapshot"])
            tag = Tag(content["name"], snapshot, content["created-ms"], content["expires-ms"])
            fits = tag_path(tag.name) == path and isinstance(tag.created_ms, int)
        except (KeyError, TypeError, InvalidOptionError) as error:
            raise CorruptFileError(path, f"not a tag: {error!r}") from error
        if not fits or not isinstance(tag.expires_ms, int | None):
            raise CorruptFileError(path, f"not a tag, or that of {tag.name!r}")
        return tag


def tag_path(name: Any) -> str:
    """Where the tag of that name is; a name that cannot be one is refused."""
    if not isinstance(name, str) or not name:
        raise InvalidOptionError(f"tag name {name!r}: give text that is not empty")
    try:
        path = layout.tag_path(name)
    except UnicodeEncodeError as error:
        raise InvalidOptionError(f"tag name {name!r} is not valid Unicode") from error
    if len(path) > MAX_PATH_BYTES:
        raise InvalidOptionError(
            f"tag name {name[:40]!r}... is too long: up to {MAX_PATH_BYTES - 13} letters and digits; "
            "others take three times the room of their bytes"
        )
    return path
