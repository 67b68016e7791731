"""What the footer of a Parquet run says of a block, and what of it is believed.

Whoever made the file may have packed a great deal into little. The block index, which is bounded, says how large a
block is decoded; here is what that leaves for its pages (their bytes and values, told by their headers) and for texts
that a dictionary repeats, of which no header tells how often.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa

from lsmerge.storage.block_index import Block
from lsmerge_native.column_chunk import ValueShape
from lsmerge_native.pages import chunk_sizes

# Headers of pages with their statistics, and what an encoding takes however few values there are.
_LEAF_OVERHEAD_BYTES = 32 << 10
# Parquet stores an integer of one byte in four, and beside them where lists and nulls are: no value grows by more.
_MOST_GROWTH = 5
# The bits that a value inside a list takes at least: its own, or those of the offset of an empty list.
_BITS_IN_LIST = {"BOOLEAN": 1, "INT64": 32, "FLOAT": 32, "DOUBLE": 32, "BYTE_ARRAY": 32}
_SMALL_BITS = 8
# What kernels decode: the bytes in which values are stored, and whether they are whole numbers.
_STORED = {"INT32": (4, True), "INT64": (8, True), "FLOAT": (4, False), "DOUBLE": (8, False)}


class Leaf(NamedTuple):
    """A column of Parquet's: where it is in the schema, and how its values are stored."""

    path: str
    physical_type: str
    is_repeated: bool
    is_nullable: bool

    @property
    def is_text(self) -> bool:
        """Whether values differ in length, and a dictionary may repeat long ones."""
        return self.physical_type == "BYTE_ARRAY"

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

    offset: int
    length: int
    compression: str


class Footer:
    """The footer of a file whose row groups are the blocks of its index. Immutable but for what it remembers."""

    def __init__(self, tail: pa.Buffer, blocks: Sequence[Block]) -> None:
        import pyarrow.parquet as pq

        self.metadata = pq.read_metadata(pa.BufferReader(tail))
        self._schema = self.metadata.schema
        self._blocks = blocks
        self._known: dict[int, Leaf] = {}
        self._check()

    def dictionaries(self, number: int, leaves: Sequence[int]) -> frozenset[str]:
        """The paths of those leaves of a block that have a dictionary of texts."""
        group = self.metadata.row_group(number)
        return frozenset(
            self._leaf(leaf).path
            for leaf in leaves
            if self._leaf(leaf).is_text and group.column(leaf).has_dictionary_page
        )

    def allowance(self, number: int, leaves: Sequence[int]) -> Allowance:
        """What chunks of these leaves of a block may amount to."""
        block, group = self._blocks[number], self.metadata.row_group(number)
        texts = [group.column(leaf) for leaf in leaves if self._leaf(leaf).is_text]
        return Allowance(
            _most_bytes(block, len(leaves)),
            sum(self._leaf(leaf).most_values(block) for leaf in leaves),
            frozenset(c.data_page_offset for c in texts if not c.has_dictionary_page),
        )

    def chunk(self, number: int, leaf: int) -> Chunk:
        """The pages of a leaf in a block, wherever the footer says they are."""
        column = self.metadata.row_group(number).column(leaf)
        offset = column.data_page_offset
        if column.has_dictionary_page:
            offset = min(offset, column.dictionary_page_offset)
        return Chunk(offset, column.total_compressed_size, column.compression)

    def value_shape(self, number: int, field: pa.Field) -> ValueShape | None:
        """How the values of a column are stored, if it is one leaf of the same Arrow type that kernels decode."""
        leaf, type_ = self._leaf(number), field.type
        if leaf.path != field.name or leaf.is_repeated or self._types.get(leaf.path) != type_:
            return None
        if leaf.is_text:
            is_plain = pa.types.is_string(type_) or pa.types.is_binary(type_)
            return ValueShape(0, 0, False, leaf.is_nullable) if is_plain else None
        if leaf.physical_type not in _STORED or not _is_number(type_):
            return None
        stored_bytes, is_whole = _STORED[leaf.physical_type]
        return ValueShape(stored_bytes, type_.bit_width // 8, is_whole, leaf.is_nullable)

    @cached_property
    def _types(self) -> dict[str, pa.DataType]:
        """The Arrow types of columns as pyarrow would read them."""
        schema = self._schema.to_arrow_schema()
        return dict(zip(schema.names, schema.types, strict=True))

    def _leaf(self, number: int) -> Leaf:
        if number not in self._known:
            column = self._schema.column(number)
            self._known[number] = Leaf(
                column.path,
                column.physical_type,
                column.max_repetition_level > 0,
                column.max_definition_level > 0,
            )
        return self._known[number]

    def _check(self) -> None:
        """The row groups are the blocks of the index, in rows and in bytes."""
        groups = [self.metadata.row_group(i) for i in range(self.metadata.num_row_groups)]
        if [group.num_rows for group in groups] != [block.rows for block in self._blocks]:
            raise ValueError("the footer has other row groups than the block index")
        for group, block in zip(groups, self._blocks, strict=True):
            check_size(group.total_byte_size, _most_bytes(block, group.num_columns))


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
