"""What the footer of a Parquet run says of a block, and what of it is believed.

Whoever made the file may have packed a great deal into little. The block index, which is bounded, says how large a
block is decoded; here is what that leaves for its pages (their bytes and values, told by their headers) and for texts
and other long values that a dictionary repeats, of which no header tells how often.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa

from lsmerge.storage.block_index import Block
from lsmerge_native.column_chunk import ValueShape
from lsmerge_native.pages import chunk_sizes
from lsmerge_native.parquet_footer import read_footer

# Headers of pages with their statistics, and what an encoding takes however few values there are.
_LEAF_OVERHEAD_BYTES = 32 << 10
# Parquet stores an integer of one byte in four, and beside them where lists and nulls are: no value grows by more.
_MOST_GROWTH = 5
# The bits that a value inside a list takes at least: its own, or those of the offset of an empty list.
_BITS_IN_LIST = {"BOOLEAN": 1, "INT64": 32, "FLOAT": 32, "DOUBLE": 32, "BYTE_ARRAY": 32}
_SMALL_BITS = 8
# Of values that all have the same: those of decimals and half floats have at most as many.
_SHORT_BYTES = 32
_LENGTH_BYTES = 4
_TRAILER_BYTES = 8
# What kernels decode: the bytes in which values are stored, and whether they are whole numbers.
_STORED = {"INT32": (4, True), "INT64": (8, True), "FLOAT": (4, False), "DOUBLE": (8, False)}


class Leaf(NamedTuple):
    """A column of Parquet's: where it is in the schema, and how its values are stored."""

    path: str
    physical_type: str
    is_repeated: bool
    length: int
    """Bytes of a value, where all have the same and the type does not say it."""
    depth: int
    """How many of what it lies in, itself included, may be null or empty."""

    @property
    def is_text(self) -> bool:
        """Whether values differ in length, and a dictionary may repeat long ones."""
        return self.physical_type == "BYTE_ARRAY"

    @property
    def is_nested(self) -> bool:
        return self.is_repeated or self.depth > 1

    def most_values(self, block: Block) -> int:
        """How many values, nulls and empty lists its pages may hold."""
        if not self.is_repeated:
            return block.rows
        bits = _BITS_IN_LIST.get(self.physical_type, _SMALL_BITS)
        return block.rows + 8 * block.decoded_bytes // bits


class Allowance(NamedTuple):
    """What the column chunks of a block that are read may amount to."""

    bytes: int
    values: int
    without_dictionary: frozenset[int]
    """Where chunks of texts begin that are not decoded as dictionaries."""

    def after(self, offset: int, chunk: pa.Buffer) -> "Allowance":
        """What is left after a column chunk, which is refused if it is too much."""
        size_bytes, values, has_dictionary = chunk_sizes(chunk)
        check_size(size_bytes, self.bytes)
        if values > self.values:
            raise ValueError(f"a block would have {values} values, at most {self.values} fit it")
        if has_dictionary and offset in self.without_dictionary:
            raise ValueError("a column chunk has a dictionary that the footer does not know of")
        return self._replace(bytes=self.bytes - size_bytes, values=self.values - values)


class Chunk(NamedTuple):
    """Where the pages of a column are in a block."""

    codec: int
    length: int
    data_offset: int
    dictionary_offset: int

    @property
    def has_dictionary(self) -> bool:
        """Whether its pages begin with a dictionary."""
        return 0 < self.dictionary_offset < self.data_offset

    @property
    def offset(self) -> int:
        return self.dictionary_offset if self.has_dictionary else self.data_offset


