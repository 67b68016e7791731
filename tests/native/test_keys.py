"""Encoded keys against naive twins: order, exact bytes, search, match and hashes."""

import datetime as dt
import decimal
import functools
import itertools
import math
import struct

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsmerge_native.keys import Keys, encode_keys
from lsmerge_native.sort import argsort


def u32(values):
    return memoryview(b"".join(v.to_bytes(4, "little") for v in values))


def numbers(buffer, code):
    return memoryview(buffer).cast(code).tolist()


def encoded(arrays, **flags):
    keys = encode_keys(arrays, **flags)
    return [keys.bytes_at(i) for i in range(len(keys))]


# ---- the twin: an encoder of one value in the most obvious Python ----


def ordered_float(value, code, signed_zeros=False):
    if math.isnan(value):
        return (3, 0, 0)
    stored = struct.unpack(code, struct.pack(code, value))[0]
    return (1, stored, math.copysign(1, stored) if signed_zeros and stored == 0 else 0)


def value_bytes(type_, value):
    if pa.types.is_boolean(type_):
        return bytes([value])
    if pa.types.is_decimal(type_):
        width = 8 if type_.precision <= 18 else 16
        number = int(value.scaleb(type_.scale, decimal.Context(prec=60)))
        return (number + (1 << (8 * width - 1))).to_bytes(width, "big")
    if pa.types.is_unsigned_integer(type_):
        return value.to_bytes(type_.bit_width // 8, "big")
    width = type_.bit_width // 8
    number = (
        pa.scalar(value, type_).cast(pa.int64()).as_py()
        if pa.types.is_integer(type_)
        else pa.array([value], type_).view(pa.int32() if width == 4 else pa.int64())[0].as_py()
    )
    return (number + (1 << (8 * width - 1))).to_bytes(width, "big")


def escape(data):
    return data.replace(b"\0", b"\0\xff") + b"\0\0"


def complement(data):
    return bytes(255 - byte for byte in data)


SCALARS = {
    pa.bool_(): [False, True],
    pa.int8(): [-128, -1, 0, 1, 127],
    pa.int16(): [-(2**15), -256, -1, 0, 255, 256, 2**15 - 1],
    pa.int32(): [-(2**31), -65536, -1, 0, 1, 65535, 2**31 - 1],
    pa.int64(): [-(2**63), -(2**32), -1, 0, 1, 2**40, 2**63 - 1],
    pa.uint8(): [0, 127, 128, 255],
    pa.uint16(): [0, 255, 256, 65535],
    pa.uint32(): [0, 2**31, 2**32 - 1],
    pa.uint64(): [0, 2**63, 2**64 - 1],
    pa.date32(): [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date.max],
    pa.time32("s"): [dt.time(0), dt.time(1, 2, 3), dt.time(23, 59, 59)],
    pa.time32("ms"): [dt.time(0), dt.time(0, 0, 0, 1000), dt.time(23, 59, 59)],
    pa.time64("us"): [dt.time(0), dt.time(0, 0, 0, 1), dt.time(23, 59, 59)],
    pa.time64("ns"): [dt.time(0), dt.time(0, 0, 0, 1), dt.time(23, 59, 59)],
    pa.timestamp("s"): [dt.datetime(1, 1, 1), dt.datetime(1969, 1, 1), dt.datetime(2024, 1, 1)],
    pa.timestamp("ms"): [dt.datetime(1, 1, 1), dt.datetime(1969, 1, 1), dt.datetime(2024, 1, 1)],
    pa.timestamp("us", "UTC"): [
        dt.datetime(1, 1, 1, tzinfo=dt.UTC),
        dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
    ],
    pa.timestamp("ns"): [dt.datetime(1700, 1, 1), dt.datetime(1969, 1, 1), dt.datetime(2024, 1, 1)],
    pa.decimal128(10, 2): [
        decimal.Decimal(text) for text in ("-99999999.99", "-0.01", "0.00", "0.01", "99999999.99")
    ],
    pa.decimal128(18, 0): [decimal.Decimal(n) for n in (-(10**18) + 1, -1, 0, 1, 10**18 - 1)],
    pa.decimal128(19, 0): [decimal.Decimal(n) for n in (-(10**19) + 1, -1, 0, 1, 10**19 - 1)],
    pa.decimal128(38, 3): [
        decimal.Decimal(n).scaleb(-3, decimal.Context(prec=60))
        for n in (-(10**38) + 1, -(2**64), -(2**63), -1, 0, 1, 2**63, 2**64, 10**38 - 1)
    ],
}

FLOATS = [-math.inf, -1e30, -1.5, -1e-40, -0.0, 0.0, 1e-40, 0.1, 1.0, 1e30, math.inf, math.nan]
BINARIES = [
    b"",
    b"\0",
    b"\0\0",
    b"\0\xff",
    b"a",
    b"a\0",
    b"a\0\0",
    b"a\0b",
    b"aa",
    b"ab",
    b"abcdefgh",
    b"abcdefgh\0",
    b"abcdefghi",
    b"abcdefghj",
    b"\xff",
    b"\xff\xff",
]


@pytest.mark.parametrize("type_", SCALARS, ids=str)
@pytest.mark.parametrize("descending", [False, True])
def test_scalar_encoding(type_, descending):
    values = SCALARS[type_] * 2
    expected = [value_bytes(type_, v) for v in values]
    if descending:
        expected = [complement(e) for e in expected]
    array = pa.array([values[0], *values], type_).slice(1)
    assert encoded([array], descending=[descending]) == expected
    assert sorted(expected, reverse=descending) == [
        e for e in expected[: len(values) // 2] for _ in range(2)
    ]


@pytest.mark.parametrize("type_", SCALARS, ids=str)
@pytest.mark.parametrize("descending", [False, True])
def test_nullable_scalar(type_, descending):
    values = SCALARS[type_]
    width = len(value_bytes(type_, values[0]))
    expected = [b"\0" * (width + 1)]
    for value in values:
        data = value_bytes(type_, value)
        expected.append(b"\1" + (complement(data) if descending else data))
    array = pa.array([None, *values], type_)
    assert encoded([array], nullable=[True], descending=[descending]) == expected
    assert min(expected) == expected[0]


@pytest.mark.parametrize(("type_", "code"), [(pa.float32(), "f"), (pa.float64(), "d")])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("signed_zeros", [False, True])
def test_float_order(type_, code, descending, signed_zeros):
    negative_nan = struct.unpack("<d", bytes.fromhex("010000000000f8ff"))[0]
    values = [*FLOATS, negative_nan]
    array = pa.array(values, type_)
    result = encoded([array], descending=[descending], signed_zeros=signed_zeros)
    for (a, x), (b, y) in itertools.product(zip(values, result, strict=True), repeat=2):
        left, right = (ordered_float(value, code, signed_zeros) for value in (a, b))
        assert (x == y) == (left == right)
        assert (x < y) == ((left > right) if descending else (left < right))


def test_float_bytes():
    assert encoded([pa.array([1.0, -1.0, -0.0, math.nan], pa.float64())]) == [
        bytes.fromhex(text)
        for text in ("bff0000000000000", "400fffffffffffff", "8000000000000000", "fff8000000000000")
    ]


@pytest.mark.parametrize("type_", [pa.string(), pa.binary()])
def test_last_variable_column_is_raw(type_):
    values = [v for v in BINARIES if type_ != pa.string() or v.isascii()]
    array = pa.array([b"xyz", *values], pa.binary()).cast(type_).slice(1)
    assert encoded([array]) == values
    numbered = pa.array([5] * len(values), pa.int8())
    assert encoded([numbered, array]) == [b"\x85" + v for v in values]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nullable", [False, True])
def test_variable_column_is_escaped_unless_last(nullable, descending):
    values = BINARIES
    flags = {"nullable": [nullable, False], "descending": [descending, False]}
    expected = [complement(escape(v)) if descending else escape(v) for v in values]
    if nullable:
        expected = [b"\1" + e for e in expected]
        values, expected = [None, *values], [b"\0", *expected]
    columns = [pa.array(values, pa.binary()), pa.array([7] * len(values), pa.int8())]
    assert encoded(columns, **flags) == [e + b"\x87" for e in expected]


@pytest.mark.parametrize("flags", [{"nullable": [True]}, {"descending": [True]}])
def test_single_variable_column_with_a_flag_is_escaped(flags):
    result = encoded([pa.array(BINARIES, pa.binary())], **flags)
    order = sorted(range(len(BINARIES)), key=BINARIES.__getitem__, reverse="descending" in flags)
    assert sorted(range(len(result)), key=result.__getitem__) == order
    assert len(result[0]) == 2 + ("nullable" in flags)


@pytest.mark.parametrize("width", [1, 3, 8, 9, 20])
def test_fixed_size_binary_is_raw(width):
    values = [bytes([i]) * width for i in (0, 1, 128, 255)]
    array = pa.array([values[0], *values], pa.binary(width)).slice(1)
    assert encoded([array]) == values
    assert encoded([array], descending=[True]) == [complement(v) for v in values]
    nulled = pa.array([None, values[1]], pa.binary(width))
    assert encoded([nulled], nullable=[True]) == [b"\0" * (width + 1), b"\1" + values[1]]
    assert encode_keys([array]).kind == ("u64" if width <= 8 else "bytes")


def test_fixed_size_binary_of_nothing():
    keys = encode_keys([pa.array([b"", b""], pa.binary(0))])
    assert [keys.bytes_at(i) for i in range(2)] == [b"", b""]
    assert (keys.kind, keys.search(b""), keys.search(b"", right=True)) == ("u64", 0, 2)
    assert encoded([pa.array([b""], pa.binary(0)), pa.array([1], pa.int8())]) == [b"\x81"]


@pytest.mark.parametrize(
    ("types", "flags", "kind"),
    [
        ([pa.int64()], {}, "u64"),
        ([pa.int32(), pa.int32()], {}, "u64"),
        ([pa.int32(), pa.int16(), pa.bool_(), pa.int8()], {}, "u64"),
        ([pa.int32()], {"nullable": [True]}, "u64"),
        ([pa.int64()], {"nullable": [True]}, "bytes"),
        ([pa.int64(), pa.int8()], {}, "bytes"),
        ([pa.decimal128(18, 2)], {}, "u64"),
        ([pa.decimal128(19, 2)], {}, "bytes"),
        ([pa.string()], {}, "bytes"),
    ],
)
def test_kind(types, flags, kind):
    assert encode_keys([pa.array([], t) for t in types], **flags).kind == kind


COLUMNS = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "uint16": (pa.uint16(), st.integers(0, 65535)),
    "bool": (pa.bool_(), st.booleans()),
    "decimal": (pa.decimal128(30, 0), st.integers(-(10**30) + 1, 10**30 - 1).map(decimal.Decimal)),
    "double": (pa.float64(), st.floats(allow_nan=False).map(lambda x: x + 0.0)),
    "text": (pa.string(), st.text("\0a\u00ff\U0001f600", max_size=4)),
    "binary": (pa.binary(), st.binary(max_size=12)),
    "fixed": (pa.binary(3), st.binary(min_size=3, max_size=3)),
}


def comparable(value):
    return value.encode() if isinstance(value, str) else value


@functools.total_ordering
class Reversed:
    __hash__ = None

    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        return other.value < self.value

    def __eq__(self, other):
        return other.value == self.value


def rank(value, descending):
    """Null first both ways, then the value."""
    if value is None:
        return (0,)
    return (1, Reversed(comparable(value)) if descending else comparable(value))


@settings(max_examples=150)
@given(st.data())
def test_order_of_compound_keys_is_the_order_of_tuples(data):
    names = data.draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=4))
    nullable = data.draw(st.tuples(*[st.booleans() for _ in names]))
    descending = data.draw(st.tuples(*[st.booleans() for _ in names]))
    values = [
        st.none() | COLUMNS[n][1] if null else COLUMNS[n][1]
        for n, null in zip(names, nullable, strict=True)
    ]
    rows = data.draw(st.lists(st.tuples(*values), min_size=2, max_size=12))
    arrays = [pa.array([row[i] for row in rows], COLUMNS[n][0]) for i, n in enumerate(names)]
    result = encoded(arrays, nullable=nullable, descending=descending)
    ranks = [tuple(map(rank, row, descending)) for row in rows]
    for (a, x), (b, y) in itertools.combinations(zip(ranks, result, strict=True), 2):
        assert (x == y) == (a == b)
        assert (x < y) == (a < b)


