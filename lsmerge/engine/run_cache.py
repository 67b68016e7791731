"""Open run files and decoded blocks, kept within bounds. Thread-safe.

Readers are cheap to keep (an index and a file handle) and bounded by number; decoded blocks are bounded by bytes.
Blocks that leave memory may go to local disk (block_spill.py), if reading them again costs more. A file is immutable,
so nothing here is ever stale.

Single gets find blocks without asking here: each file they look into (`PointFile`) has its own at hand. They only leave
a mark on a block that they use, so blocks leave in the order they came, but those with a mark have another turn.
Invariant: a file has at hand only blocks that are kept here.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakValueDictionary, ref

import pyarrow as pa

from lsmerge.engine.block_spill import BlockSpill
from lsmerge.merge.groups import Source
from lsmerge.metrics import Counters
from lsmerge.storage.local_store import LocalStore
from lsmerge.storage.object_store import ObjectStore
from lsmerge.storage.run_file import RunReader, RunSummary, open_run
from lsmerge_native.gather import gatherable, viewed
from lsmerge_native.point_files import PointFile
from lsmerge_native.point_rows import PointBlock

MAX_OPEN_RUNS = 256


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What the cache of decoded blocks holds, and how it fared since the table was opened.

    `hits` are blocks found in memory; of the others, the `misses`, `disk_hits` were on local disk.
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


class FileId(NamedTuple):
    """A file under a schema, as far as some columns go: a name may mean another column under another schema."""

    path: str
    schema_id: int
    names: tuple[str, ...]


class BlockId(NamedTuple):
    """What a decoded block depends on."""

    path: str
    number: int
    schema_id: int
    names: tuple[str, ...]

    @property
    def file(self) -> FileId:
        return FileId(self.path, self.schema_id, self.names)


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
        self._spill = spill
        self._disk_hits = 0
        self._max_block_bytes = max_block_bytes
        self._lock = threading.Lock()
        self._readers: OrderedDict[str, RunReader] = OrderedDict()
        self._blocks: OrderedDict[BlockId, PointBlock] = OrderedDict()
        self._block_bytes = 0
        self._past_hits = self._misses = self._evictions = 0
        self._files: WeakValueDictionary[FileId, PointFile] = WeakValueDictionary()
        # By identity, which another file may have once this one is gone.
        self._opened: OrderedDict[int, ref[PointFile]] = OrderedDict()

    def stats(self) -> CacheStats:
        """Figures of this moment."""
        with self._lock:
            return CacheStats(
                blocks=len(self._blocks),
                size_bytes=self._block_bytes,
                max_bytes=self._max_block_bytes,
                hits=self._past_hits + sum(block.hits for block in self._blocks.values()),
                misses=self._misses,
                evictions=self._evictions,
                disk_blocks=0 if self._spill is None else len(self._spill),
                disk_bytes=0 if self._spill is None else self._spill.size_bytes,
                max_disk_bytes=0 if self._spill is None else self._spill.max_bytes,
                disk_hits=self._disk_hits,
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
        """A block that is in memory."""
        with self._lock:
            found = self._blocks.get(key)
            if found is not None:
                found.note_use()
            return found

    def block(
        self,
        key: BlockId,
        decode: Callable[[], Source],
        revive: Callable[[pa.RecordBatch], Source],
    ) -> PointBlock:
        """A decoded block, kept for the next look-up; `revive` makes it of its rows."""
        found = self.find(key)
        if found is not None:
            return found
        spilled = None if self._spill is None else self._spill.find(key)
        source = decode() if spilled is None else revive(spilled)
        with self._lock:
            self._misses += 1
            self._disk_hits += spilled is not None
        return self.keep(key, source)

    def keep(self, key: BlockId, source: Source) -> PointBlock:
        """Keep a block that somebody has decoded."""
        decoded = PointBlock(
            source, source.keys, [_view(column) for column in source.batch.columns]
        )
        with self._lock:
            kept = self._blocks.setdefault(key, decoded)
            if kept is decoded:
                self._block_bytes += _weight(source)
            evicted = self._evict()
        self._put_on_disk(evicted)
        return kept

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
            if self._blocks.get(key) is block:
                file.put(key.number, block)

    def _evict(self) -> list[tuple[BlockId, Source]]:
        evicted = []
        while self._block_bytes > self._max_block_bytes and len(self._blocks) > 1:
            key, block = self._blocks.popitem(last=False)
            if block.take_mark():
                self._blocks[key] = block
            else:
                self._drop(key, block)
                evicted.append((key, block.source))
        return evicted

    def _drop(self, key: BlockId, block: PointBlock) -> None:
        file = self._files.get(key.file)
        if file is not None:
            file.put(key.number, None)
        self._block_bytes -= _weight(block.source)
        self._past_hits += block.hits
        self._evictions += 1

    def _put_on_disk(self, evicted: list[tuple[BlockId, Source]]) -> None:
        if self._spill is None:
            return
        is_near = isinstance(self._store, LocalStore)
        for key, source in evicted:
            # A block of a near Arrow file is read from there as fast.
            if not (is_near and key.path.endswith(".arrow")):
                self._spill.keep(key, source.batch)

    def close(self) -> None:
        """Drop everything; readers close when their last user lets go."""
        with self._lock:
            self._readers.clear()
            self._blocks.clear()
            self._block_bytes = 0
            for file in self._files.values():
                file.close()
        if self._spill is not None:
            self._spill.close()


def _weight(source: Source) -> int:
    return int(source.batch.nbytes) + source.keys.nbytes


def _view(column: pa.Array) -> object | None:
    return viewed(column) if gatherable(column) else None
