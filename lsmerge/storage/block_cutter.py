"""Cutting a sorted stream of batches into blocks of bounded bytes and rows.

Invariants: rows come out in the order they came in, each once; at most one block is held back; a
block that lies inside one input batch is a slice of it, not a copy.
"""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from lsmerge_native.keys import Keys

# Slices that begin at a multiple of this share validity bitmaps with their batch.
_ALIGNED_ROWS = 64
# Part of a block by which it may be larger.
SHARE_OF_REST = 8


class KeyedBlock(NamedTuple):
    """Rows that go to the file together, and the keys they span."""

    batch: pa.RecordBatch
    first_key: bytes
    last_key: bytes


class BlockCutter:
    """Collects rows and gives them back in blocks."""

    def __init__(self, block_bytes: int, block_rows: int) -> None:
        self._block_bytes = block_bytes
        self._block_rows = block_rows
        self._parts: list[KeyedBlock] = []
        self.pending_rows = 0
        self.pending_bytes = 0

    def push(self, batch: pa.RecordBatch, keys: Keys) -> Iterator[KeyedBlock]:
        """Take rows in, give full blocks out. Requires: as many keys as rows."""
        row_bytes = -(-batch.nbytes // max(1, batch.num_rows))
        start = 0
        while start < batch.num_rows:
            rows = self._next_rows(max(1, row_bytes), batch.num_rows - start)
            if rows:
                part = self._trimmed(batch.slice(start, rows))
                last = start + part.num_rows - 1
                self._add(KeyedBlock(part, keys.bytes_at(start), keys.bytes_at(last)))
                start += part.num_rows
            if start < batch.num_rows:
                yield self._take()

    def flush(self) -> Iterator[KeyedBlock]:
        """Give out what is held back, if anything."""
        if self._parts:
            yield self._take()

    def _next_rows(self, row_bytes: int, left: int) -> int:
        """How many of the rows that are left go to this block."""
        room = self._room(row_bytes)
        # Each block costs something beside its rows, so a small rest is taken along.
        with_rest = self.pending_bytes + left * row_bytes
        if left <= self._block_rows - self.pending_rows and with_rest <= (
            self._block_bytes + self._block_bytes // SHARE_OF_REST
        ):
            return left
        return min(room, left)

    def _room(self, row_bytes: int) -> int:
        """How many rows of average size still fit; at least one into an empty block."""
        by_bytes = (self._block_bytes - self.pending_bytes) // row_bytes
        rows = max(0, min(by_bytes, self._block_rows - self.pending_rows))
        if self._parts:
            return rows
        return rows // _ALIGNED_ROWS * _ALIGNED_ROWS or max(1, rows)

    def _trimmed(self, part: pa.RecordBatch) -> pa.RecordBatch:
        """As many of the rows as fit even if they are larger than the average."""
        while part.num_rows > 1 and part.nbytes > 2 * self._block_bytes:
            part = part.slice(0, part.num_rows // 2)
        return part

    def _add(self, part: KeyedBlock) -> None:
        self._parts.append(part)
        self.pending_rows += part.batch.num_rows
        self.pending_bytes += part.batch.nbytes

    def _take(self) -> KeyedBlock:
        parts, self._parts = self._parts, []
        self.pending_rows = self.pending_bytes = 0
        if len(parts) == 1:
            return parts[0]
        joined = pa.concat_batches([part.batch for part in parts])
        return KeyedBlock(joined, parts[0].first_key, parts[-1].last_key)