def test_many_rows_cross_the_chunks_of_the_encoder():
    values = [(i * 7919) % 3001 - 1500 for i in range(3001)]
    array = pa.array(values, pa.int32())
    expected = [value_bytes(pa.int32(), v) for v in values]
    assert encoded([array]) == expected
    assert encoded([array, pa.array(values, pa.int64())]) == [
        e + value_bytes(pa.int64(), v) for e, v in zip(expected, values, strict=True)
    ]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize("filler", [b"a", b"\0", b"a\0"])
def test_texts_of_all_sizes_between_numbers(filler, nullable, descending):
    """Short texts are written by whole words, over what comes behind them."""
    texts = [(filler * 40)[: i % 37] for i in range(700)]
    if nullable:
        texts[::5] = [None] * len(texts[::5])
    columns = [
        pa.array([i % 100 for i in range(700)], pa.int8()),
        pa.array([b"before", *texts], pa.binary()).slice(1),
        pa.array([i - 350 for i in range(700)], pa.int32()),
        pa.array([b"last" * (i % 6) for i in range(700)], pa.binary()),
    ]
    flags = {"nullable": [False, nullable, False, False]}
    flags["descending"] = [False, descending, False, False]
    assert encoded(columns, **flags) == [
        value_bytes(pa.int8(), i % 100)
        + text_bytes(text, nullable=nullable, descending=descending)
        + value_bytes(pa.int32(), i - 350)
        + b"last" * (i % 6)
        for i, text in enumerate(texts)
    ]


