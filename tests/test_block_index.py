"""Index sections: what is encoded is decoded, and no bytes make the decoder do worse than raise."""

import random
import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsmerge.errors import CorruptFileError, UnsupportedFormatError
from lsmerge.storage.block_index import (
    FLAG_TARGETED,
    MAX_BLOCK_BYTES,
    Block,
    BlockIndex,
    decode_index,
    decode_stats,
)
from lsmerge.storage.column_stats import encode_stats, measure
from lsmerge.storage.stripes import count_stripes


def column(name, type_, number):
    return pa.field(name, type_, True, {b"PARQUET:field_id": str(number).encode()})


SCHEMA = pa.schema(
    [
        column("seq", pa.int64(), 7),
        column("name", pa.string(), 3),
        column("x", pa.float64(), 4),
        column("tags", pa.list_(pa.string()), 5),
    ]
)
BATCHES = [
    pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    for rows in (
        [{"seq": 5, "name": "b"}, {"seq": 2, "name": None, "x": 1.5}],
        [{"seq": 1, "name": "y" * 65, "x": float("nan")}, {"seq": 3, "name": "x", "x": 2.0}],
    )
]


def index_of(keys, lengths=None, stats=None):
    """An index over blocks with the given (first, last) keys."""
    lengths = lengths or [1000] * len(keys)
    blocks = tuple(
        Block(length, 1000 + 2 * length, 10 + i, first, last)
        for i, (length, (first, last)) in enumerate(zip(lengths, keys, strict=True))
    )
    checksums = b"".join(
        struct.pack("<I", i) for i in range(count_stripes([16, *lengths, 64], 65536))
    )
    stats = stats or encode_stats(SCHEMA, [measure(BATCHES[0], strings=True)] * len(keys))
    return BlockIndex("arrow", SCHEMA, 16, 64, 4, -3, 9, blocks, checksums, stats)


def decode(index_bytes, index):
    return decode_index("data-x", pa.py_buffer(index_bytes), sum(index.segment_lengths))


KEYS = [(b"a", b"c"), (b"c", b"c"), (b"d", b"g"), (b"k", b"zz")]


def test_round_trip():
    index = index_of(KEYS, [1, 65536, 65537, 1 << 20])
    encoded = index.encode()
    assert len(encoded) % 8 == 0
    got = decode(encoded + b"footer", index)
    assert got == index
    assert got.schema.equals(SCHEMA, check_metadata=True)
    assert got.num_rows == 10 + 11 + 12 + 13
    assert got.positions == {7: 0, 3: 1, 4: 2, 5: 3}


@pytest.mark.parametrize(
    ("low", "high", "blocks"),
    [
        (None, None, [0, 1, 2, 3]),
        (b"c", b"c", [0, 1]),
        (b"c\0", b"c\0", []),
        (b"h", b"j", []),
        (b"g", None, [2, 3]),
        (None, b"", []),
        (b"zzz", None, []),
        (b"z", b"b", []),
    ],
)
def test_block_range(low, high, blocks):
    assert list(index_of(KEYS).block_range(low, high)) == blocks


@given(st.lists(st.binary(max_size=2), min_size=2), st.binary(max_size=2), st.binary(max_size=2))
def test_block_range_leaves_out_only_blocks_without_the_keys(keys, low, high):
    keys.sort()
    bounds = [(key, keys[min(i + 1, len(keys) - 1)]) for i, key in enumerate(keys)][::2]
    found = index_of(bounds).block_range(low, high)
    overlapping = [i for i, (a, b) in enumerate(bounds) if low <= b and a <= high]
    assert list(found) == overlapping


def test_statistics():
    stats = encode_stats(SCHEMA, [measure(batch, strings=True) for batch in BATCHES])
    got = decode_stats("data-x", index_of(KEYS[:2], stats=stats))
    plain = {
        number: [(low.as_py(), high.as_py(), nulls) for low, high, nulls in blocks]
        for number, blocks in got.items()
    }
    assert plain == {
        7: [(2, 5, 0), (1, 3, 0)],
        3: [("b", "b", 1), ("x", None, 0)],  # a maximum of 65 bytes is too long to keep
        4: [(1.5, 1.5, 1), (None, None, 0)],  # NaN has no place in an order
    }


def test_strings_need_not_be_measured():
    names = measure(BATCHES[0], strings=False)[1]
    assert (names.min.as_py(), names.max.as_py(), names.null_count) == (None, None, 1)


@pytest.mark.parametrize(("offset", "value"), [(4, 2), (6, 3), (7, 2)])
def test_unknown_version_format_or_flag_is_refused_by_name(offset, value):
    encoded = bytearray(index_of(KEYS).encode())
    encoded[offset] = value
    with pytest.raises(UnsupportedFormatError, match="data-x"):
        decode(bytes(encoded), index_of(KEYS))


def test_a_flag_that_the_columns_do_not_bear_out_is_damage():
    encoded = bytearray(index_of(KEYS).encode())
    encoded[7] = FLAG_TARGETED
    with pytest.raises(CorruptFileError, match="flags do not fit"):
        decode(bytes(encoded), index_of(KEYS))


@pytest.mark.parametrize("length", [0, 1, 7, 87, 88, 200])
def test_cut_off(length):
    with pytest.raises(CorruptFileError):
        decode(index_of(KEYS).encode()[:length], index_of(KEYS))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"rows": 0}, "empty"),
        ({"decoded_bytes": MAX_BLOCK_BYTES + 1}, "too large"),
        ({"rows": 2**32 - 1}, "do not fit a block|do not add up"),
        ({"decoded_bytes": 10}, "do not fit a block"),
        ({"length": 10**15}, "do not fill"),
        ({"first_key": b"zzzz"}, "keys decrease inside"),
        ({"first_key": b"f"}, "keys decrease between"),
    ],
)
def test_contradictions_are_refused(change, complaint):
    index = index_of(KEYS)
    blocks = (*index.blocks[:3], index.blocks[3]._replace(**change))
    changed = index_of(KEYS)
    object.__setattr__(changed, "blocks", blocks)
    with pytest.raises(CorruptFileError, match=complaint):
        decode(changed.encode(), index)


def test_any_bytes_give_an_index_or_a_typed_error():
    """As if a forger had made all checksums fit."""
    index = index_of(KEYS)
    encoded = index.encode()
    rng = random.Random(5)
    refused = 0
    for _ in range(3000):
        forged = bytearray(encoded)
        for _ in range(rng.randint(1, 4)):
            forged[rng.randrange(len(forged))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        try:
            decode_stats("data-x", decode(bytes(forged), index))
        except (CorruptFileError, UnsupportedFormatError):
            refused += 1
    assert 0 < refused < 3000
