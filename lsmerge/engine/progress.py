"""How far long work is, for whoever asked to be told.

Work on rows counts input rows. While rows are being merged only those that came out are known, which are never more;
the rest is added when their bucket or partition is done.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from lsmerge.engine.progress_bar import ProgressBar
from lsmerge.errors import InvalidOptionError


@dataclass(frozen=True, slots=True)
class CompactionProgress:
    """A reading of work on rows: what is done, and what there is to do."""

    buckets_done: int
    buckets_total: int
    rows_done: int
    rows_total: int
    unit = "rows"

    @property
    def done(self) -> int:
        return self.rows_done

    @property
    def total(self) -> int:
        return self.rows_total


@dataclass(frozen=True, slots=True)
class FileProgress:
    """A reading of work on files."""

    files_done: int
    files_total: int
    unit = "files"

    @property
    def done(self) -> int:
        return self.files_done

    @property
    def total(self) -> int:
        return self.files_total


Item = TypeVar("Item")
ProgressHook: TypeAlias = Callable[[CompactionProgress], None]
FileHook: TypeAlias = Callable[[FileProgress], None]


def hook_of(given: Any, work: str) -> Callable[[Any], None] | None:
    """What a user's `progress` asks for: nothing, a bar for the named work, or a call of his own."""
    if given is None or given is False:
        return None
    if given is True:
        return ProgressBar(work)
    if not callable(given):
        raise InvalidOptionError(
            f"progress = {given!r}: pass True for a bar on the terminal, or something to call with each reading"
        )
    hook: Callable[[Any], None] = given
    return hook


class Tally:
    """Adds up the work of several threads and reports each step, one report at a time."""

    def __init__(self, hook: ProgressHook | None, buckets_total: int, rows_total: int) -> None:
        self._hook = hook
        self._now = CompactionProgress(0, buckets_total, 0, rows_total)
        self._settled = 0
        self._lock = threading.Lock()

    def add(self, rows: int, buckets: int = 0) -> None:
        """Note rows and buckets that were finished; what the hook raises ends the work."""
        with self._lock:
            self._report(self._now.rows_done + rows, buckets)

    def counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches, each noted when the next is asked for: it is dealt with by then."""
        for batch in batches:
            yield batch
            self.add(batch.num_rows)

    def settle(self, rows: int, buckets: int) -> None:
        """Note that a part with so many input rows is done, however many of them were counted on the way.

        Requires: parts come one after the other.
        """
        with self._lock:
            self._settled += rows
            self._report(self._settled, buckets)

    def _report(self, rows_done: int, buckets: int) -> None:
        if self._hook is None:
            return
        now = self._now
        # Rows that are read once more, as where very many buckets are written, are not done twice.
        rows_done = min(rows_done, now.rows_total)
        self._now = replace(now, rows_done=rows_done, buckets_done=now.buckets_done + buckets)
        self._hook(self._now)


def counted(hook: FileHook | None, items: Iterable[Item], total: int) -> Iterator[Item]:
    """Items, one for each of `total` files, each told when the next is asked for: it is dealt with by then."""
    for number, item in enumerate(items, start=1):
        yield item
        if hook is not None:
            hook(FileProgress(number, total))
