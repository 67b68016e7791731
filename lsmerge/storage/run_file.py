"""Run files: rows sorted by key, in checksummed blocks, with an index and a key filter.

    [head][block]...[block][key filter][index section][footer]

Head, blocks and footer are those of an Arrow IPC or Parquet file, which such a file is for anybody
else. Head to filter are covered by the stripe checksums in the index section; index section and
footer, the tail, by `RunSummary.tail_crc`, which lives in the manifest beside the file's length. So
a reader needs the summary, and no byte reaches it unchecked. docs/format.md has every byte.
"""

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa

from lsmerge.errors import CorruptFileError
from lsmerge.metrics import Counters
from lsmerge.storage.arrow_message import as_batch, has_nulls
from lsmerge.storage.arrow_run import ArrowBlockReader
from lsmerge.storage.block_index import MAX_INDEX_BYTES, BlockIndex, decode_index, decode_stats
from lsmerge.storage.column_stats import ColumnStats
from lsmerge.storage.counted_source import CountedSource
from lsmerge.storage.object_store import ObjectStore, Source
from lsmerge.storage.parquet_run import ParquetBlockReader
from lsmerge.storage.projection import Projection
from lsmerge.storage.run_summary import RunFormat, RunSummary
from lsmerge.storage.run_writer import RunWriter
from lsmerge.storage.stripes import StripedSource, file_id_of, stripe_seed
from lsmerge_native.checksum import crc32c
from lsmerge_native.gather import viewed_batch
from lsmerge_native.keys import Keys

if TYPE_CHECKING:
    from lsmerge_native.gather import BatchView

__all__ = [
    "RunFormat",
    "RunReader",
    "RunSummary",
    "RunWriter",
    "UnsyncedRun",
    "open_run",
    "write_run",
    "write_unsynced",
]


class UnsyncedRun(NamedTuple):
    """A file whose bytes are written, and what makes it durable and visible: to be called once, by any thread."""

    summary: RunSummary
    num_blocks: int
    sync: Callable[[], None]


def write_run(
    store: ObjectStore,
    path: str,
    file_schema: pa.Schema,
    batches: Iterable[tuple[pa.RecordBatch, Keys]],
    fmt: RunFormat,
) -> RunSummary:
    """Write batches, sorted by key within and between, as one new file; durable on return."""
    run = write_unsynced(store, path, file_schema, batches, fmt)
    run.sync()
    return run.summary


def write_unsynced(
    store: ObjectStore,
    path: str,
    file_schema: pa.Schema,
    batches: Iterable[tuple[pa.RecordBatch, Keys]],
    fmt: RunFormat,
) -> UnsyncedRun:
    """The same, but the file is there only after the `sync` of what is returned, which must be called."""
    writer = RunWriter(store, path, file_schema, fmt)
    try:
        for batch, keys in batches:
            writer.write(batch, keys)
        summary = writer.complete()
    except BaseException:
        writer.abort()
        raise
    return UnsyncedRun(summary, writer.num_blocks, writer.publish)


def open_run(
    store: ObjectStore, path: str, summary: RunSummary, counters: Counters | None = None
) -> "RunReader":
    """Open a file after checking that its length and tail are as summarised; reads are counted if asked for."""
    opened = store.open(path)
    source: Source = opened if counters is None else CountedSource(opened, counters)
    try:
        return RunReader(path, source, summary)
    except BaseException:
        source.close()
        raise


class BlockReader(Protocol):
    """The part of reading that differs between formats. Thread-safe."""

    def read(
        self, number: int, columns: list[int], fields: pa.Schema
    ) -> "pa.RecordBatch | BatchView":
        """The columns at these positions of the file's schema, under the names of `fields`, which has their types."""


