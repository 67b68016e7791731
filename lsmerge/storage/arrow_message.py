"""Decoding of Arrow record batch messages, with every length checked before use.

The head of a message (`arrow_head`) says where the buffers of all columns lie. A compressed buffer
begins with its uncompressed length (int64; -1: stored as it is).

pyarrow decodes whole messages only and allocates what their metadata asks for. Here only the wanted
columns are touched and the memory to be allocated is known, and refused if too much, before
anything is decompressed. Bytes from anywhere give arrays or a ValueError (pyarrow's own errors
included), never anything else: offsets inside variable-size arrays are checked too, since kernels
trust them.
"""

import struct
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from lsmerge_native.arrow_head import read_head
from lsmerge_native.block import BlockShape

if TYPE_CHECKING:
    from lsmerge_native.gather import BatchView

_CODECS = {None: None, 0: "lz4", 1: "zstd"}
_INT64 = struct.Struct("<q")

Pieces = list[tuple[int, pa.Buffer]]
"""What was read of a message: places in it and the bytes there, in order."""


class Layout(NamedTuple):
    """Where things are in one message; `nodes` and `buffers` are flat lists of pairs."""

    num_rows: int
    nodes: tuple[int, ...]
    buffers: tuple[int, ...]
    codec: str | None
    body_start: int


class ColumnSlots(NamedTuple):
    """Which nodes and buffers of a message belong to one top-level column."""

    nodes: range
    buffers: range


class TypeShape(NamedTuple):
    """What a type says about its arrays, asked once and not of every block."""

    type: pa.DataType
    plain: (
        pa.DataType
    )  # a string's offsets are checked as binary, without a second look at its characters
    num_buffers: int
    has_offsets: bool
    children: "tuple[TypeShape, ...]"

    @classmethod
    def of(cls, type_: pa.DataType) -> "TypeShape":
        plain = pa.binary() if pa.types.is_string(type_) else type_
        children = tuple(cls.of(type_.field(i).type) for i in range(type_.num_fields))
        return cls(type_, plain, type_.num_buffers, _has_offsets(type_), children)


def parse_layout(head: pa.Buffer, message_length: int) -> Layout:
    """Read prefix and metadata of a message that has `message_length` bytes in all."""
    num_rows, nodes, buffers, codec, body_start = read_head(head, message_length)
    if codec not in _CODECS:
        raise ValueError(f"unknown body compression {codec}")
    return Layout(num_rows, nodes, buffers, _CODECS[codec], body_start)


class BatchDecoder:
    """Builds batches of a fixed schema from messages. Thread-safe."""

    def __init__(self, schema: pa.Schema) -> None:
        self._slots = list(_column_slots(schema.types))
        # Flat lists of pairs.
        self._num_node_numbers = 2 * sum(len(slots.nodes) for slots in self._slots)
        self._num_buffer_numbers = 2 * sum(len(slots.buffers) for slots in self._slots)
        # Those of the last call: the blocks of a file are mostly read with the same columns.
        self._chosen: _ChosenColumns | None = None

    def spans(self, layout: Layout, columns: Sequence[int]) -> list[tuple[int, int]]:
        """The byte range of the message that holds each wanted column."""
        self._check_counts(layout)
        return [self._span(layout, self._slots[column].buffers) for column in columns]

    def decode(
        self,
        layout: Layout,
        columns: Sequence[int],
        fields: pa.Schema,
        pieces: Pieces,
        max_bytes: int,
    ) -> "pa.RecordBatch | BatchView":
        """The wanted columns under the names of `fields`, taking at most `max_bytes` of new memory.

        Requires: `fields` has the types that the columns are stored with.
        """
        self._check_counts(layout)
        chosen = self._chosen
        if chosen is None or chosen.columns is not columns or chosen.fields is not fields:
            chosen = self._chosen = _ChosenColumns(columns, fields, self._slots)
        return chosen.decode(layout, _Body(layout, pieces, max_bytes))

    def _span(self, layout: Layout, buffers: range) -> tuple[int, int]:
        starts = [layout.buffers[2 * i] for i in buffers]
        stops = [layout.buffers[2 * i] + layout.buffers[2 * i + 1] for i in buffers]
        return layout.body_start + min(starts), layout.body_start + max(stops)

    def _check_counts(self, layout: Layout) -> None:
        numbers = (self._num_node_numbers, self._num_buffer_numbers)
        if (len(layout.nodes), len(layout.buffers)) != numbers:
            raise ValueError("message has other columns than its schema")