class Footer:
    """The footer of a file whose row groups are the blocks of its index. Immutable but for what it remembers.

    pyarrow ends the process where it is asked for a column chunk that it does not like, so it is asked for the schema
    only.
    """

    def __init__(self, tail: pa.Buffer, blocks: Sequence[Block]) -> None:
        import pyarrow.parquet as pq

        self.metadata = pq.read_metadata(pa.BufferReader(tail))
        self._schema = self.metadata.schema
        self._blocks = blocks
        self._known: dict[int, Leaf] = {}
        groups, chunks = read_footer(_thrift(tail))
        self._chunks = memoryview(chunks).cast("q")
        self._check(memoryview(groups).cast("q").tolist())

    def chunk(self, number: int, leaf: int) -> Chunk:
        """The pages of a leaf in a block, wherever the footer says they are."""
        place = (number * len(self._schema) + leaf) * len(Chunk._fields)
        return Chunk(*self._chunks[place : place + len(Chunk._fields)])

    def dictionaries(self, number: int, leaves: Sequence[int]) -> frozenset[str]:
        """The paths of those leaves of a block that have a dictionary of texts."""
        return frozenset(
            self._leaf(leaf).path
            for leaf in leaves
            if self._leaf(leaf).is_text and self.chunk(number, leaf).has_dictionary
        )

    def allowance(self, number: int, leaves: Sequence[int]) -> Allowance:
        """What chunks of these leaves of a block may amount to."""
        block = self._blocks[number]
        texts = [self.chunk(number, leaf) for leaf in leaves if self._leaf(leaf).is_text]
        texts += self._long_values(number, leaves)
        return Allowance(
            _most_bytes(block, len(leaves)),
            sum(self._leaf(leaf).most_values(block) for leaf in leaves),
            frozenset(chunk.data_offset for chunk in texts if not chunk.has_dictionary),
        )

    def _long_values(self, number: int, leaves: Sequence[int]) -> list[Chunk]:
        """Chunks of long values of one length inside lists, which have no dictionary: it would repeat them as often as
        it likes. Others have no more of them than rows.
        """
        block, found = self._blocks[number], []
        for leaf in leaves:
            length = self._leaf(leaf).length
            if not self._leaf(leaf).is_repeated:
                check_size(block.rows * length, most_decoded_bytes(block))
            elif length > _SHORT_BYTES:
                found.append(self.chunk(number, leaf))
        if any(chunk.has_dictionary for chunk in found):
            raise ValueError("values of one length inside a list have a dictionary")
        return found

    def value_shape(self, number: int, field: pa.Field) -> ValueShape | None:
        """How the values of a column are stored, if it is one leaf of the same Arrow type that kernels decode."""
        leaf, type_ = self._leaf(number), field.type
        if leaf.path != field.name or leaf.is_nested or self._types.get(leaf.path) != type_:
            return None
        if leaf.is_text:
            is_plain = pa.types.is_string(type_) or pa.types.is_binary(type_)
            return ValueShape(0, 0, False, leaf.depth == 1) if is_plain else None
        if leaf.physical_type not in _STORED or not _is_number(type_):
            return None
        stored_bytes, is_whole = _STORED[leaf.physical_type]
        return ValueShape(stored_bytes, type_.bit_width // 8, is_whole, leaf.depth == 1)

    @cached_property
    def _types(self) -> dict[str, pa.DataType]:
        """The Arrow types of columns as pyarrow would read them; none if it would not know which of two is meant."""
        schema = self._schema.to_arrow_schema()
        unique = len(set(schema.names)) == len(schema.names)
        return dict(zip(schema.names, schema.types, strict=True)) if unique else {}

    def _leaf(self, number: int) -> Leaf:
        if number not in self._known:
            column = self._schema.column(number)
            self._known[number] = Leaf(
                column.path,
                column.physical_type,
                column.max_repetition_level > 0,
                max(0, column.length or 0),
                column.max_definition_level,
            )
        return self._known[number]

    def _check(self, groups: list[int]) -> None:
        """The row groups are the blocks of the index, in rows and in bytes, and each has all columns."""
        rows, sizes, num_chunks = groups[::3], groups[1::3], groups[2::3]
        if rows != [block.rows for block in self._blocks]:
            raise ValueError("the footer has other row groups than the block index")
        if set(num_chunks) != {len(self._schema)}:
            raise ValueError("a row group has other columns than the schema")
        for size, block in zip(sizes, self._blocks, strict=True):
            check_size(size, _most_bytes(block, len(self._schema)))


def _thrift(tail: pa.Buffer) -> pa.Buffer:
    """The struct at the end of a Parquet file, before its length and the magic."""
    end = tail.size - _TRAILER_BYTES
    length = int.from_bytes(tail[end : end + _LENGTH_BYTES].to_pybytes(), "little")
    if not 0 <= length <= end:
        raise ValueError(f"a footer of {length} bytes does not fit into {end}")
    return tail[end - length : end]


def _most_bytes(block: Block, num_leaves: int) -> int:
    """What pages of a block may unpack to, before they are decoded."""
    return _MOST_GROWTH * block.decoded_bytes + num_leaves * _LEAF_OVERHEAD_BYTES


def check_size(size_bytes: int, most_bytes: int) -> None:
    if not 0 <= size_bytes <= most_bytes:
        raise ValueError(f"a block would unpack to {size_bytes} bytes, at most {most_bytes} fit it")


def most_decoded_bytes(block: Block) -> int:
    """What all columns of a block may take in memory."""
    # A nullable column comes back with a validity bitmap it may not have had, never larger than its data.
    return 2 * block.decoded_bytes


def check_decoded(size_bytes: int, most_bytes: int) -> None:
    if size_bytes > most_bytes:
        raise ValueError(f"the block unpacks to {size_bytes} bytes, at most {most_bytes} fit it")


def _is_number(type_: pa.DataType) -> bool:
    """Whether values lie in Arrow as they do in Parquet, but for the bytes that small ones lack."""
    kinds = pa.types
    is_time = kinds.is_timestamp(type_) or kinds.is_time(type_) or kinds.is_date32(type_)
    return bool(is_time or kinds.is_integer(type_) or kinds.is_floating(type_))


def unfolded_bytes(array: pa.Array) -> int:
    """What the texts of all dictionaries inside an array take once every row has its own."""
    import pyarrow.compute as pc

    if pa.types.is_dictionary(array.type):
        lengths = pc.binary_length(array.dictionary).take(array.indices)
        return int(pc.sum(lengths).as_py() or 0)
    return sum(map(unfolded_bytes, _children(array)))


def _children(array: pa.Array) -> list[pa.Array]:
    if pa.types.is_map(array.type):
        return [array.keys, array.items]
    if pa.types.is_struct(array.type):
        return [array.field(i) for i in range(array.type.num_fields)]
    return [array.values] if array.type.num_fields else []
