"""Marks of expiry: the number below which snapshots are no more.

Expiry happens at one instant, when `expired/expired-<n>.json` is created: from then on snapshots below n do not
count, whether their files are still there, or come back after power loss. So no reader can take the files of a
half-done expiry for a gap, and no late writer can bring a number back to life.

A mark also names the last commits that expired. A writer whose number is below the mark learns from it whether its
commit was part of the table and has expired since, or came too late.
"""

from dataclasses import dataclass
from typing import Any

from lsmerge.errors import CorruptFileError, ObjectExistsError
from lsmerge.storage import checked_json, layout
from lsmerge.storage.object_store import ObjectStore

# Commits that a mark remembers: how far others may have come while a writer published one snapshot.
REMEMBERED = 300
# The newest mark counts. The one before stays, so that a listing during which a mark is replaced shows one.
KEPT_MARKS = 2


@dataclass(frozen=True, slots=True)
class ExpiryMark:
    """Snapshots below `earliest` have expired; `commits` has the commit uuids of the last of them by number."""

    earliest: int
    commits: dict[int, str]

    def to_json(self) -> dict[str, Any]:
        return {
            "earliest": self.earliest,
            "commits": {str(number): uuid for number, uuid in self.commits.items()},
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "ExpiryMark":
        """Inverse of `to_json`; content of another shape raises what reading it raises."""
        commits = {int(number): str(uuid) for number, uuid in content["commits"].items()}
        return cls(int(content["earliest"]), commits)


class ExpiryMarks:
    """The marks of one table: those of its snapshots, or of whatever else is numbered like them."""

    def __init__(self, store: ObjectStore, directory: str = layout.EXPIRED_DIR) -> None:
        self._store = store
        self._directory = directory

    def earliest(self) -> int:
        """The smallest number that a snapshot may have."""
        return max(self._listed(), default=1)

    def newest(self) -> ExpiryMark:
        """The mark in force."""
        numbers = self._listed()
        return self._read(max(numbers)) if numbers else ExpiryMark(1, {})

    def publish(self, mark: ExpiryMark) -> None:
        """Expire all snapshots below `mark.earliest`; durable on return. Older marks go."""
        older = sorted(self._listed())
        path = self._path(mark.earliest)
        try:
            self._store.put(path, checked_json.dump(mark.to_json()))
        except ObjectExistsError:
            self._store.confirm(path)  # another expiry was faster; its name may not be durable yet
        for number in older[: 1 - KEPT_MARKS]:
            self._store.delete(self._path(number))

    def _path(self, number: int) -> str:
        return layout.expired_path(number, self._directory)

    def _listed(self) -> list[int]:
        found = (layout.earliest_of(info.path) for info in self._store.list(self._directory))
        return [number for number in found if number is not None]

    def _read(self, number: int) -> ExpiryMark:
        path = self._path(number)
        content = checked_json.load(path, self._store.get(path))
        try:
            mark = ExpiryMark.from_json(content)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CorruptFileError(path, f"not a mark of expiry: {error!r}") from error
        if mark.earliest != number:
            raise CorruptFileError(path, f"holds mark {mark.earliest}")
        return mark