def text_bytes(text, *, nullable, descending):
    """An escaped text, with its mark."""
    if text is None:
        return b"\0"
    return b"\1" * nullable + (complement(escape(text)) if descending else escape(text))


@pytest.mark.parametrize("value", [b"", b"a", b"a\0", b"abcdefg", b"abcdefgh", b"\0" * 20])
def test_a_single_row_of_text_and_number(value):
    columns = [pa.array([value]), pa.array([7], pa.int16())]
    assert encoded(columns) == [escape(value) + value_bytes(pa.int16(), 7)]


# ---- refusals ----


def test_null_in_a_key_names_column_and_row():
    with pytest.raises(ValueError, match="column 1 of the key is null in row 2"):
        encode_keys([pa.array([1, 2, 3]), pa.array(["a", "b", None])])


@pytest.mark.parametrize(
    ("arrays", "flags", "message"),
    [
        ([], {}, "at least one column"),
        ([[1], [1, 2]], {}, "column 1 of the key has 2 rows, column 0 has 1"),
        ([[1]], {"nullable": [True, False]}, "nullable has 2 flags for 1 key columns"),
        ([[1]], {"descending": [True, False]}, "descending has 2 flags"),
    ],
)
def test_bad_arguments(arrays, flags, message):
    with pytest.raises(ValueError, match=message):
        encode_keys([pa.array(a) for a in arrays], **flags)


