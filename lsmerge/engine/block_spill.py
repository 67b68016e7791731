"""Decoded blocks on local disk: those that memory has no room for, used where they lie.

    a block leaves memory -> an unnamed file, mapped -> look-ups search and copy in it as in memory

What is used often stays in the page cache of the operating system, which takes it back if memory is wanted elsewhere.
So a block here costs neither decoding nor a copy, and of the process's own memory only what says where things are.

Bounded by bytes, by a share of what the disk has free, and by how many such files the process may have. What is in use
is not given up for what comes, or look-ups that go round in more blocks than there is room for would find none of them
and write each again and again: blocks leave if they are not used for long, with their file, or if the disk runs short.
Nothing here is needed: what the disk refuses is decoded again. Not thread-safe but for `write`: the owner has the lock.
"""

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from lsmerge.engine.block_shelf import BlockId, BlockShelf, point_block
from lsmerge.env import Env
from lsmerge.errors import StorageError
from lsmerge.merge.groups import Source
from lsmerge.storage.unnamed_files import UnnamedFiles
from lsmerge_native.gather import viewed_batch
from lsmerge_native.keys import Keys
from lsmerge_native.point_rows import PointBlock

# Of what is free on the disk, our own blocks included, this part may be ours.
SHARE_OF_FREE = 4


class BlockSpill:
    """Blocks in files of their own."""

    def __init__(self, env: Env, files: UnnamedFiles, max_bytes: int, retention_ms: int) -> None:
        self.blocks = BlockShelf()
        self.max_bytes = max_bytes
        self._env = env
        self._files = files
        self._retention_ms = retention_ms
        self._next_expiry_ms = 0

    def has_room(self, key: BlockId, size_bytes: int) -> bool:
        """Whether a block is to be written."""
        return self._files.has_room() and self._fits(key, size_bytes)

    def write(self, source: Source) -> tuple[PointBlock, int] | None:
        """The block, on disk, and its size there; None if the disk refuses. Thread-safe."""
        packed = [_array(keys) for keys in (source.keys, source.order) if keys is not None]
        names = [f"keys {number}" for number in range(len(packed))]
        rows = pa.RecordBatch.from_arrays(
            [*source.batch.columns, *packed], [*source.batch.schema.names, *names]
        )
        data = rows.serialize()
        try:
            mapped = self._files.put(data)
        except StorageError:
            return None
        return point_block(_moved(source, pa.ipc.read_record_batch(mapped, rows.schema))), data.size

    def add(self, key: BlockId, block: PointBlock, size_bytes: int) -> None:
        """Keep a block that was written, unless another took its room meanwhile."""
        if self._fits(key, size_bytes):
            if not self.blocks:
                self._next_expiry_ms = self._env.now_ms() + self._retention_ms
            self.blocks.add(key, block, size_bytes)

    def expired(self) -> Iterator[tuple[BlockId, PointBlock]]:
        """Take out the blocks that were not used for as long as they are kept: that to twice as long."""
        if not self.blocks:
            return
        now = self._env.now_ms()
        if now >= self._next_expiry_ms:
            self._next_expiry_ms = now + self._retention_ms
            yield from self.blocks.evict_unused()

    def superfluous(self) -> Iterator[tuple[BlockId, PointBlock]]:
        """Take out what is too much now that the disk has less free."""
        return self.blocks.evict(self._room())

    def _fits(self, key: BlockId, size_bytes: int) -> bool:
        is_known = self.blocks.get(key) is not None
        return not is_known and self.blocks.size_bytes + size_bytes <= self._room()

    def _room(self) -> int:
        free = self._files.free_bytes()
        return min(self.max_bytes, (free + self.blocks.size_bytes) // SHARE_OF_FREE if free else 0)


def _array(keys: Keys) -> pa.Array:
    """Keys as a column that holds their memory."""
    buffers = [pa.py_buffer(part) for part in keys.packed()]
    kind = pa.uint64() if len(buffers) == 1 else pa.binary()
    return pa.Array.from_buffers(kind, len(keys), [None, *buffers])


def _moved(source: Source, rows: pa.RecordBatch) -> Source:
    """The same rows and keys in the memory of others, which have the keys as further columns."""
    columns = source.batch.num_columns
    batch = pa.RecordBatch.from_arrays(rows.columns[:columns], schema=source.batch.schema)
    parts = [column.buffers()[1:] for column in rows.columns[columns:]]
    keys = source.keys.moved(parts[0])
    order = None if source.order is None else source.order.moved(parts[1])
    return replace(source, columns=viewed_batch(batch), keys=keys, order=order)
