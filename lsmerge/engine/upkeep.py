"""What one open table remembers of compactions still to do, and the thread that may do them. Thread-safe.

At most one compaction of an open table is under way: two would only lose to each other. A process that is forked while
the table is open has no such thread; it begins anew, and leaves to the other process what that one had to do.
"""

import logging
import threading
import weakref
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from lsmerge.env import in_forked_processes
from lsmerge.errors import TableClosedError
from lsmerge.meta.data_file import BucketId

logger = logging.getLogger("lsmerge.compaction")


@dataclass(frozen=True, slots=True)
class CommitCount:
    """Commits with rows from snapshot `after` (exclusive) to `upto` (inclusive)."""

    after: int
    upto: int
    commits: int


class Upkeep:
    """The buckets that were written to since they were last looked at."""

    def __init__(self) -> None:
        self._is_closing = False
        self.begin()
        _IN_USE.add(self)

    def begin(self) -> None:
        """Nothing is due, nobody compacts. For the first thread of a process, before there are others."""
        self.turn = threading.Lock()  # held by whoever compacts
        self.counted: CommitCount | None = None  # what was counted last, by whoever has the turn
        self._lock = threading.Lock()
        self._due: set[BucketId] = set()
        self._pool: ThreadPoolExecutor | None = None
        self._newest: Future[None] | None = None

    def add(self, places: Collection[BucketId]) -> None:
        """Have these looked at."""
        with self._lock:
            self._due.update(places)

    def take(self) -> set[BucketId]:
        """The buckets to look at, which are the caller's from now on."""
        with self._lock:
            taken, self._due = self._due, set()
        return taken

    def start(self, work: Callable[[], None]) -> None:
        """Run `work` on the background thread, once for all calls that it has not begun to serve yet."""
        with self._lock:
            if self._is_closing or self._is_waiting():
                return
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, thread_name_prefix="lsmerge-compaction")
            self._newest = self._pool.submit(_loudly, work)

    def wait(self) -> None:
        """Until the background thread has done what it was given."""
        with self._lock:
            newest = self._newest
        if newest is not None:
            wait([newest])

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is to be started."""
        return self._is_closing

    def check_open(self, _progress: object = None) -> None:
        """The hook by which a compaction notices that the table is being closed."""
        if self._is_closing:
            raise TableClosedError("the table is being closed: the compaction was given up")

    def close(self) -> None:
        """End the background thread; what it has not published is given up. Idempotent."""
        with self._lock:
            self._is_closing = True
            pool = self._pool
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)

    def _is_waiting(self) -> bool:
        newest = self._newest
        return newest is not None and not newest.running() and not newest.done()


def _loudly(work: Callable[[], None]) -> None:
    """Nobody asks the background thread how it went, so it must say."""
    try:
        work()
    except BaseException:
        logger.exception("a compaction in the background failed")
        raise


_IN_USE: "weakref.WeakSet[Upkeep]" = weakref.WeakSet()


def _begin_all() -> None:
    for upkeep in _IN_USE:
        upkeep.begin()


# A lock that another thread held would be held for ever.
in_forked_processes(_begin_all)
