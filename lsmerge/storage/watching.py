"""Whether names came or went in directories of a store, at next to no cost where the operating system tells."""

from collections.abc import Sequence
from contextlib import suppress

from lsmerge.storage.object_store import ObjectStore
from lsmerge_native.watch import DirectoryEvents, DirectoryWatch

# A directory that was put in the place of a watched one is noticed after so long.
MAX_AGE_MS = 1000
# Longer than a tick of any kernel's clock, which is 10 ms at most.
GUARD_MS = 100


class Watcher:
    """Watches some directories of a store. Thread-safe."""

    def __init__(self, store: ObjectStore, directories: Sequence[str]) -> None:
        self._store = store
        self._directories = directories
        self._events: DirectoryEvents | None = None

    def begin(self) -> DirectoryWatch | None:
        """A watch from now on.

        None if it could vouch for nothing: the store has no such means, a directory is not there, or, where the kernel
        tells of no changes, was changed just now.
        """
        handles = self._store.open_directories(self._directories)
        if handles is None:
            return None
        begun = DirectoryWatch(handles, MAX_AGE_MS, GUARD_MS, self._own_events())
        return begun if begun.is_settled else None

    def close(self) -> None:
        """Let go of what the operating system holds for it."""
        self._events = None

    def _own_events(self) -> DirectoryEvents | None:
        # Made once and kept: to end a queue of events takes the kernel milliseconds.
        if self._events is None or not self._events.is_own:
            with suppress(OSError):
                self._events = DirectoryEvents()
        return self._events
