"""The changelog of a commit's runs, made while they are written.

What a lookup changelog says depends on the snapshot that the commit lands on. That is nearly always the one that is the
newest while the runs are written, so rows that are in memory anyway are compared with it then, beside the writing and
syncing of their run. If others commit first, what was made is dropped and made anew from the run (producer.py).
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from lsmerge.engine.changelog_file import ChangelogName, write_changelog
from lsmerge.engine.context import TableContext
from lsmerge.engine.difference import changes_by
from lsmerge.engine.merging import fits_window
from lsmerge.engine.parallel import ordered_map
from lsmerge.env import CORES
from lsmerge.errors import LsmergeError
from lsmerge.merge.groups import Source
from lsmerge.meta.data_file import BucketId, DataFile
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.version import sorted_runs

BaseFiles = dict[BucketId, tuple[DataFile, ...]]


class Told(NamedTuple):
    """The changelog of a bucket, and the names of the files whose rows it was made of."""

    compared: frozenset[str]
    files: tuple[DataFile, ...]


def base_files(
    context: TableContext, latest: Snapshot | None, places: Sequence[BucketId]
) -> BaseFiles:
    """What buckets hold in a snapshot."""
    if latest is None:
        return dict.fromkeys(places, ())
    version = context.versions.load(latest)
    version.preload(places)
    return {place: version.files(place) for place in places}


def names_of(files: Iterable[DataFile]) -> frozenset[str]:
    """While these are the same, so are the rows."""
    return frozenset(file.name for file in files)


class LookAhead:
    """Writes the runs of some buckets, and beside each of them its changelog. Thread-safe."""

    def __init__(
        self,
        context: TableContext,
        places: Sequence[BucketId],
        compared: Sequence[str] | None,
        note: Callable[[BucketId, Told], None],
    ) -> None:
        """`compared` as in `changes_by`; `note` is told what was made, also if writing the run fails."""
        self._context = context.sharing_budget(min(CORES, len(places)))
        self._places = places
        self._compared = compared
        self._note = note
        self._pending = set(places)
        self._lock = threading.Lock()
        self._latest: Snapshot | None = None
        self._base: BaseFiles | None = None

    def covers(self, place: BucketId) -> bool:
        """Whether the bucket's run is still to be written, and will be its only one."""
        return place in self._pending

    def write(
        self,
        place: BucketId,
        rows: pa.RecordBatch,
        name: ChangelogName,
        write_run: Callable[[], DataFile],
    ) -> DataFile:
        """The run that `write_run` makes of `rows`."""
        self._pending.remove(place)
        # Several buckets are written side by side already.
        at_once = 2 if len(self._places) == 1 else 1
        tasks: list[Callable[[], Told | DataFile | None]] = [
            partial(self._tell, place, rows, name),
            write_run,
        ]
        told, run = ordered_map(lambda task: task(), tasks, at_once)
        assert isinstance(run, DataFile)
        if isinstance(told, Told):
            self._note(place, Told(told.compared | {run.name}, told.files))
        return run

    def _tell(self, place: BucketId, rows: pa.RecordBatch, name: ChangelogName) -> Told | None:
        try:
            told = self._told(place, rows, name)
        except LsmergeError:
            return None  # the commit meets it again, and knows what to make of it
        if told is not None:
            self._note(place, told)
        return told

    def _told(self, place: BucketId, rows: pa.RecordBatch, name: ChangelogName) -> Told | None:
        context, base = self._context, self._base_of(place)
        if not fits_window(context, rows, 1 + len(sorted_runs(base))):
            return None
        sequence = 0 if self._latest is None else self._latest.next_sequence
        source = Source(rows, context.keys(rows), context.order(rows), sequence)
        changes = changes_by(context, base, source, self._compared)
        files = write_changelog(context, place, 0, name, iter([changes] if len(changes) else []))
        return Told(names_of(base), files)

    def _base_of(self, place: BucketId) -> tuple[DataFile, ...]:
        with self._lock:
            if self._base is None:
                self._latest = self._context.snapshots.latest()
                self._base = base_files(self._context, self._latest, self._places)
            return self._base[place]