def test_keys_are_not_made_by_hand():
    with pytest.raises(TypeError, match="encode_keys"):
        Keys()


@pytest.mark.parametrize("row", [-1, 2])
def test_row_out_of_range(row):
    for keys in (encode_keys([pa.array([1, 2])]), encode_keys([pa.array(["a", "b"])])):
        with pytest.raises(IndexError, match=f"row {row} "):
            keys.bytes_at(row)


# ---- slices, takes, searches ----


SORTED = {
    "int32": [pa.array([-5, -5, 0, 3, 3, 3, 900], pa.int32())],
    "int64": [pa.array([-5, -5, 0, 3, 3, 3, 2**60], pa.int64())],
    "uint64": [pa.array([0, 0, 1, 3, 3, 3, 2**63], pa.uint64())],
    "text": [pa.array(["", "", "a", "a\0", "a\0", "abcdefghijk", "abcdefghijl"])],
    "compound": [pa.array(["", "a", "a", "a", "b", "b\0"]), pa.array([1, 1, 1, 2, 0, 0])],
}


@pytest.fixture(params=SORTED)
def sorted_keys(request):
    return encode_keys(SORTED[request.param])


def all_bytes(keys):
    return [keys.bytes_at(i) for i in range(len(keys))]


def test_search_is_bisection_over_bytes(sorted_keys):
    whole = all_bytes(sorted_keys)
    probes = {b"", b"\0", b"\xff" * 12, *whole}
    for key in whole:
        probes |= {key[:-1], key[:2], key[:3] + b"\xff", key + b"\0", key + b"\xff", key + bytes(9)}
    for probe in probes:
        assert sorted_keys.search(probe) == sum(k < probe for k in whole)
        assert sorted_keys.search(probe, right=True) == sum(k <= probe for k in whole)


