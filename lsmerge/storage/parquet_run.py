"""Blocks as row groups of a Parquet file.

Encodings are chosen once per file, by type and by a sample of the first block. The file can be
opened by any Parquet reader, with page checksums for those that look; this one checks the stripes
instead, which cover page headers too. The footer is inside the tail, already checked and in memory.
Of a block of which most columns are wanted everything is read at once, as columns share stripes.

Columns as most are, of numbers and texts in the encodings that are chosen here, are decoded by a kernel,
all others by pyarrow. What a file of anybody's making may unpack to is bounded by parquet_footer.py. Of texts
with a dictionary pyarrow is asked for the dictionary, which is unfolded once all rows are known to fit.
"""

import contextlib
import inspect
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

import pyarrow as pa

from lsmerge.storage.block_index import BlockIndex
from lsmerge.storage.decoding import decoding
from lsmerge.storage.parquet_footer import (
    Allowance,
    Footer,
    check_decoded,
    most_decoded_bytes,
    unfolded_bytes,
)
from lsmerge.storage.stripes import StripedSink, StripedSource
from lsmerge_native.column_chunk import ValueShape, decode_chunk

_MAGIC_BYTES = 4  # "PAR1"
_SAMPLE_ROWS = 4096
_FIRST_ROWS = 1024
_MOST_ROWS = 1 << 30
# By their numbers in Parquet. A codec is not shared, as pyarrow does not say that it may be.
_KNOWN_CODECS: dict[int, Callable[[], pa.Codec | None]] = {
    0: lambda: None,
    6: lambda: pa.Codec("zstd"),
}


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
            **_whole_pages(),
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

    def read(self, number: int, columns: Sequence[int], fields: pa.Schema) -> pa.RecordBatch:
        """The columns at these positions of the file's schema, under the names of `fields`."""
        offset, length = self._source.segment(1 + number)
        block = self._index.blocks[number]
        with decoding(self._source.path, offset):
            leaves = [leaf for column in columns for leaf in self._leaves[column]]
            data = _BlockData(self._source, self._footer.allowance(number, leaves))
            if 2 * len(leaves) > self._num_leaves:
                data.hold(offset, length)
            found: dict[int, pa.Array] = {}
            left = most_decoded_bytes(block)
            for column in columns:
                array = self._by_kernel(number, column, data, left)
                if array is not None:
                    found[column] = array
                    left -= array.nbytes
            others = [column for column in columns if column not in found]
            if others:
                found |= self._by_pyarrow(number, others, data, left)
            return pa.RecordBatch.from_arrays([found[column] for column in columns], schema=fields)

    def _by_kernel(
        self, number: int, column: int, data: "_BlockData", most_bytes: int
    ) -> pa.Array | None:
        """A column, if kernels know how its values are stored."""
        shape = self._shapes[column]
        if shape is None:
            return None
        chunk = self._footer.chunk(number, self._leaves[column].start)
        if chunk.codec not in _KNOWN_CODECS:
            return None
        codec = _KNOWN_CODECS[chunk.codec]()
        packed = data.read(chunk.offset, chunk.length)
        rows = self._index.blocks[number].rows
        decoded = decode_chunk(packed, codec, shape, rows, most_bytes)
        if decoded is None:
            data.keep(chunk.offset, packed)
            return None
        validity, offsets, values, num_nulls = decoded
        buffers = (validity, values) if offsets is None else (validity, offsets, values)
        whole = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
        array = pa.Array.from_buffers(self._fields[column][1], rows, whole, num_nulls)
        check_decoded(array.nbytes, most_bytes)
        return array

    def _by_pyarrow(
        self, number: int, columns: Sequence[int], data: "_BlockData", most_bytes: int
    ) -> dict[int, pa.Array]:
        """Columns of any shape, by their positions."""
        block = self._index.blocks[number]
        leaves = [leaf for column in columns for leaf in self._leaves[column]]
        decoder = self._borrow(self._footer.dictionaries(number, leaves))
        decoder.file.data = data
        # A thread of Arrow's own lets go of the file a moment after the rows are there. Where
        # that is after the interpreter ended, the process aborts; blocks are spread over
        # threads of ours in any case.
        table = decoder.reader.read_row_group(number, leaves, use_threads=False)
        decoder.file.data = None
        self._idle.append(decoder)
        if table.num_rows != block.rows:
            raise ValueError(f"the block has {table.num_rows} rows, not {block.rows}")
        chunks = [chunk for column in table.columns for chunk in column.chunks]
        check_decoded(sum(map(unfolded_bytes, chunks)), most_bytes)
        found = {column: self._column(table, *self._fields[column]) for column in columns}
        check_decoded(sum(array.nbytes for array in found.values()), most_bytes)
        return found

    def _column(self, table: pa.Table, name: str, type_: pa.DataType) -> pa.Array:
        column = table.column(name)
        # Parquet has no seconds, and files of other writers other names inside lists; what has a
        # dictionary is unfolded.
        fitting = column if column.type == type_ else column.cast(type_)
        return fitting.chunk(0) if fitting.num_chunks == 1 else pa.concat_arrays(fitting.chunks)

    @cached_property
    def _footer(self) -> Footer:
        return Footer(self._tail, self._index.blocks)

    @cached_property
    def _shapes(self) -> list[ValueShape | None]:
        """How the values of each column are stored, where kernels decode them."""
        return [
            self._footer.value_shape(leaves.start, field) if len(leaves) == 1 else None
            for leaves, field in zip(self._leaves, self._index.schema, strict=True)
        ]

    def _borrow(self, folded: frozenset[str]) -> "_Decoder":
        """A decoder that leaves dictionaries of these leaves as they are."""
        with contextlib.suppress(IndexError):
            idle = self._idle.pop()
            if folded <= idle.folded:
                return idle
            folded |= idle.folded
        return self._open(folded)

    def _open(self, folded: frozenset[str]) -> "_Decoder":
        import pyarrow.parquet as pq

        file = _BlockFile(self._source.size_bytes)
        opened = pq.ParquetFile(
            pa.PythonFile(file, mode="r"),
            metadata=self._footer.metadata,
            pre_buffer=False,
            read_dictionary=sorted(folded),
        )
        return _Decoder(opened.reader, file, folded)


