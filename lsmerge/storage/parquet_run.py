"""Blocks as row groups of a Parquet file.

Encodings are chosen once per file, by type and by a sample of the first block. The file can be
opened by any Parquet reader, with page checksums for those that look; this one checks the stripes
instead, which cover page headers too. The footer is inside the tail, already checked and in memory.
Of a block of which most columns are wanted everything is read at once, as columns share stripes.

A file of anybody's making may pack a great deal into little. What footer and page headers say of the
size of a block is compared with the block index, which is bounded, before anything is unpacked.
"""

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from lsmerge.storage.block_index import Block, BlockIndex
from lsmerge.storage.decoding import decoding
from lsmerge.storage.stripes import StripedSink, StripedSource
from lsmerge_native.pages import unpacked_bytes

_MAGIC_BYTES = 4  # "PAR1"
_SAMPLE_ROWS = 4096
_FIRST_ROWS = 1024
# Headers of pages with their statistics, and what an encoding takes however few values there are.
_LEAF_OVERHEAD_BYTES = 32 << 10


class ParquetBlockWriter:
    """Writes one row group per block."""

    measures_strings = True
    head_length = _MAGIC_BYTES

    def __init__(self, schema: pa.Schema, compression: str, level: int | None) -> None:
        self._schema = schema
        self._compression = compression
        self._level = level if compression == "zstd" else None
        self._writer: Any = None

    def write(self, sink: StripedSink, block: pa.RecordBatch) -> None:
        """Append a block; head first if it is the first one."""
        if self._writer is None:
            self._writer = self._open(sink, block)
        self._writer.write_table(pa.Table.from_batches([block]), row_group_size=block.num_rows)

    def close(self) -> None:
        """Append the footer."""
        self._writer.close()

    def _open(self, sink: StripedSink, sample: pa.RecordBatch) -> Any:
        import pyarrow.parquet as pq

        dictionary, encodings = choose_encodings(sample)
        return pq.ParquetWriter(
            pa.PythonFile(sink, mode="w"),
            self._schema,
            compression=self._compression,
            compression_level=self._level,
            use_dictionary=dictionary,
            column_encoding=encodings,
            write_page_checksum=True,
            store_schema=True,
        )


class ParquetBlockReader:
    """Reads columns of blocks. Thread-safe: each read in progress has a decoder of its own."""

    def __init__(self, source: StripedSource, index: BlockIndex, tail: pa.Buffer) -> None:
        self._source = source
        self._index = index
        self._tail = tail
        self._leaves = _leaf_ranges(index.schema)
        self._fields = list(zip(index.schema.names, index.schema.types, strict=True))
        self._num_leaves = sum(map(len, self._leaves))
        self._idle: list[_Decoder] = []

    def read(self, number: int, columns: Sequence[int]) -> list[pa.Array]:
        """The columns at these positions of the file's schema."""
        offset, length = self._source.segment(1 + number)
        block = self._index.blocks[number]
        with decoding(self._source.path, offset):
            decoder = self._borrow()
            leaves = [leaf for column in columns for leaf in self._leaves[column]]
            decoder.file.allowed_bytes = _most_bytes(block, len(leaves))
            if 2 * len(leaves) > self._num_leaves:
                decoder.file.hold(offset, length)
            # A thread of Arrow's own lets go of the file a moment after the rows are there. Where
            # that is after the interpreter ended, the process aborts; blocks are spread over
            # threads of ours in any case.
            table = decoder.reader.read_row_group(number, leaves, use_threads=False)
            decoder.file.release()
            self._idle.append(decoder)
            if table.num_rows != block.rows:
                raise ValueError(f"the block has {table.num_rows} rows, not {block.rows}")
            # A nullable column comes back with a validity bitmap it may not have had, never larger
            # than its data.
            if table.nbytes > 2 * block.decoded_bytes:
                raise ValueError(
                    f"the block unpacks to {table.nbytes} bytes, not {block.decoded_bytes}"
                )
            parts = table.to_batches()
            rows = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
            return [self._column(rows, *self._fields[column]) for column in columns]

    def _column(self, rows: pa.RecordBatch, name: str, type_: pa.DataType) -> pa.Array:
        array = rows.column(name)
        # Parquet has no seconds, and files of other writers other names inside lists.
        return array if array.type == type_ else array.cast(type_)

    def _borrow(self) -> "_Decoder":
        with contextlib.suppress(IndexError):
            return self._idle.pop()
        return self._open()

    def _open(self) -> "_Decoder":
        import pyarrow.parquet as pq

        metadata = pq.read_metadata(pa.BufferReader(self._tail))
        _check_footer(metadata, self._index.blocks)
        file = _SegmentFile(self._source)
        opened = pa.PythonFile(file, mode="r")
        return _Decoder(pq.ParquetFile(opened, metadata=metadata, pre_buffer=False).reader, file)


