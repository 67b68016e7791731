"""Decoded blocks by what they are of, bounded by bytes.

Blocks leave in the order they came, but those with a mark have another turn: uses only leave a mark, which takes no
lock and moves nothing. Not thread-safe: the owner has the lock.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

from lsmerge.merge.groups import Source
from lsmerge_native.gather import gatherable, viewed
from lsmerge_native.point_rows import PointBlock


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


class _Kept(NamedTuple):
    block: PointBlock
    size_bytes: int


class BlockShelf:
    """Blocks in one kind of memory."""

    def __init__(self) -> None:
        self._kept: OrderedDict[BlockId, _Kept] = OrderedDict()
        self._past_hits = 0
        self.size_bytes = 0
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def hits(self) -> int:
        """How often a block was of use."""
        return self._past_hits + sum(kept.block.hits for kept in self._kept.values())

    def get(self, key: BlockId) -> PointBlock | None:
        """A block that is here."""
        kept = self._kept.get(key)
        return None if kept is None else kept.block

    def add(self, key: BlockId, block: PointBlock, size_bytes: int) -> PointBlock:
        """Keep a block, unless it is here already; the one that is kept."""
        kept = self._kept.get(key)
        if kept is not None:
            return kept.block
        self._kept[key] = _Kept(block, size_bytes)
        self.size_bytes += size_bytes
        return block

    def evict(self, max_bytes: int) -> Iterator[tuple[BlockId, PointBlock]]:
        """Take out what is too much; the last block stays."""
        while self.size_bytes > max_bytes and len(self._kept) > 1:
            key, kept = next(iter(self._kept.items()))
            if kept.block.take_mark():
                self._kept.move_to_end(key)
            else:
                self.evictions += 1
                yield key, self._take(key)

    def evict_unused(self) -> Iterator[tuple[BlockId, PointBlock]]:
        """Take out the blocks that were not used since this was done last, and were here then."""
        for key in [key for key, kept in self._kept.items() if not kept.block.take_mark()]:
            yield key, self._take(key)

    def forget(self, paths: frozenset[str]) -> Iterator[tuple[BlockId, PointBlock]]:
        """Take out the blocks of some files."""
        for key in [key for key in self._kept if key.path in paths]:
            yield key, self._take(key)

    def clear(self) -> None:
        """Take out everything."""
        self._kept.clear()
        self.size_bytes = 0

    def _take(self, key: BlockId) -> PointBlock:
        block, size_bytes = self._kept.pop(key)
        self.size_bytes -= size_bytes
        self._past_hits += block.hits
        return block


def point_block(source: Source) -> PointBlock:
    """Rows as look-ups take them out of a block."""
    return PointBlock(source, source.keys, [_view(column) for column in source.batch.columns])


def _view(column: object) -> object | None:
    return viewed(column) if gatherable(column) else None
