"""How far a compaction is, for whoever asked to be told.

Counts input rows. While a bucket is being merged only the rows that came out are known, which are never more; the
rest is added when the bucket is done.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class CompactionProgress:
    """A reading: what is done, and what there is to do."""

    buckets_done: int
    buckets_total: int
    rows_done: int
    rows_total: int


ProgressHook: TypeAlias = Callable[[CompactionProgress], None]


class Tally:
    """Adds up the work of several threads and reports each step, one report at a time."""

    def __init__(self, hook: ProgressHook | None, buckets_total: int, rows_total: int) -> None:
        self._hook = hook
        self._now = CompactionProgress(0, buckets_total, 0, rows_total)
        self._lock = threading.Lock()

    def add(self, rows: int, buckets: int = 0) -> None:
        """Note rows and buckets that were finished; what the hook raises ends the compaction."""
        if self._hook is None:
            return
        with self._lock:
            now = self._now
            self._now = replace(
                now, rows_done=now.rows_done + rows, buckets_done=now.buckets_done + buckets
            )
            self._hook(self._now)
