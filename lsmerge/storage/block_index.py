"""The index section of a run file: what the blocks are, where, and how every byte is checked.

All integers are little-endian. Each part is padded with zeros to a multiple of 8 bytes.

    magic b"LSMX"   4    version u16   format u8 (1 Arrow, 2 Parquet)   flags u8
    index_length  u64    of this whole section
    head_length   u64    bytes before the first block
    filter_length u64    bytes of the key filter, 0 = none
    num_rows      u64    num_retracts  u64    sequence_min  i64    sequence_max  i64
    stripe_bytes  u32    num_stripes   u32    num_blocks    u32    key_bytes     u32
    schema_length u32    stats_length  u32
    then  checksums      u32 × num_stripes
          block lengths  u64 × num_blocks      bytes in the file
          decoded bytes  u64 × num_blocks      as an uncompressed Arrow message
          block rows     u32 × num_blocks
          key ends       u32 × 2 num_blocks    ends in `keys` of first and last key of each block
          keys           key_bytes
          schema         Arrow schema message of the data
          stats          Arrow record batch message, see column_stats.py

Flag 1 says that rows may have written some of their columns only, which a column of the file tells;
a reader that does not know of it would take them for whole rows, so unknown flags are refused.

Segments follow each other without gaps: head, blocks, filter; the index section begins where the
filter ends. `decode` trusts nothing, though the caller has checked the checksum: a section may be
crafted.
"""

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa

from lsmerge.errors import UnsupportedFormatError
from lsmerge.schema import WRITTEN_FIELD_ID
from lsmerge.storage.arrow_message import BatchDecoder, as_batch, parse_layout
from lsmerge.storage.column_stats import ColumnStats, is_measured, stats_schema
from lsmerge.storage.decoding import decoding
from lsmerge.storage.projection import field_id, positions_by_id
from lsmerge.storage.stripes import CHECKSUM_BYTES, STRIPE_BYTES, count_stripes

MAGIC = b"LSMX"
FILE_FORMAT_VERSION = 1
FLAG_TARGETED = 1
MAX_BLOCK_BYTES = 1 << 28
MAX_INDEX_BYTES = 1 << 28

_FORMATS = {"arrow": 1, "parquet": 2}
_LEAD = struct.Struct("<4sHBB")
_HEADER = struct.Struct("<4sHBBQQQQQqqIIIIII")


class Block(NamedTuple):
    """One block: its size in the file and decoded, its rows and the keys it spans."""

    length: int
    decoded_bytes: int
    rows: int
    first_key: bytes
    last_key: bytes