class _ChosenColumns:
    """Columns that are read together: those that are not nested at once by a kernel, the others one by one."""

    def __init__(
        self, columns: Sequence[int], fields: pa.Schema, slots: Sequence[ColumnSlots]
    ) -> None:
        self.columns = columns
        self.fields = fields
        own = [slots[column] for column in columns]
        is_nested = list(map(pa.types.is_nested, fields.types))
        self._nested = {
            place: (TypeShape.of(fields.types[place]), own[place])
            for place, nested in enumerate(is_nested)
            if nested
        }
        flat = [place for place, nested in enumerate(is_nested) if not nested]
        self._flat_fields = (
            pa.schema([fields.field(place) for place in flat]) if self._nested else fields
        )
        self._flat_slots = [own[place] for place in flat]
        self._shape = BlockShape(
            self._flat_fields,
            [slot.nodes.start for slot in self._flat_slots],
            [slot.buffers.start for slot in self._flat_slots],
            pa.RecordBatch._import_from_c,
        )

    @cached_property
    def _flat_columns(self) -> "list[_FlatColumn]":
        return list(map(_FlatColumn.of, self._flat_fields, self._flat_slots))

    def decode(self, layout: Layout, body: "_Body") -> "pa.RecordBatch | BatchView":
        if layout.codec is None and not self._nested:
            return view_block(self._shape, layout, body.pieces)
        rest = iter(self._flat_arrays(layout, body))
        arrays = [
            self._nested_column(place, layout, body) if place in self._nested else next(rest)
            for place in range(len(self.fields))
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.fields)

    def _flat_arrays(self, layout: Layout, body: "_Body") -> list[pa.Array]:
        if layout.codec is None:
            found: list[pa.Array] = view_block(self._shape, layout, body.pieces).batch.columns
            return found
        # One by one: whoever keeps a column keeps what was unpacked for it, and not for all others.
        return [column.unpacked(layout, body) for column in self._flat_columns]

    def _nested_column(self, place: int, layout: Layout, body: "_Body") -> pa.Array:
        shape, slots = self._nested[place]
        array = _array(shape, layout.nodes, iter(slots.nodes), iter(slots.buffers), body)
        if len(array) != layout.num_rows:
            raise ValueError(
                f"column {self.fields.field(place).name!r} has {len(array)} rows of {layout.num_rows}"
            )
        return array


class _FlatColumn(NamedTuple):
    """One column of a message whose buffers are compressed."""

    shape: BlockShape
    buffers: range

    @classmethod
    def of(cls, field: pa.Field, slots: ColumnSlots) -> "_FlatColumn":
        nodes, buffers = [slots.nodes.start], [slots.buffers.start]
        shape = BlockShape(pa.schema([field]), nodes, buffers, pa.RecordBatch._import_from_c)
        return cls(shape, slots.buffers)

    def unpacked(self, layout: Layout, body: "_Body") -> pa.Array:
        buffers = [body.buffer(number) for number in self.buffers]
        return self.shape.joined(layout.num_rows, layout.nodes, buffers).batch.column(0)


def view_block(shape: BlockShape, layout: Layout, pieces: Pieces) -> "BatchView":
    """The columns of a message that is not compressed, in one call."""
    num_rows, nodes, buffers, _, body_start = layout
    return shape.read(num_rows, nodes, buffers, body_start, pieces)


