"""Writing of one run file as sorted rows arrive.

Always-on checks, because a run that violates them would hide rows from every later merge: keys
never decrease, there is one key per row, and as many rows are in the blocks as were taken in.
"""

from types import TracebackType
from typing import Protocol, Self

import pyarrow as pa

from lsmerge.errors import LsmergeError, SchemaMismatchError
from lsmerge.failpoints import failpoint
from lsmerge.rowkind import KIND_COLUMN
from lsmerge.storage.arrow_run import ArrowBlockWriter
from lsmerge.storage.block_cutter import BlockCutter, KeyedBlock
from lsmerge.storage.block_index import MAX_BLOCK_BYTES, MAX_INDEX_BYTES, Block, BlockIndex
from lsmerge.storage.column_stats import (
    ColumnStats,
    encode_stats,
    is_measured,
    measure,
    measure_column,
    unmeasured,
)
from lsmerge.storage.object_store import ObjectStore
from lsmerge.storage.parquet_run import ParquetBlockWriter
from lsmerge.storage.run_summary import RunFormat, RunSummary
from lsmerge.storage.stripes import StripedSink, file_id_of
from lsmerge_native.filter import build_filter
from lsmerge_native.keys import Keys


class BlockWriter(Protocol):
    """The part of writing that differs between formats."""

    measures_strings: bool

    @property
    def head_length(self) -> int:
        """Bytes the format puts before the first block."""

    def write(self, sink: StripedSink, block: pa.RecordBatch) -> None:
        """Append a block; head first if it is the first one."""

    def close(self) -> None:
        """Append the footer."""