def test_slice_is_a_view(sorted_keys):
    whole = all_bytes(sorted_keys)
    for start, stop in itertools.combinations_with_replacement(range(len(whole) + 1), 2):
        part = sorted_keys.slice(start, stop)
        assert all_bytes(part) == whole[start:stop]
        assert part.nbytes <= sorted_keys.nbytes
        assert part.search(b"\x80") == sum(k < b"\x80" for k in whole[start:stop])
    assert all_bytes(sorted_keys.slice(1, 6).slice(2, 4)) == whole[3:5]


@pytest.mark.parametrize("type_", [pa.int64(), pa.uint64(), pa.timestamp("us")], ids=str)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shift", [0, 1])
def test_words_are_used_in_place(type_, descending, shift):
    """Keys of one column of 8 bytes are its own memory, unless that lies where words do not."""
    values = [3, 1, 2**62, 0, 7]
    memory = bytearray(bytes(shift) + struct.pack("<5q", *values))
    column = pa.Array.from_buffers(type_, 5, [None, pa.py_buffer(memory).slice(shift)])
    keys = encode_keys([column.slice(1)], descending=[descending])
    copied = encode_keys([pa.array(values[1:]).cast(type_)], descending=[descending])
    assert (all_bytes(keys), keys.kind) == (all_bytes(copied), "u64")
    assert numbers(argsort(keys), "I") == numbers(argsort(copied), "I")
    assert numbers(keys.hashes(), "Q") == numbers(copied.hashes(), "Q")
    memory[shift:] = bytes(40)
    assert (len(set(all_bytes(keys))) == 1) == (shift == 0)


@pytest.mark.parametrize(("start", "stop"), [(-1, 1), (2, 1), (0, 8)])
def test_slice_out_of_range(sorted_keys, start, stop):
    with pytest.raises(IndexError, match="are not in keys of"):
        sorted_keys.slice(start, stop)


def test_take(sorted_keys):
    whole = all_bytes(sorted_keys)
    rows = [3, 0, 0, 5, 2]
    taken = sorted_keys.take(u32(rows))
    assert (all_bytes(taken), taken.kind) == ([whole[r] for r in rows], sorted_keys.kind)
    assert all_bytes(sorted_keys.slice(2, 5).take(u32([2, 0]))) == [whole[4], whole[2]]
    assert len(sorted_keys.take(b"")) == 0
    with pytest.raises(IndexError, match="row 9 "):
        sorted_keys.take(u32([0, 9]))
    with pytest.raises(ValueError, match="rows"):
        sorted_keys.take(b"abc")


def test_keys_move_to_other_memory(sorted_keys):
    part = sorted_keys.slice(2, len(sorted_keys))
    parts = [pa.py_buffer(bytes(one)) for one in part.packed()]
    moved = part.moved(parts)
    assert (all_bytes(moved), moved.kind) == (all_bytes(part), part.kind)
    assert numbers(moved.hashes(), "Q") == numbers(part.hashes(), "Q")


def test_keys_do_not_move_to_too_little_memory(sorted_keys):
    parts = [pa.py_buffer(bytes(one)) for one in sorted_keys.packed()]
    with pytest.raises(ValueError, match="are needed"):
        sorted_keys.moved([*parts[:-1], parts[-1].slice(8)])
    with pytest.raises(ValueError, match="unpack"):
        sorted_keys.moved([])


