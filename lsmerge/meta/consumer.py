"""Consumers: readers of changes whose place is kept in the table.

    consumer/consumer-<name>/position-<snapshot id>.json
    consumer/consumer-<name>/lease.json

A place is an object of its own, created durably before older ones are deleted, so that a crash leaves the old place or
the new one, and the largest counts. What a consumer still needs must not expire: `positions` says it.
A lease says until when a consumer is to be waited for. It is a hint, replaced in place: a consumer without one, or with
one that cannot be read, is waited for, so that no crash makes rows expire that somebody needs.
"""

import re
from dataclasses import dataclass

from lsmerge.errors import (
    CorruptFileError,
    InvalidOptionError,
    ObjectExistsError,
    ObjectNotFoundError,
)
from lsmerge.failpoints import failpoint
from lsmerge.storage import checked_json, layout
from lsmerge.storage.object_store import ObjectStore

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True, slots=True)
class Position:
    """The snapshot whose changes come next; `is_whole` if all of its rows come first, as inserts."""

    snapshot_id: int
    is_whole: bool = False


class ConsumerStore:
    """Keeps the places of a table's consumers. One reader at a time goes by a name."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def position(self, name: str) -> Position | None:
        """Where a consumer goes on; None if nobody went by that name yet."""
        found = self._paths(checked_name(name))
        return self._read(found[max(found)]) if found else None

    def advance(self, name: str, position: Position) -> None:
        """Note a new place, durably on return."""
        older = self._paths(checked_name(name))
        path = layout.consumer_path(name, position.snapshot_id)
        content = {"next-snapshot": position.snapshot_id, "whole": position.is_whole}
        try:
            self._store.put(path, checked_json.dump(content))
        except ObjectExistsError:
            # Noted before, by this consumer or by another reader under its name.
            self._store.confirm(path)
        failpoint("consumer.after-note")
        for number, old in older.items():
            if number < position.snapshot_id:
                self._store.delete(old)

    def positions(self) -> dict[str, int]:
        """The next snapshot that each consumer needs: that one and later ones must not expire."""
        found: dict[str, int] = {}
        for info in self._store.list(layout.CONSUMER_DIR):
            place = layout.consumer_place(info.path)
            if place is not None:
                found[place[0]] = max(place[1], found.get(place[0], 0))
        return dict(sorted(found.items()))

    def lease(self, name: str, until_ms: int) -> None:
        """Wait for a consumer until then, and no longer."""
        path = layout.consumer_lease_path(checked_name(name))
        self._store.replace(path, checked_json.dump({"until-ms": until_ms}))

    def end_lease(self, name: str) -> None:
        """Wait for a consumer whatever the time."""
        self._store.delete(layout.consumer_lease_path(checked_name(name)))

    def awaited(self, now_ms: int) -> dict[str, int]:
        """`positions` of the consumers that are still to be waited for."""
        return {n: number for n, number in self.positions().items() if not self._is_over(n, now_ms)}

    def delete(self, name: str) -> None:
        """Forget a consumer; one that nobody knows is fine."""
        for path in self._paths(checked_name(name)).values():
            self._store.delete(path)
            failpoint("consumer.after-forget")
        self.end_lease(name)

    def _is_over(self, name: str, now_ms: int) -> bool:
        path = layout.consumer_lease_path(name)
        try:
            until = checked_json.load(path, self._store.get(path)).get("until-ms")
        except (ObjectNotFoundError, CorruptFileError):
            return False
        return isinstance(until, int) and until < now_ms

    def _paths(self, name: str) -> dict[int, str]:
        """The places noted for a consumer by snapshot: one, or two after a crash."""
        found: dict[int, str] = {}
        for info in self._store.list(layout.consumer_dir(name)):
            place = layout.consumer_place(info.path)
            if place is not None:
                found[place[1]] = info.path
        return found

    def _read(self, path: str) -> Position:
        content = checked_json.load(path, self._store.get(path))
        number, is_whole = content.get("next-snapshot"), content.get("whole")
        place = layout.consumer_place(path)
        if place is None or number != place[1] or not isinstance(is_whole, bool):
            raise CorruptFileError(path, f"holds no place of a consumer: {content}")
        return Position(place[1], is_whole)


def checked_name(name: str) -> str:
    """A consumer's name, which becomes part of a path."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidOptionError(
            f"consumer = {name!r}: use up to 100 letters, digits, '-', '_' and '.', a letter or digit first"
        )
    return name