@dataclass(frozen=True)
class BlockIndex:
    """The decoded index section. Immutable."""

    format: str
    schema: pa.Schema
    head_length: int
    filter_length: int
    num_retracts: int
    sequence_min: int
    sequence_max: int
    blocks: tuple[Block, ...]
    checksums: bytes
    stats: pa.Buffer
    stripe_bytes: int = STRIPE_BYTES
    positions: dict[int, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions", positions_by_id(self.schema))

    @property
    def num_rows(self) -> int:
        return sum(block.rows for block in self.blocks)

    @property
    def is_targeted(self) -> bool:
        """Whether the file says which columns its rows wrote."""
        return WRITTEN_FIELD_ID in self.positions

    @property
    def segment_lengths(self) -> list[int]:
        """Bytes of head, blocks and filter, which the file begins with."""
        return [self.head_length, *(block.length for block in self.blocks), self.filter_length]

    def block_range(self, low: bytes | None, high: bytes | None) -> range:
        """The blocks that may hold keys in [low, high]; None is unbounded."""
        start = 0 if low is None else bisect_left(self.blocks, low, key=lambda b: b.last_key)
        stop = len(self.blocks)
        if high is not None:
            stop = bisect_right(self.blocks, high, key=lambda b: b.first_key)
        return range(start, max(start, stop))

    def encode(self) -> bytes:
        """The index section, whole multiples of 8 bytes long."""
        keys = [key for block in self.blocks for key in (block.first_key, block.last_key)]
        schema = self.schema.serialize()
        parts = [
            self.checksums,
            _pack("Q", [block.length for block in self.blocks]),
            _pack("Q", [block.decoded_bytes for block in self.blocks]),
            _pack("I", [block.rows for block in self.blocks]),
            _pack("I", _ends(keys)),
            b"".join(keys),
            schema.to_pybytes(),
            self.stats.to_pybytes(),
        ]
        body = b"".join(map(_padded, parts))
        return self._header(_HEADER.size + len(body), sum(map(len, keys)), schema.size) + body

    def _header(self, index_length: int, key_bytes: int, schema_length: int) -> bytes:
        return _HEADER.pack(
            *(MAGIC, FILE_FORMAT_VERSION, _FORMATS[self.format], FLAG_TARGETED * self.is_targeted),
            *(index_length, self.head_length, self.filter_length),
            *(self.num_rows, self.num_retracts, self.sequence_min, self.sequence_max),
            *(self.stripe_bytes, len(self.checksums) // CHECKSUM_BYTES),
            *(len(self.blocks), key_bytes, schema_length, self.stats.size),
        )


def decode_index(path: str, tail: pa.Buffer, index_offset: int) -> BlockIndex:
    """Parse the tail of a run file, which begins at `index_offset`."""
    with decoding(path, index_offset):
        index, num_rows = _parse(path, tail)
        _check(index, num_rows, index_offset)
        return index


def decode_stats(path: str, index: BlockIndex) -> dict[int, list[ColumnStats]]:
    """The statistics of every block by field id."""
    columns = stats_schema(index.schema)
    message = index.stats
    with decoding(path, sum(index.segment_lengths)):
        layout = parse_layout(message, message.size)
        if layout.num_rows != len(index.blocks) or layout.codec is not None:
            raise ValueError("the statistics do not fit the blocks")
        decoder, positions = BatchDecoder(columns), range(len(columns))
        found = decoder.decode(layout, positions, columns, [(0, message)], 0)
        arrays = as_batch(found).columns
    ids = [field_id(column) for column in index.schema if is_measured(column)]
    triples = zip(arrays[::3], arrays[1::3], arrays[2::3], strict=True)
    return {
        number: [ColumnStats(a, b, nulls.as_py()) for a, b, nulls in zip(*three, strict=True)]
        for number, three in zip(ids, triples, strict=True)
    }


def _parse(path: str, tail: pa.Buffer) -> tuple[BlockIndex, int]:
    if tail.size < _HEADER.size:
        raise ValueError(f"the index section has only {tail.size} bytes")
    magic, version, format_code, flags = _LEAD.unpack_from(tail)
    if magic != MAGIC:
        raise ValueError(f"no index section here (found {magic!r}, not {MAGIC!r})")
    is_known = flags & ~FLAG_TARGETED == 0 and format_code in _FORMATS.values()
    if version != FILE_FORMAT_VERSION or not is_known:
        raise UnsupportedFormatError(
            path, f"{version}.{format_code}.{flags}", f"{FILE_FORMAT_VERSION}.[12].[01]"
        )
    header = _HEADER.unpack_from(tail)[4:]
    index_length, head_length, filter_length, num_rows, num_retracts, low, high = header[:7]
    stripe_bytes, num_stripes, num_blocks, key_bytes, schema_length, stats_length = header[7:]
    sizes = [
        *(CHECKSUM_BYTES * num_stripes, 8 * num_blocks, 8 * num_blocks, 4 * num_blocks),
        *(8 * num_blocks, key_bytes, schema_length, stats_length),
    ]
    if index_length > tail.size or _HEADER.size + sum(map(_padded_length, sizes)) != index_length:
        raise ValueError("the lengths in the index section do not add up")
    checksums, lengths, decoded, rows, ends, keys, schema, stats = _parts(tail, sizes)
    index = BlockIndex(
        format=next(name for name, code in _FORMATS.items() if code == format_code),
        schema=pa.ipc.read_schema(schema),
        head_length=head_length,
        filter_length=filter_length,
        num_retracts=num_retracts,
        sequence_min=low,
        sequence_max=high,
        blocks=tuple(
            map(
                Block._make,
                zip(
                    _unpack("Q", lengths),
                    _unpack("Q", decoded),
                    _unpack("I", rows),
                    *_split_keys(_unpack("I", ends), keys.to_pybytes()),
                    strict=True,
                ),
            )
        ),
        checksums=checksums.to_pybytes(),
        stats=stats,
        stripe_bytes=stripe_bytes,
    )
    _require(index.is_targeted == bool(flags), "its flags do not fit its columns")
    return index, num_rows


def _check(index: BlockIndex, num_rows: int, index_offset: int) -> None:
    # A name that is no text raises here, and not in whoever asks for names.
    _require(len(index.schema.names) > 0, "there are no columns")
    _require(index.stripe_bytes > 0, "stripes are empty")
    _require(len(index.blocks) > 0, "there are no blocks")
    _require(sum(index.segment_lengths) == index_offset, "the blocks do not fill the file")
    stripes = count_stripes(index.segment_lengths, index.stripe_bytes)
    _require(CHECKSUM_BYTES * stripes == len(index.checksums), "stripes lack checksums")
    _require(index.num_rows == num_rows, "block rows do not add up")
    _require(index.num_retracts <= num_rows, "more retracts than rows")
    row_bytes = _fixed_row_bytes(index.schema)
    for block in index.blocks:
        _require(block.rows > 0 and block.length > 0, "a block is empty")
        _require(block.rows * row_bytes <= block.decoded_bytes, "its rows do not fit a block")
        _require(block.decoded_bytes <= MAX_BLOCK_BYTES, "a block is too large to decode")
        _require(block.first_key <= block.last_key, "keys decrease inside a block")
    for block, following in pairwise(index.blocks):
        _require(block.last_key <= following.first_key, "keys decrease between blocks")


def _fixed_row_bytes(schema: pa.Schema) -> int:
    """The bytes that any row takes decoded: those of its columns of fixed width, null or not."""
    fixed = (type_ for type_ in schema.types if pa.types.is_primitive(type_))
    return sum(type_.bit_width // 8 for type_ in fixed)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(f"the index section contradicts itself: {otherwise}")


def _parts(tail: pa.Buffer, sizes: Sequence[int]) -> Iterator[pa.Buffer]:
    offset = _HEADER.size
    for size in sizes:
        yield tail.slice(offset, size)
        offset += _padded_length(size)


def _split_keys(ends: Sequence[int], keys: bytes) -> tuple[list[bytes], list[bytes]]:
    if any(a > b for a, b in pairwise((0, *ends))) or (ends and ends[-1] != len(keys)):
        raise ValueError("the keys of the index section do not add up")
    every = [keys[start:stop] for start, stop in pairwise((0, *ends))]
    return every[::2], every[1::2]


def _ends(keys: Sequence[bytes]) -> list[int]:
    ends, end = [], 0
    for key in keys:
        end += len(key)
        ends.append(end)
    return ends


def _pack(code: str, values: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(values)}{code}", *values)


def _unpack(code: str, data: pa.Buffer) -> tuple[int, ...]:
    return struct.unpack(f"<{data.size // struct.calcsize('<' + code)}{code}", data)


def _padded(data: bytes) -> bytes:
    return data + bytes(_padded_length(len(data)) - len(data))


def _padded_length(length: int) -> int:
    return -(-length // 8) * 8
