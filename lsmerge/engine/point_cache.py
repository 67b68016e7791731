"""Versions of an open table as single gets see them, kept for the gets to come. Thread-safe.

What a version makes for its gets is small: the memory is that of blocks and indexes, which RunCache bounds.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from lsmerge.meta.snapshot import Snapshot
from lsmerge.storage.watching import Watcher
from lsmerge_native.points import PointReader
from lsmerge_native.watch import DirectoryWatch

# The newest one, and some that time travel returns to.
MAX_VERSIONS = 4


class VersionId(NamedTuple):
    """A snapshot read under a schema."""

    commit_uuid: str
    schema_id: int


class PointReads(Protocol):
    """One version as single gets see it."""

    @property
    def reader(self) -> PointReader: ...

    def get(self, key: Any) -> dict[str, Any] | None:
        """The visible row of one key."""

    def get_few(self, keys: list[Any]) -> pa.Table | None:
        """The visible rows of some keys, None if they have to be found in another way."""


class PointCache:
    """The versions used last. `newest` answers gets of the newest snapshot while it can vouch that it is that."""

    def __init__(self, watcher: Watcher) -> None:
        """`watcher` watches whatever makes another snapshot or schema the newest."""
        self._watcher = watcher
        self.newest: PointReader | None = None
        self._newest_snapshot: Snapshot | None = None
        self._lock = threading.Lock()
        self._versions: OrderedDict[VersionId, PointReads] = OrderedDict()

    def version(self, key: VersionId, make: Callable[[], PointReads]) -> PointReads:
        """One version, made if need be."""
        with self._lock:
            found = self._versions.get(key)
        if found is None:
            found = make()
        with self._lock:
            found = self._versions.setdefault(key, found)
            self._versions.move_to_end(key)
            while len(self._versions) > MAX_VERSIONS:
                self._versions.popitem(last=False)
        return found

    def watch(self) -> DirectoryWatch | None:
        """A watch of whatever makes another version the newest; None where that has to be asked for."""
        return self._watcher.begin()

    def newest_snapshot(self) -> Snapshot | None:
        """The newest snapshot of the table, None if it has to be looked for."""
        with self._lock:
            reader, snapshot = self.newest, self._newest_snapshot
        return snapshot if reader is not None and reader.is_current() else None

    def note_newest(self, snapshot: Snapshot, reads: PointReads, watch: DirectoryWatch) -> None:
        """This was the newest version of the table after `watch` began."""
        reads.reader.watch(watch)
        with self._lock:
            self.newest, self._newest_snapshot = reads.reader, snapshot

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self.newest = self._newest_snapshot = None
            self._versions.clear()
        self._watcher.close()