class RunWriter:
    """Writes one run file. Not thread-safe.

    Holds one block, and 8 bytes per row for the filter. As a context manager it aborts unless
    finished.
    """

    def __init__(
        self, store: ObjectStore, path: str, file_schema: pa.Schema, fmt: RunFormat
    ) -> None:
        """Requires: `file_schema` begins with the system columns and every field has an id."""
        self._path = path
        self._schema = file_schema
        self._fmt = fmt
        self._blocks: list[Block] = []
        self._stats: list[list[ColumnStats]] = []
        self._hashes: list[pa.Buffer] = []
        self._num_rows = 0
        self._num_retracts = 0
        self._last_key = b""
        self._cutter = BlockCutter(fmt.block_size_bytes, fmt.max_block_rows)
        self._writer = _block_writer(file_schema, fmt)
        self._sink = StripedSink(store.create(path), file_id_of(path), self._writer.head_length)

    @property
    def size_bytes(self) -> int:
        """Bytes written so far, plus those held back, uncompressed."""
        return self._sink.position + self._cutter.pending_bytes

    @property
    def held_bytes(self) -> int:
        """Bytes kept for the filter until the file is finished, however well its rows compress."""
        return sum(hashes.size for hashes in self._hashes)

    def write(self, batch: pa.RecordBatch, keys: Keys) -> None:
        """Append rows; `keys` are theirs, none smaller than any before."""
        if batch.num_rows == 0:
            return
        self._check(batch, keys)
        self._num_rows += batch.num_rows
        self._last_key = keys.bytes_at(len(keys) - 1)
        if self._fmt.filter_bits_per_key:
            self._hashes.append(pa.py_buffer(keys.hashes()))
        stored = pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)
        for block in self._cutter.push(stored, keys):
            self._write_block(block)

    @property
    def num_blocks(self) -> int:
        """How many were written so far."""
        return len(self._blocks)

    def finish(self) -> RunSummary:
        """Complete the file and publish it. ValueError if it has no rows."""
        summary = self.complete()
        self.publish()
        return summary

    def publish(self) -> None:
        """Make the file durable and visible. Requires: it is complete."""
        self._sink.publish()

    def complete(self) -> RunSummary:
        """Write what is still missing, and leave it to `publish` that the file is there."""
        for block in self._cutter.flush():
            self._write_block(block)
        if not self._blocks:
            raise ValueError(f"{self._path}: a run must have rows")
        index = self._index(self._write_filter())
        if index.num_rows != self._num_rows:
            raise LsmergeError(f"{self._path}: took {self._num_rows} rows, wrote {index.num_rows}")
        index_offset = self._sink.position
        failpoint("run.before-tail")
        self._sink.begin_tail()
        self._sink.write(index.encode())
        self._writer.close()
        self._check_tail(self._sink.position - index_offset)
        failpoint("run.after-tail")
        return self._summary(index, index_offset)

    def _check_tail(self, length: int) -> None:
        """No reader takes a tail above the limit, so none is published."""
        if length > MAX_INDEX_BYTES:
            raise SchemaMismatchError(
                f"{self._path}: the index of {len(self._blocks)} blocks takes {length} bytes, at most "
                f"{MAX_INDEX_BYTES} are possible; raise file.block-size or write shorter keys"
            )

    def abort(self) -> None:
        """Forget the file. Idempotent; does nothing after finish."""
        if not self._sink.closed:
            self._sink.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.abort()

    def _check(self, batch: pa.RecordBatch, keys: Keys) -> None:
        if batch.schema.names != self._schema.names or batch.schema.types != self._schema.types:
            raise SchemaMismatchError(
                f"{self._path}: a batch with columns {_columns(batch.schema)} does not fit a file "
                f"with columns {_columns(self._schema)}"
            )
        if len(keys) != batch.num_rows:
            raise LsmergeError(f"{self._path}: {len(keys)} keys for {batch.num_rows} rows")
        if keys.bytes_at(0) < self._last_key or not keys.is_sorted():
            raise LsmergeError(f"{self._path}: keys decrease after row {self._num_rows}")

    def _write_block(self, block: KeyedBlock) -> None:
        decoded_bytes = _decoded_bytes(self._path, block.batch)
        start = max(self._sink.position, self._writer.head_length)
        self._writer.write(self._sink, block.batch)
        self._sink.cut()
        failpoint("run.after-block")
        length = self._sink.position - start
        rows = block.batch.num_rows
        self._blocks.append(Block(length, decoded_bytes, rows, block.first_key, block.last_key))
        self._stats.append(self._measured(block.batch))
        self._num_retracts += _count_retracts(block.batch.column(KIND_COLUMN))

    def _measured(self, batch: pa.RecordBatch) -> list[ColumnStats]:
        if self._fmt.has_bounds:
            return measure(batch, strings=self._writer.measures_strings)
        sequence, *others = batch.columns
        return [measure_column(sequence), *map(unmeasured, filter(is_measured, others))]

    def _write_filter(self) -> int:
        if not self._hashes:
            return 0
        length = self._sink.write(build_filter(self._hashes, self._fmt.filter_bits_per_key))
        self._sink.cut()
        return length

    def _index(self, filter_length: int) -> BlockIndex:
        sequences = [stats[0] for stats in self._stats]
        return BlockIndex(
            format=self._fmt.format,
            schema=self._schema,
            head_length=self._writer.head_length,
            filter_length=filter_length,
            num_retracts=self._num_retracts,
            sequence_min=min(stats.min.as_py() for stats in sequences),
            sequence_max=max(stats.max.as_py() for stats in sequences),
            blocks=tuple(self._blocks),
            checksums=self._sink.checksums,
            stats=encode_stats(self._schema, self._stats),
        )

    def _summary(self, index: BlockIndex, index_offset: int) -> RunSummary:
        return RunSummary(
            name=self._path.rpartition("/")[2],
            format=index.format,
            size_bytes=self._sink.position,
            index_offset=index_offset,
            tail_crc=self._sink.tail_crc,
            num_rows=index.num_rows,
            num_retracts=index.num_retracts,
            min_key=index.blocks[0].first_key,
            max_key=index.blocks[-1].last_key,
            sequence_min=index.sequence_min,
            sequence_max=index.sequence_max,
        )


def _block_writer(schema: pa.Schema, fmt: RunFormat) -> BlockWriter:
    kind = ArrowBlockWriter if fmt.format == "arrow" else ParquetBlockWriter
    return kind(schema, fmt.compression, fmt.compression_level)


def _decoded_bytes(path: str, block: pa.RecordBatch) -> int:
    size = int(pa.ipc.get_record_batch_size(block))
    if size > MAX_BLOCK_BYTES:
        raise SchemaMismatchError(
            f"{path}: a block of {block.num_rows} rows takes {size} bytes, the limit is "
            f"{MAX_BLOCK_BYTES}; store such large values outside the table"
        )
    return size


def _count_retracts(kinds: pa.Array) -> int:
    import pyarrow.compute as pc

    return int(pc.sum(pc.bit_wise_and(kinds, pa.scalar(1, kinds.type))).as_py())


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
