"""Open run files and decoded blocks, kept within bounds. Thread-safe.

Readers are cheap to keep (an index and a file handle) and bounded by number; decoded blocks are bounded by bytes
(block_shelf.py). Blocks that leave memory go to local disk and are used there (block_spill.py). A file is immutable, so
nothing here is ever stale.

Single gets find blocks without asking here: each file they look into (`PointFile`) has its own at hand. They only leave
a mark on a block that they use. Invariant: a file has at hand only blocks that are kept here.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from weakref import WeakValueDictionary, ref

from lsmerge.engine.block_shelf import BlockId, BlockShelf, FileId, point_block
from lsmerge.engine.block_spill import BlockSpill
from lsmerge.merge.groups import Source
from lsmerge.metrics import Counters
from lsmerge.storage.object_store import ObjectStore
from lsmerge.storage.run_file import RunReader, RunSummary, open_run
from lsmerge_native.point_files import PointFile
from lsmerge_native.point_rows import PointBlock

MAX_OPEN_RUNS = 256


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What the cache of decoded blocks holds, and how it fared since the table was opened.

    `hits` are blocks found in memory; of the others, the `misses`, `disk_hits` were on local disk and used there. All
    that were neither had to be decoded.
    """

    blocks: int
    size_bytes: int
    max_bytes: int
    hits: int
    misses: int
    evictions: int
    disk_blocks: int = 0
    disk_bytes: int = 0
    max_disk_bytes: int = 0
    disk_hits: int = 0


class RunCache:
    """Readers of run files, and blocks decoded for point reads."""

    def __init__(
        self,
        store: ObjectStore,
        max_block_bytes: int,
        spill: BlockSpill | None = None,
        counters: Counters | None = None,
    ) -> None:
        self._store = store
        self._counters = counters
        self._max_block_bytes = max_block_bytes
        self._lock = threading.Lock()
        self._readers: OrderedDict[str, RunReader] = OrderedDict()
        self._memory = BlockShelf()
        self._spill = spill
        self._decoded = 0
        self._files: WeakValueDictionary[FileId, PointFile] = WeakValueDictionary()
        # By identity, which another file may have once this one is gone.
        self._opened: OrderedDict[int, ref[PointFile]] = OrderedDict()

    def stats(self) -> CacheStats:
        """Figures of this moment."""
        with self._lock:
            disk = BlockShelf() if self._spill is None else self._spill.blocks
            return CacheStats(
                blocks=len(self._memory),
                size_bytes=self._memory.size_bytes,
                max_bytes=self._max_block_bytes,
                hits=self._memory.hits,
                misses=self._decoded + disk.hits,
                evictions=self._memory.evictions,
                disk_blocks=len(disk),
                disk_bytes=disk.size_bytes,
                max_disk_bytes=0 if self._spill is None else self._spill.max_bytes,
                disk_hits=disk.hits,
            )

    def reader(self, path: str, summary: RunSummary) -> RunReader:
        """The reader of one file, opened if need be."""
        with self._lock:
            reader = self._readers.get(path)
            if reader is not None:
                self._readers.move_to_end(path)
                return reader
        opened = open_run(self._store, path, summary, self._counters)
        with self._lock:
            # Another thread may have opened it meanwhile; an evicted reader is closed by its last user.
            reader = self._readers.setdefault(path, opened)
            while len(self._readers) > MAX_OPEN_RUNS:
                self._readers.popitem(last=False)
        return reader

    def find(self, key: BlockId) -> PointBlock | None:
        """A block that needs no decoding."""
        with self._lock:
            self._expire()
            found = self._kept(key)
            if found is not None:
                found.note_use()
            return found

    def block(self, key: BlockId, decode: Callable[[], Source]) -> PointBlock:
        """A decoded block, kept for the next look-up."""
        found = self.find(key)
        if found is not None:
            return found
        source = decode()
        with self._lock:
            self._decoded += 1
        return self.keep(key, source)

    def keep(self, key: BlockId, source: Source) -> PointBlock:
        """Keep a block that somebody has decoded."""
        decoded = point_block(source)
        with self._lock:
            kept = self._memory.add(key, decoded, _weight(source))
            evicted = list(self._memory.evict(self._max_block_bytes))
            self._let_go(evicted)
        for one, block in evicted:
            self._put_on_disk(one, block.source)
        return kept

    def forget(self, paths: Iterable[str]) -> None:
        """Drop the blocks of files that are no part of the table any more: few will ask for them."""
        gone = frozenset(paths)
        with self._lock:
            self._let_go(self._memory.forget(gone))
            if self._spill is not None:
                self._let_go(self._spill.blocks.forget(gone))

    def file(self, key: FileId, make: Callable[[], PointFile]) -> PointFile:
        """A file as single gets look into it, the same for all that know it."""
        with self._lock:
            found = self._files.get(key)
            if found is None:
                found = self._files[key] = make()
            return found

    def note_opened(self, file: PointFile) -> None:
        """Of too many files that single gets have opened, close the one that was opened first."""
        first = None
        with self._lock:
            self._opened[id(file)] = ref(file)
            self._opened.move_to_end(id(file))
            if len(self._opened) > MAX_OPEN_RUNS:
                first = self._opened.popitem(last=False)[1]()
        if first is not None:
            first.close()

    def put_at_hand(self, key: BlockId, block: PointBlock, file: PointFile) -> None:
        """Let single gets find a block in its file for as long as it is kept."""
        with self._lock:
            if self._kept(key) is block:
                file.put(key.number, block)

    def _kept(self, key: BlockId) -> PointBlock | None:
        found = self._memory.get(key)
        return self._spill.blocks.get(key) if found is None and self._spill is not None else found

    def _expire(self) -> None:
        if self._spill is not None:
            self._let_go(self._spill.expired())

    def _let_go(self, blocks: Iterable[tuple[BlockId, PointBlock]]) -> None:
        """Keep the invariant for blocks that are kept no longer."""
        for key, _ in blocks:
            file = self._files.get(key.file)
            if file is not None:
                file.put(key.number, None)

    def _put_on_disk(self, key: BlockId, source: Source) -> None:
        spill = self._spill
        if spill is None:
            return
        with self._lock:
            self._let_go(spill.superfluous())
            is_wanted = spill.has_room(key, _weight(source))
        written = spill.write(source) if is_wanted else None
        if written is not None:
            with self._lock:
                spill.add(key, *written)

    def close(self) -> None:
        """Drop everything; readers close when their last user lets go."""
        with self._lock:
            self._readers.clear()
            self._memory.clear()
            if self._spill is not None:
                self._spill.blocks.clear()
            for file in self._files.values():
                file.close()


def _weight(source: Source) -> int:
    return int(source.batch.nbytes) + source.keys.nbytes