class _Decoder(NamedTuple):
    """A reader of pyarrow's, and what it reads from."""

    reader: Any
    file: "_SegmentFile"


def _check_footer(metadata: Any, blocks: Sequence[Block]) -> None:
    """The row groups of a footer are the blocks of the index, in rows and in bytes."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    if [group.num_rows for group in groups] != [block.rows for block in blocks]:
        raise ValueError("the footer has other row groups than the block index")
    for group, block in zip(groups, blocks, strict=True):
        _check_size(group.total_byte_size, _most_bytes(block, group.num_columns))


def _most_bytes(block: Block, num_leaves: int) -> int:
    """What pages of a block may unpack to, before they are decoded: no encoding doubles its values."""
    return 2 * block.decoded_bytes + num_leaves * _LEAF_OVERHEAD_BYTES


def _check_size(size_bytes: int, most_bytes: int) -> None:
    if not 0 <= size_bytes <= most_bytes:
        raise ValueError(f"a block would unpack to {size_bytes} bytes, at most {most_bytes} fit it")


class _SegmentFile:
    """The data of a run as a file that `pa.PythonFile(..., mode="r")` reads; every read is a
    checked range, and a column chunk whose pages unpack to no more than is allowed still.
    """

    closed = False

    def __init__(self, source: StripedSource) -> None:
        self._source = source
        self._position = 0
        self.allowed_bytes = 0
        self._held_from = 0
        self._held: pa.Buffer = pa.py_buffer(b"")

    def hold(self, offset: int, length: int) -> None:
        """Read a range now and give it out from memory until it is released."""
        self._held_from, self._held = offset, self._source.read(offset, length)

    def release(self) -> None:
        self._held = pa.py_buffer(b"")

    def read_buffer(self, length: int) -> pa.Buffer:
        start = self._position - self._held_from
        if start >= 0 and start + length <= self._held.size:
            data = self._held.slice(start, length)
        else:
            data = self._source.read(self._position, length)
        self._position += length
        size = unpacked_bytes(data)
        _check_size(size, self.allowed_bytes)
        self.allowed_bytes -= size
        return data

    def read(self, length: int) -> pa.Buffer:
        return self.read_buffer(length)

    def seek(self, position: int, whence: int = 0) -> int:
        self._position = position if whence == 0 else self._source.size_bytes + position
        return self._position

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        return None

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return True


def choose_encodings(sample: pa.RecordBatch) -> tuple[list[str], dict[str, str]]:
    """Columns to be dictionary-encoded, and the encoding of others where the plain one does not
    serve best.

    A dictionary pays where values repeat; else integers shrink as differences and floats with their
    bytes apart. Strings that do not repeat stay plain: the compressor finds their common parts.
    """
    head = sample.slice(0, _SAMPLE_ROWS)
    columns = zip(head.schema, head.columns, strict=True)
    flat = [(field, column) for field, column in columns if _is_named_by_itself(field)]
    dictionary = [field.name for field, column in flat if _repeats(column)]
    encodings = {
        field.name: encoding
        for field, _ in flat
        if field.name not in dictionary and (encoding := _encoding(field.type)) is not None
    }
    return dictionary, encodings


def _is_named_by_itself(field: pa.Field) -> bool:
    # pyarrow takes encodings by dotted path, and a column "a.b" may be namesake of b inside a.
    return not pa.types.is_nested(field.type) and "." not in field.name


def _repeats(column: pa.Array) -> bool:
    if pa.types.is_boolean(column.type):
        return False
    # Most columns are decided by a few rows: hardly any twice among these means too few among all.
    first = column.slice(0, _FIRST_ROWS)
    if 10 * len(first.unique()) > 9 * len(first):
        return False
    return 2 * len(column.unique()) <= len(column)


def _encoding(type_: pa.DataType) -> str | None:
    if pa.types.is_integer(type_) or pa.types.is_temporal(type_):
        return "DELTA_BINARY_PACKED"
    if pa.types.is_floating(type_):
        return "BYTE_STREAM_SPLIT"
    return None


def _leaf_ranges(schema: pa.Schema) -> list[range]:
    """The Parquet leaf columns of each top-level column."""
    ranges, start = [], 0
    for type_ in schema.types:
        stop = start + _count_leaves(type_)
        ranges.append(range(start, stop))
        start = stop
    return ranges


def _count_leaves(type_: pa.DataType) -> int:
    if type_.num_fields == 0:
        return 1
    return sum(_count_leaves(type_.field(i).type) for i in range(type_.num_fields))