def as_batch(rows: "pa.RecordBatch | BatchView") -> pa.RecordBatch:
    """Rows, of which kernels may have seen only the bytes so far, as a record batch."""
    return rows if isinstance(rows, pa.RecordBatch) else rows.batch


def has_nulls(rows: "pa.RecordBatch | BatchView", place: int) -> bool:
    """Whether a row has no value in the column at that place."""
    if isinstance(rows, pa.RecordBatch):
        return bool(rows.column(place).null_count)
    return rows.has_nulls(place)


class _Body:
    """The buffers of one message, found and decompressed on demand within a memory budget."""

    def __init__(self, layout: Layout, pieces: Pieces, max_bytes: int) -> None:
        self.pieces = pieces
        self._layout = layout
        self._budget = max_bytes
        self._codec = pa.Codec(layout.codec) if layout.codec else None

    def buffer(self, number: int) -> pa.Buffer | None:
        offset, length = self._layout.buffers[2 * number : 2 * number + 2]
        if length == 0:
            return None
        raw = self._read(self._layout.body_start + offset, length)
        return raw if self._codec is None else self._decompress(self._codec, raw)

    def _read(self, start: int, length: int) -> pa.Buffer:
        begin, piece = next(pair for pair in reversed(self.pieces) if pair[0] <= start)
        return piece.slice(start - begin, length)

    def _decompress(self, codec: pa.Codec, raw: pa.Buffer) -> pa.Buffer:
        if raw.size < _INT64.size:
            raise ValueError(f"a compressed buffer of {raw.size} bytes has no length")
        (size,) = _INT64.unpack_from(raw)
        payload = raw.slice(8)
        if size == -1:
            return payload
        if not 0 <= size <= self._budget:
            raise ValueError(f"a buffer unpacks to {size} bytes, more than the block may hold")
        self._budget -= size
        return codec.decompress(payload, decompressed_size=size)


def _array(
    shape: TypeShape,
    counts: tuple[int, ...],
    nodes: Iterator[int],
    buffers: Iterator[int],
    body: _Body,
) -> pa.Array:
    node = next(nodes)
    own = [body.buffer(next(buffers)) for _ in range(shape.num_buffers)]
    children = [_array(child, counts, nodes, buffers, body) for child in shape.children]
    return _built(shape, counts, node, own, children or None)


def _built(
    shape: TypeShape,
    counts: tuple[int, ...],
    node: int,
    buffers: list[pa.Buffer | None],
    children: list[pa.Array] | None,
) -> pa.Array:
    length, null_count = counts[2 * node : 2 * node + 2]
    if length < 0 or null_count < 0:
        raise ValueError("a column has a negative length")
    for number in range(1, len(buffers)):
        if buffers[number] is None:  # only a validity bitmap may be missing
            buffers[number] = _EMPTY
    array = pa.Array.from_buffers(shape.plain, length, buffers, null_count, 0, children)
    array.validate(full=shape.has_offsets)
    return array if shape.plain is shape.type else array.view(shape.type)


_EMPTY = pa.py_buffer(b"")


def _has_offsets(type_: pa.DataType) -> bool:
    kinds = (pa.types.is_string, pa.types.is_binary, pa.types.is_list, pa.types.is_map)
    return any(is_kind(type_) for is_kind in kinds)


def _column_slots(types: Sequence[pa.DataType]) -> Iterator[ColumnSlots]:
    node = buffer = 0
    for type_ in types:
        nodes, buffers = _slot_counts(type_)
        yield ColumnSlots(range(node, node + nodes), range(buffer, buffer + buffers))
        node, buffer = node + nodes, buffer + buffers


def _slot_counts(type_: pa.DataType) -> tuple[int, int]:
    below = [_slot_counts(type_.field(i).type) for i in range(type_.num_fields)]
    return 1 + sum(n for n, _ in below), type_.num_buffers + sum(b for _, b in below)
