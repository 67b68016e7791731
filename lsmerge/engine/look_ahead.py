"""The changelog of a commit's runs, made while these are written.

What a lookup changelog says depends on the snapshot that the commit lands on. That is nearly always the one that is the
newest while the runs are written, so rows that are in memory anyway are compared with it then, while another thread
writes and syncs their run; the changelog is synced while the manifest is written. If others commit first, what was made
is dropped and made anew from the run (producer.py).
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import NamedTuple

import pyarrow as pa

from lsmerge.engine.changelog_file import ChangelogName, write_unsynced_changelog
from lsmerge.engine.context import TableContext
from lsmerge.engine.difference import changes_by
from lsmerge.engine.matching import keep_rows
from lsmerge.engine.merging import fits_window
from lsmerge.engine.unpublished import UnpublishedRun
from lsmerge.env import CORES
from lsmerge.errors import LsmergeError
from lsmerge.merge.written import is_targeted
from lsmerge.meta.data_file import BucketId, DataFile
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.version import sorted_runs

BaseFiles = dict[BucketId, tuple[DataFile, ...]]
WriteRun = Callable[[], UnpublishedRun]


class Compared(NamedTuple):
    """Names of the files that a bucket had, and of the runs that come: while these are the same, so are the rows."""

    base: frozenset[str]
    runs: frozenset[str]

    @classmethod
    def of(cls, base: Iterable[DataFile], runs: Iterable[DataFile]) -> "Compared":
        return cls(frozenset(file.name for file in base), frozenset(file.name for file in runs))


class Told(NamedTuple):
    """The changelog of a bucket, and what it was made of."""

    place: BucketId
    compared: Compared
    files: tuple[DataFile, ...]
    synced: "Future[None] | None" = None

    def settle(self) -> None:
        """Wait until the files are durable; raises if they cannot be."""
        if self.synced is not None:
            self.synced.result()


def base_files(
    context: TableContext, latest: Snapshot | None, places: Sequence[BucketId]
) -> BaseFiles:
    """What buckets hold in a snapshot."""
    if latest is None:
        return dict.fromkeys(places, ())
    version = context.versions.load(latest)
    version.preload(places)
    return {place: version.files(place) for place in places}


class LookAhead:
    """Writes the runs of some buckets, and makes their changelogs meanwhile. Thread-safe."""

    def __init__(
        self,
        context: TableContext,
        places: Sequence[BucketId],
        compared: Sequence[str] | None,
        note: Callable[[Told], None],
    ) -> None:
        """`compared` as in `changes_by`; `note` is told what was made, also if syncing the run fails."""
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
        self, place: BucketId, rows: pa.RecordBatch, name: ChangelogName, write_run: WriteRun
    ) -> DataFile:
        """Have the run of `rows` written and synced; its changelog is made meanwhile, and synced after that."""
        self._pending.remove(place)
        # Writing and syncing wait for the disk, comparing for the processor.
        writes = ThreadPoolExecutor(1, thread_name_prefix="lsmerge-write")
        written = writes.submit(write_run)
        synced = writes.submit(self._sync, written)
        try:
            self._tell(place, rows, name, written, writes)
        finally:
            writes.shutdown(wait=False)
            wait([synced])
        synced.result()
        run = written.result()
        if run.num_blocks == 1 and self._context.engine.one_row_per_key and not is_targeted(rows):
            # The next commit will look for it. Rows picked one a key were copied from what the caller gave.
            keep_rows(self._context, run.file, rows)
        return run.file

    def _sync(self, written: "Future[UnpublishedRun]") -> None:
        run = written.result()
        run.sync()
        # The next commit looks into it first of all.
        with suppress(LsmergeError):
            self._context.reader(run.file).read_filter()

    def _tell(
        self,
        place: BucketId,
        rows: pa.RecordBatch,
        name: ChangelogName,
        written: "Future[UnpublishedRun]",
        writes: ThreadPoolExecutor,
    ) -> None:
        # What goes wrong here the commit meets again, and knows what to make of it.
        with suppress(LsmergeError):
            base = self._base_of(place)
            if fits_window(self._context, rows, 1 + len(sorted_runs(base))):
                changes = self._changes(base, rows)
                batches = iter([changes] if len(changes) else [])
                run = written.result().file
                made = write_unsynced_changelog(self._context, place, 0, name, batches)
                synced = writes.submit(made.sync)
                self._note(Told(place, Compared.of(base, [run]), made.files, synced))

    def _changes(self, base: Sequence[DataFile], rows: pa.RecordBatch) -> pa.RecordBatch:
        context = self._context
        sequence = 0 if self._latest is None else self._latest.next_sequence
        source = context.source(rows, sequence)
        is_alone = len(self._places) == 1
        return changes_by(context, base, source, self._compared, is_alone=is_alone)

    def _base_of(self, place: BucketId) -> tuple[DataFile, ...]:
        with self._lock:
            if self._base is None:
                self._latest = self._context.snapshots.latest()
                self._base = base_files(self._context, self._latest, self._places)
            return self._base[place]