class RunReader:
    """One open run file. Thread-safe, except that nothing may be under way at close.

    Damage shows as CorruptFileError from the call that meets it.
    """

    def __init__(self, path: str, source: Source, summary: RunSummary) -> None:
        """Takes `source` over, unless it raises."""
        tail = _read_tail(path, source, summary)
        index = decode_index(path, tail, summary.index_offset)
        _check_summary(path, index, summary)
        self.path = path
        self.summary = summary
        self._index = index
        self._raw = source
        self._source = StripedSource(
            path, source, index.segment_lengths, index.checksums, index.stripe_bytes
        )
        self._blocks = _block_reader(self._source, index, tail)
        # That of the last read: the blocks of a file are mostly read with the same columns.
        self._projection: Projection | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns as they are in the file."""
        return self._index.schema

    @property
    def num_blocks(self) -> int:
        return len(self._index.blocks)

    @cached_property
    def block_rows(self) -> list[int]:
        """Rows of each block."""
        return [block.rows for block in self._index.blocks]

    @cached_property
    def block_bytes(self) -> list[int]:
        """Bytes of memory that each block takes decoded."""
        return [block.decoded_bytes for block in self._index.blocks]

    @cached_property
    def first_keys(self) -> list[bytes]:
        """The first key of each block."""
        return [block.first_key for block in self._index.blocks]

    @cached_property
    def last_keys(self) -> list[bytes]:
        """The last key of each block."""
        return [block.last_key for block in self._index.blocks]

    def first_key(self, block: int) -> bytes:
        return self._index.blocks[block].first_key

    def last_key(self, block: int) -> bytes:
        return self._index.blocks[block].last_key

    def block_range(self, low: bytes | None, high: bytes | None) -> range:
        """The blocks that may hold keys in [low, high]; None is unbounded."""
        return self._index.block_range(low, high)

    @property
    def is_targeted(self) -> bool:
        """Whether the file says which columns its rows wrote; otherwise all rows are whole."""
        return self._index.is_targeted

    def read_block(self, block: int, fields: pa.Schema) -> pa.RecordBatch:
        """The rows of a block with exactly the columns `fields`."""
        return as_batch(self._read_columns(block, fields))

    def view_block(self, block: int, fields: pa.Schema) -> "BatchView":
        """The same as kernels see them; a record batch is made of them if somebody asks for it."""
        return viewed_batch(self._read_columns(block, fields), fields)

    def _read_columns(self, block: int, fields: pa.Schema) -> "pa.RecordBatch | BatchView":
        """The rows as the format gives them.

        Columns are found by field id: renamed ones are read under their new name, ones that the
        file lacks are null, and ones whose type was widened are cast.
        """
        projection = self._projection
        if projection is None or projection.wanted is not fields:
            projection = Projection.of(fields, self._index.schema, self._index.positions)
            self._projection = projection
        columns = self._projected(block, projection)
        for number in projection.always_set:
            if has_nulls(columns, number):
                name = fields.field(number).name
                raise CorruptFileError(self.path, f"a row of block {block} has no {name}")
        return columns

    def read_filter(self) -> pa.Buffer | None:
        """The key filter, for `passing_rows`; None if the file has none."""
        return self._filter

    def column_stats(self, block: int, column_id: int) -> ColumnStats | None:
        """Bounds of a column in a block, in the type it was written with; None if not measured.

        A column that the file lacks is null in all its rows.
        """
        stats = self._stats.get(column_id)
        if stats is None and column_id not in self._index.positions:
            unknown = pa.scalar(None)
            return ColumnStats(unknown, unknown, self._index.blocks[block].rows)
        return None if stats is None else stats[block]

    def verify(self) -> None:
        """Read every byte of the file again and check it."""
        _read_tail(self.path, self._raw, self.summary)
        self._source.verify()

    def close(self) -> None:
        """Release the file. Idempotent; batches already read stay valid."""
        self._raw.close()

    def _projected(self, block: int, projection: Projection) -> "pa.RecordBatch | BatchView":
        if not projection.positions:
            return projection.apply(self._index.blocks[block].rows, [])
        found = self._blocks.read(block, projection.positions, projection.stored)
        if projection.is_plain:
            return found
        return projection.apply(found.num_rows, as_batch(found).columns)

    @cached_property
    def _filter(self) -> pa.Buffer | None:
        offset, length = self._source.segment(1 + self.num_blocks)
        return self._source.read(offset, length) if length else None

    @cached_property
    def _stats(self) -> dict[int, list[ColumnStats]]:
        return decode_stats(self.path, self._index)


def _block_reader(source: StripedSource, index: BlockIndex, tail: pa.Buffer) -> BlockReader:
    if index.format == "arrow":
        return ArrowBlockReader(source, index)
    return ParquetBlockReader(source, index, tail)


def _read_tail(path: str, source: Source, summary: RunSummary) -> pa.Buffer:
    """Index section and footer, checked."""
    if source.size_bytes != summary.size_bytes:
        raise CorruptFileError(
            path, f"has {source.size_bytes} bytes where {summary.size_bytes} were written"
        )
    length = summary.size_bytes - summary.index_offset
    if not 0 < length <= min(summary.size_bytes, MAX_INDEX_BYTES):
        raise CorruptFileError(path, f"its summary gives it a tail of {length} bytes")
    tail = source.read(summary.index_offset, length)
    if crc32c(tail, stripe_seed(file_id_of(path), summary.index_offset)) != summary.tail_crc:
        raise CorruptFileError(
            path, "the checksum does not fit; restore the file from a copy", summary.index_offset
        )
    return tail


def _check_summary(path: str, index: BlockIndex, summary: RunSummary) -> None:
    """The manifest's word about the rows must be the file's own, as plans are made from it."""
    own = (index.format, index.num_rows, index.num_retracts, index.sequence_min, index.sequence_max)
    told = (
        *(summary.format, summary.num_rows, summary.num_retracts),
        *(summary.sequence_min, summary.sequence_max),
    )
    keys = (index.blocks[0].first_key, index.blocks[-1].last_key)
    if own != told or keys != (summary.min_key, summary.max_key):
        raise CorruptFileError(path, f"its index says {own}, its summary {told}, or other keys")
