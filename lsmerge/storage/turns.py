"""Taking turns: processes of one machine that would spoil each other's work do it one after the other.

A turn is an advisory lock on a directory of the store, so there is no file to leave behind, and the end of a process
ends its turn. It spares work and decides nothing: who has waited long enough, or whose file system knows no such
locks, goes ahead without, and is right too. Readers never take one.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lsmerge.env import Env
from lsmerge.storage.object_store import ObjectStore

# Many writers come to their turn within this time; one that was stopped in its turn holds up others no longer.
PATIENCE_S = 0.5
# How long to sleep between two looks. Of many that wait, the first to wake up is next.
NAP_S = 0.002


class Turns:
    """The turns at one directory. Thread-safe: threads, too, wait for each other."""

    def __init__(self, store: ObjectStore, directory: str, env: Env) -> None:
        self._store = store
        self._directory = directory
        self._env = env

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Wait for a turn, but not for ever."""
        with self._place() as place:
            waited = 0.0
            while waited < PATIENCE_S and not _is_free(place):
                nap = self._env.random.uniform(0.5, 1.5) * NAP_S
                self._env.sleep(nap)
                waited += nap
            yield

    @contextmanager
    def if_free(self) -> Iterator[bool]:
        """A turn if nobody has it; False if somebody does."""
        with self._place() as place:
            yield _is_free(place)

    @contextmanager
    def _place(self) -> Iterator[int | None]:
        """The directory as a descriptor, None where there is none to lock."""
        handles = self._store.open_directories([self._directory])
        place = None if handles is None else handles[0]
        try:
            yield place
        finally:
            if place is not None:
                _leave(place)


def _leave(place: int) -> None:
    """End the turn, also if a process that was forked meanwhile has the descriptor too."""
    with suppress(OSError):
        fcntl.flock(place, fcntl.LOCK_UN)
    os.close(place)


def _is_free(place: int | None) -> bool:
    """Whether the turn is ours now, or there are no turns to wait for."""
    if place is None:
        return True
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without such locks
    return True