class _Decoder(NamedTuple):
    """A reader of pyarrow's, what it reads from, and the leaves that it reads as dictionaries."""

    reader: Any
    file: "_BlockFile"
    folded: frozenset[str]


class _BlockData:
    """The bytes of a block for one read: every range is checked, and a column chunk whose pages hold no more than is
    allowed still.
    """

    def __init__(self, source: StripedSource, allowance: Allowance) -> None:
        self._source = source
        self._allowance = allowance
        self._held_from = 0
        self._held: pa.Buffer = pa.py_buffer(b"")
        self._kept: dict[tuple[int, int], pa.Buffer] = {}

    def hold(self, offset: int, length: int) -> None:
        """Read a range now, to give it out from memory."""
        self._held_from, self._held = offset, self._source.read(offset, length)

    def keep(self, offset: int, data: pa.Buffer) -> None:
        """Give out once more what was read: a column chunk that another decoder takes."""
        self._kept[offset, data.size] = data

    def read(self, offset: int, length: int) -> pa.Buffer:
        kept = self._kept.pop((offset, length), None)
        if kept is not None:
            return kept
        start = offset - self._held_from
        if start >= 0 and length >= 0 and start + length <= self._held.size:
            data = self._held.slice(start, length)
        else:
            data = self._source.read(offset, length)
        self._allowance = self._allowance.after(offset, data)
        return data


class _BlockFile:
    """A run as a file that `pa.PythonFile(..., mode="r")` reads, of which there is one block at a time."""

    closed = False

    def __init__(self, size_bytes: int) -> None:
        self.data: _BlockData | None = None
        self._size_bytes = size_bytes
        self._position = 0

    def read_buffer(self, length: int) -> pa.Buffer:
        assert self.data is not None
        data = self.data.read(self._position, length)
        self._position += length
        return data

    def read(self, length: int) -> pa.Buffer:
        return self.read_buffer(length)

    def seek(self, position: int, whence: int = 0) -> int:
        self._position = position if whence == 0 else self._size_bytes + position
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

    A dictionary pays where values repeat; else integers shrink as differences. Strings that do not
    repeat stay plain, as the compressor finds their common parts; so does floating point, as the
    encoding that takes its bytes apart is not one that every reader knows.
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


@cache
def _whole_pages() -> dict[str, int]:
    """Pages end by their bytes alone: with each one a reader begins zstd anew. Versions of pyarrow that end them by
    their rows too can be told otherwise.
    """
    import pyarrow.parquet as pq

    known = inspect.signature(pq.ParquetWriter.__init__).parameters
    return {"max_rows_per_page": _MOST_ROWS} if "max_rows_per_page" in known else {}


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
    is_whole = pa.types.is_integer(type_) or pa.types.is_temporal(type_)
    return "DELTA_BINARY_PACKED" if is_whole else None


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
