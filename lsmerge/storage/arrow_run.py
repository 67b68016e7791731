"""Blocks as record batches of an Arrow IPC file.

The file can be opened by any Arrow reader; this one needs neither its footer nor its head, since
the block index has the place of every message and the schema. Of a block, only the stripes that
hold the wanted columns are read, unless these are most of it anyway.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lsmerge.storage.arrow_message import BatchDecoder, Layout, Pieces, parse_layout
from lsmerge.storage.block_index import BlockIndex
from lsmerge.storage.decoding import decoding
from lsmerge.storage.stripes import StripedSink, StripedSource
from lsmerge_native.arrow_head import head_length

if TYPE_CHECKING:
    from lsmerge_native.gather import BatchView

_MAGIC_BYTES = 8  # "ARROW1" and padding


class ArrowBlockWriter:
    """Writes one record batch message per block."""

    measures_strings = False

    def __init__(self, schema: pa.Schema, compression: str, level: int | None) -> None:
        self.head_length = _MAGIC_BYTES + schema.serialize().size
        self._schema = schema
        self._options = pa.ipc.IpcWriteOptions(compression=_codec(compression, level))
        self._writer: pa.RecordBatchFileWriter | None = None

    def write(self, sink: StripedSink, block: pa.RecordBatch) -> None:
        """Append a block; head first if it is the first one."""
        if self._writer is None:
            file = pa.PythonFile(sink, mode="w")
            self._writer = pa.ipc.new_file(file, self._schema, options=self._options)
        self._writer.write_batch(block)

    def close(self) -> None:
        """Append the footer."""
        assert self._writer is not None
        self._writer.close()


class ArrowBlockReader:
    """Reads columns of blocks. Thread-safe."""

    def __init__(self, source: StripedSource, index: BlockIndex) -> None:
        self._source = source
        self._index = index
        self._decoder = BatchDecoder(index.schema)
        self._widths = [_width(type_) for type_ in index.schema.types]

    def read(
        self, number: int, columns: Sequence[int], fields: pa.Schema
    ) -> "pa.RecordBatch | BatchView":
        """The columns at these positions of the file's schema, under the names of `fields`."""
        offset, length = self._source.segment(1 + number)
        block = self._index.blocks[number]
        with decoding(self._source.path, offset):
            layout, pieces = self._load(offset, length, block.rows, columns)
            if layout.num_rows != block.rows:
                raise ValueError(f"the block has {layout.num_rows} rows, not {block.rows}")
            return self._decoder.decode(layout, columns, fields, pieces, block.decoded_bytes)

    def _load(
        self, offset: int, length: int, rows: int, columns: Sequence[int]
    ) -> tuple[Layout, Pieces]:
        left_out = rows * self._row_bytes_beside(columns)
        if left_out < length / 2 or length <= 2 * self._index.stripe_bytes:
            return self._load_whole(offset, length)
        head = self._read_head(offset, length)
        layout = parse_layout(head, length)
        spans = _joined(self._decoder.spans(layout, columns), self._index.stripe_bytes)
        if sum(stop - start for start, stop in spans) > length // 2:
            return self._load_whole(offset, length)
        pieces = [(start, self._source.read(offset + start, stop - start)) for start, stop in spans]
        return layout, pieces

    def _row_bytes_beside(self, columns: Sequence[int]) -> float:
        """Bytes a row of the other columns, as far as that is known without a look at the block."""
        wanted = set(columns)
        return sum(width for place, width in enumerate(self._widths) if place not in wanted)

    def _load_whole(self, offset: int, length: int) -> tuple[Layout, Pieces]:
        message = self._source.read(offset, length)
        return parse_layout(message, length), [(0, message)]

    def _read_head(self, offset: int, length: int) -> pa.Buffer:
        head = self._source.read(offset, min(length, self._index.stripe_bytes))
        wanted = head_length(head)
        return head if wanted <= head.size else self._source.read(offset, min(wanted, length))


def _width(type_: pa.DataType) -> float:
    """Bytes a row, infinite if they differ; without a bitmap of nulls."""
    try:
        return float(type_.bit_width / 8)
    except ValueError:
        return math.inf


def _joined(spans: Sequence[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """The spans in order, those joined that lie less than `gap` apart."""
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if joined and start - joined[-1][1] < gap:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((start, stop))
    return joined


def _codec(compression: str, level: int | None) -> pa.Codec | None:
    if compression == "none":
        return None
    return pa.Codec(compression, compression_level=level if compression == "zstd" else None)