def test_is_sorted(sorted_keys):
    assert sorted_keys.is_sorted()
    assert not sorted_keys.take(u32([0, 3, 5, 4, 0])).is_sorted()
    assert not sorted_keys.take(u32([5, 0])).is_sorted()
    assert sorted_keys.slice(0, 0).is_sorted()


def test_memory_of_keys():
    assert encode_keys([pa.array([1, 2, 3], pa.int32())]).nbytes == 24
    assert encode_keys([pa.array(["a", "bcd", ""])]).slice(1, 3).nbytes == 2 * 4 + 3


# ---- match ----


@settings(max_examples=100)
@given(
    st.sampled_from([pa.int32(), pa.string()]),
    st.lists(st.integers(0, 40), max_size=60),
    st.lists(st.integers(0, 40), max_size=20),
)
def test_match(type_, rows, probes):
    def make(values):
        plain = [f"a longer key {v:03d}" if type_ == pa.string() else v for v in sorted(values)]
        return encode_keys([pa.array(plain, type_)])

    starts, stops = make(rows).match(make(probes))
    assert numbers(starts, "I") == [sum(r < p for r in rows) for p in sorted(probes)]
    assert numbers(stops, "I") == [sum(r <= p for r in rows) for p in sorted(probes)]


@pytest.mark.parametrize("other", [pa.array([1], pa.int64()), pa.array(["a"])])
def test_match_refuses_another_kind(other):
    with pytest.raises(ValueError, match="cannot be compared"):
        encode_keys([pa.array([1], pa.int32())]).match(encode_keys([other]))


# ---- hashes ----


MASK = 2**64 - 1
P1, P2, P3, P4, P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


def rotl(x, bits):
    x &= MASK
    return ((x << bits) | (x >> (64 - bits))) & MASK


def xxh64(data):
    """XXH64 with seed 0, written from its specification."""

    def mix(lane, word):
        return rotl(lane + word * P2, 31) * P1 & MASK

    words = [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data) // 8 * 8, 8)]
    whole = len(data) // 32 * 4
    result = P5
    if whole:
        lanes = [P1 + P2, P2, 0, -P1]
        for i, word in enumerate(words[:whole]):
            lanes[i % 4] = mix(lanes[i % 4], word)
        result = sum(rotl(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            result = (result ^ mix(0, lane)) * P1 + P4 & MASK
    result += len(data)
    for word in words[whole:]:
        result = rotl(result ^ mix(0, word), 27) * P1 + P4
    rest = data[len(words) * 8 :]
    if len(rest) >= 4:
        result = rotl(result ^ int.from_bytes(rest[:4], "little") * P1, 23) * P2 + P3
        rest = rest[4:]
    for byte in rest:
        result = rotl(result ^ byte * P5, 11) * P1
    result &= MASK
    result = (result ^ result >> 33) * P2 & MASK
    result = (result ^ result >> 29) * P3 & MASK
    return result ^ result >> 32


def test_known_hashes():
    keys = encode_keys([pa.array([b"", b"abc"])])
    assert numbers(keys.hashes(), "Q") == [0xEF46DB3751D8E999, 0x44BC2CF5AD770999]


def test_hashes_of_all_lengths():
    values = [bytes((7 * i + n) % 256 for i in range(n)) for n in range(100)]
    assert numbers(encode_keys([pa.array(values)]).hashes(), "Q") == [xxh64(v) for v in values]


@pytest.mark.parametrize("width", range(1, 9))
def test_hashes_of_words(width):
    keys = encode_keys([pa.array([bytes(range(i, i + width)) for i in range(5)], pa.binary(width))])
    assert keys.kind == "u64"
    assert numbers(keys.hashes(), "Q") == [xxh64(key) for key in all_bytes(keys)]


def test_hashes_of_a_slice(sorted_keys):
    part = sorted_keys.slice(2, 5)
    assert numbers(part.hashes(), "Q") == [xxh64(key) for key in all_bytes(part)]
