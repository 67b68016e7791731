"""Column chunks decoded by the kernel, beside what pyarrow makes of them; and bytes that are none."""

import itertools
import random
import struct
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsmerge_native.column_chunk import ValueShape, decode_chunk

STORED = {"INT32": (4, True), "INT64": (8, True), "FLOAT": (4, False), "DOUBLE": (8, False)}
MUCH = 1 << 30


class Chunk(NamedTuple):
    """A column chunk as pyarrow wrote it, and what is in it."""

    data: pa.Buffer
    codec: pa.Codec | None
    shape: ValueShape
    array: pa.Array

    def decoded(self, most_bytes=MUCH, data=None):
        given = self.data if data is None else pa.py_buffer(data)
        found = decode_chunk(given, self.codec, self.shape, len(self.array), most_bytes)
        if found is None:
            return None
        validity, offsets, values, num_nulls = found
        buffers = [validity, values] if offsets is None else [validity, offsets, values]
        whole = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
        array = pa.Array.from_buffers(self.array.type, len(self.array), whole, num_nulls)
        array.validate(full=True)
        return array


def chunk_of(values, type_, *, encoding=None, nullable=True, **options):
    array = pa.array(values, type_)
    schema = pa.schema([pa.field("v", type_, nullable=nullable)])
    sink = pa.BufferOutputStream()
    if encoding not in (None, "DICTIONARY"):
        options["column_encoding"] = {"v": encoding}
    options["use_dictionary"] = encoding == "DICTIONARY"
    pq.write_table(pa.Table.from_arrays([array], schema=schema), sink, **options)
    data = sink.getvalue()
    metadata = pq.read_metadata(pa.BufferReader(data))
    column = metadata.row_group(0).column(0)
    start = column.data_page_offset
    if column.has_dictionary_page:
        start = min(start, column.dictionary_page_offset)
    stored_bytes, is_whole = STORED.get(column.physical_type, (0, False))
    item_bytes = type_.bit_width // 8 if stored_bytes else 0
    shape = ValueShape(stored_bytes, item_bytes, is_whole, nullable)
    name = column.compression
    codec = None if name == "UNCOMPRESSED" else pa.Codec(name.lower())
    return Chunk(data.slice(start, column.total_compressed_size), codec, shape, array)


WHOLE = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
NATURAL = [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
TIMES = [pa.timestamp("us", "UTC"), pa.timestamp("ms"), pa.timestamp("ns")]
TIMES += [pa.date32(), pa.time32("ms"), pa.time64("ns")]
FLOATS = [pa.float32(), pa.float64()]
TEXTS = [pa.string(), pa.binary()]


def whole_numbers(type_, bits):
    if type_ in NATURAL:
        return st.integers(0, 2**bits - 1)
    if pa.types.is_time(type_):  # of which a day has as many
        return st.integers(0, min(2 ** (bits - 1), 86_399_999))
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@st.composite
def columns(draw):
    """(values, type, encoding) in all combinations that writers of run files choose from."""
    type_ = draw(st.sampled_from([*WHOLE, *NATURAL, *TIMES, *FLOATS, *TEXTS]))
    encodings = ["PLAIN", "DICTIONARY"]
    if type_ in TEXTS:
        value = st.text(max_size=draw(st.sampled_from([3, 80])))
        value = value if type_ == pa.string() else value.map(str.encode)
    elif type_ in FLOATS:
        value = st.floats(width=type_.bit_width)
    else:
        encodings.append("DELTA_BINARY_PACKED")
        value = whole_numbers(type_, draw(st.integers(1, type_.bit_width)))
    seeds = draw(st.lists(value, min_size=1, max_size=30))
    rows = draw(st.integers(1, 700))
    order = random.Random(draw(st.integers(0, 2**32)))
    if draw(st.booleans()):
        seeds.append(None)
    run = draw(st.sampled_from([1, 3, 100]))
    values = [v for _ in range(rows) for v in [order.choice(seeds)] * order.randint(1, run)]
    return values[:rows], type_, draw(st.sampled_from(encodings))


def bits_of(array):
    """The same values, of which no two that differ in a bit are equal."""
    wholes = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}
    return array.view(wholes.get(array.type, array.type))


@given(
    columns(),
    st.sampled_from(["none", "zstd"]),
    st.sampled_from([1 << 20, 64]),
    st.sampled_from(["1.0", "2.6"]),
)
def test_values_are_those_that_were_written(column, compression, page_bytes, version):
    values, type_, encoding = column
    if version == "1.0" and type_ == pa.timestamp("ns"):
        type_ = pa.timestamp("us")  # this version has no finer ones
    written = chunk_of(
        values,
        type_,
        encoding=encoding,
        nullable=None in values or len(values) % 2 == 0,
        compression=compression,
        data_page_size=page_bytes,
        write_batch_size=48,
        version=version,
    )
    found = written.decoded()
    assert found is not None
    assert bits_of(found).equals(bits_of(written.array))
    assert found.null_count == written.array.null_count


@pytest.mark.parametrize("width", range(65))
def test_differences_of_every_width(width):
    random_ = random.Random(width)
    steps = [random_.getrandbits(width) if width else 0 for _ in range(333)]
    sums = [0]
    for step in steps:
        sums.append((sums[-1] + step) % 2**64)
    signed = [n - 2**64 if n >= 2**63 else n for n in sums]
    written = chunk_of(signed, pa.int64(), encoding="DELTA_BINARY_PACKED")
    assert written.decoded().equals(written.array)


@pytest.mark.parametrize("count", [1, 2, 8, 9, 255, 256, 257, 5000, 70_000])
@pytest.mark.parametrize("type_", [pa.int32(), pa.string()], ids=str)
def test_dictionaries_of_every_size(count, type_):
    random_ = random.Random(count)
    numbers = [random_.randrange(count) for _ in range(3000)] + list(range(count))
    values = [str(n) for n in numbers] if type_ == pa.string() else numbers
    written = chunk_of(values, type_, encoding="DICTIONARY")
    assert written.decoded().equals(written.array)


def test_a_dictionary_that_became_too_large_is_followed_by_plain_pages():
    values = [f"{n:050}" for n in range(400)] * 2
    options = {"dictionary_pagesize_limit": 5000, "data_page_size": 1000, "write_batch_size": 16}
    written = chunk_of(values, pa.string(), encoding="DICTIONARY", **options)
    assert written.decoded().equals(written.array)


@pytest.mark.parametrize("type_", [pa.int16(), pa.float64(), pa.string()], ids=str)
@pytest.mark.parametrize("encoding", ["PLAIN", "DICTIONARY"])
def test_nulls_alone(type_, encoding):
    written = chunk_of([None] * 1000, type_, encoding=encoding)
    assert written.decoded().equals(written.array)


@pytest.mark.parametrize(
    ("values", "type_", "options"),
    [
        ([1.5, 2.5], pa.float64(), {"encoding": "BYTE_STREAM_SPLIT"}),
        ([1, 2], pa.int64(), {"encoding": "BYTE_STREAM_SPLIT"}),
        (["a", "bc"], pa.string(), {"encoding": "DELTA_LENGTH_BYTE_ARRAY"}),
        (["a", "ab"], pa.string(), {"encoding": "DELTA_BYTE_ARRAY"}),
        ([1, 2], pa.int64(), {"data_page_version": "2.0"}),
    ],
)
def test_what_is_not_known_here_is_left_to_others(values, type_, options):
    assert chunk_of(values, type_, **options).decoded() is None


def test_differences_of_floats_are_not_known():
    whole = chunk_of([1, 2, 3], pa.int64(), encoding="DELTA_BINARY_PACKED")
    assert whole._replace(shape=ValueShape(8, 8, False, True)).decoded() is None


def test_more_text_than_may_be_is_refused_before_it_is_there():
    long = "x" * 10_000
    written = chunk_of([long] * 5000, pa.string(), encoding="DICTIONARY")
    assert len(written.data) < 1000
    assert written.decoded(50_000_000).equals(written.array)
    with pytest.raises(ValueError, match="unpacks to 50000000 bytes of text, at most 49999999"):
        written.decoded(49_999_999)


@pytest.mark.parametrize("rows", [0, 99, 101])
def test_other_rows_than_expected_are_refused(rows):
    written = chunk_of(list(range(100)), pa.int64(), encoding="PLAIN")
    with pytest.raises(ValueError, match=f"a column chunk has (100 rows, not|more than) {rows}"):
        decode_chunk(written.data, written.codec, written.shape, rows, MUCH)


@pytest.mark.parametrize("sizes", [(3, 1), (4, 8), (8, 3), (-4, 1), (0, -1)])
def test_shapes_that_no_value_has(sizes):
    with pytest.raises(ValueError, match="no values are stored in"):
        ValueShape(*sizes, True, True)


# --- pages made by hand --------------------------------------------------------------------------


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def zigzag(number):
    return varint((number << 1 ^ number >> 63) & 2**64 - 1)


def fields(*values):
    """A Thrift struct: (number of the field, a 32-bit number or a struct), in their order."""
    out, last = bytearray(), 0
    for number, value in values:
        kind = 5 if isinstance(value, int) else 12
        out += bytes([(number - last) << 4 | kind]) + (zigzag(value) if kind == 5 else value)
        last = number
    return bytes(out) + b"\0"


def page(body, values, encoding, *, kind=0, levels=3, unpacked=None):
    of_kind = [(1, values), (2, encoding)] + ([(3, levels), (4, 3)] if kind == 0 else [])
    sizes = [(1, kind), (2, len(body) if unpacked is None else unpacked), (3, len(body))]
    return fields(*sizes, ({0: 5, 2: 7}[kind], fields(*of_kind))) + body


def dictionary(body, entries):
    return page(body, entries, 0, kind=2)


def differences(values, *, block=128, parts=4, total=None, width=8):
    """Those of rising numbers of a byte each, all in one block."""
    steps = bytes(b - a for a, b in itertools.pairwise(values))
    head = varint(block) + varint(parts) + varint(len(values) if total is None else total)
    return head + zigzag(values[0]) + zigzag(0) + bytes([width] * parts) + steps.ljust(block, b"\0")


INT64, TEXT = ValueShape(8, 8, True, False), ValueShape(0, 0, False, False)
OPTIONAL = ValueShape(8, 8, True, True)
SEVEN = struct.pack("<q", 7)
TWO_TEXTS = b"\1\0\0\0a\2\0\0\0bc"
PLACES = b"\1\3\1"  # a bit each, one group of eight: 1, 0, 0, ...


def decoded_by_hand(data, shape, rows):
    validity, offsets, values, num_nulls = decode_chunk(pa.py_buffer(data), None, shape, rows, MUCH)
    type_ = pa.int64() if offsets is None else pa.binary()
    buffers = [validity, values] if offsets is None else [validity, offsets, values]
    whole = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    return pa.Array.from_buffers(type_, rows, whole, num_nulls).to_pylist()


@pytest.mark.parametrize(
    ("data", "shape", "values"),
    [
        (page(b"", 0, 0) + page(SEVEN, 1, 0) + page(b"", 0, 9), INT64, [7]),
        (dictionary(b"", 0) + page(SEVEN, 1, 0), INT64, [7]),
        (dictionary(SEVEN, 1) + page(b"\0\6", 3, 8) + page(SEVEN, 1, 0), INT64, [7] * 4),
        (page(differences(range(100)), 100, 5), INT64, list(range(100))),
        (page(differences(range(200), block=256, parts=1), 200, 5), INT64, list(range(200))),
        (page(differences(range(200), block=256, parts=8), 200, 5), INT64, list(range(200))),
        (page(b"\2\0\0\0\3\5" + 2 * SEVEN, 3, 0), OPTIONAL, [7, None, 7]),
        (page(b"\4\0\0\0\4\1\2\0" + 2 * SEVEN, 3, 0), OPTIONAL, [7, 7, None]),
        (dictionary(TWO_TEXTS, 2) + page(PLACES, 3, 2), TEXT, [b"bc", b"a", b"a"]),
        (page(TWO_TEXTS, 2, 0) * 2, TEXT, [b"a", b"bc"] * 2),
    ],
)
def test_pages_that_no_writer_here_makes(data, shape, values):
    assert decoded_by_hand(data, shape, len(values)) == values


@pytest.mark.parametrize(
    ("data", "shape", "rows"),
    [
        (page(SEVEN, 2, 0), INT64, 2),
        (page(SEVEN[:7], 1, 0), INT64, 1),
        (page(SEVEN, 1, 0, unpacked=9), INT64, 1),
        (page(SEVEN, 1, 0, unpacked=7), INT64, 1),
        (page(TWO_TEXTS[:-1], 2, 0), TEXT, 2),
        (page(TWO_TEXTS, 3, 0), TEXT, 3),
        (page(b"\xff\xff\xff\xffa", 1, 0), TEXT, 1),
        (dictionary(SEVEN, 2) + page(PLACES, 1, 8), INT64, 1),
        (dictionary(SEVEN, 1) + page(PLACES, 1, 8), INT64, 1),
        (dictionary(TWO_TEXTS, 1) + page(PLACES, 1, 8), TEXT, 1),
        (dictionary(TWO_TEXTS, 3) + page(PLACES, 1, 8), TEXT, 1),
        (dictionary(TWO_TEXTS, 2) + page(b"\1\3", 1, 8), TEXT, 1),
        (dictionary(TWO_TEXTS, 2) + page(b"", 1, 8), TEXT, 1),
        (dictionary(TWO_TEXTS, 2) + page(b"\x21\2\0\0\0\0\0", 1, 8), TEXT, 1),
        (page(differences(range(100), total=99), 100, 5), INT64, 100),
        (page(differences(range(100), block=100), 100, 5), INT64, 100),
        (page(differences(range(100), block=0), 100, 5), INT64, 100),
        (page(differences(range(100), parts=0), 100, 5), INT64, 100),
        (page(differences(range(100), width=65), 100, 5), INT64, 100),
        (page(differences(range(100), width=9), 100, 5), INT64, 100),
        (page(differences(range(100), block=128, parts=1, width=64), 100, 5), INT64, 100),
        (page(differences(range(100), width=200) + bytes(4000), 100, 5), INT64, 100),
        (page(differences(range(100), width=255) + bytes(4000), 100, 5), INT64, 100),
        (page(b"\1\0\0\0\3\1" + SEVEN, 1, 0), OPTIONAL, 1),
        (page(b"\3\0\0\0\3\5", 1, 0), OPTIONAL, 1),
        (page(b"\1\0\0\0\3", 1, 0), OPTIONAL, 1),
        (page(b"\2\0\0", 1, 0), OPTIONAL, 1),
    ],
)
def test_pages_that_hold_less_than_they_tell_are_refused(data, shape, rows):
    with pytest.raises(ValueError, match=r"a (page|dictionary) (does not hold|of|has)"):
        decode_chunk(pa.py_buffer(data), None, shape, rows, MUCH)


@pytest.mark.parametrize(
    ("data", "shape"),
    [
        (page(PLACES, 1, 8), INT64),
        (page(PLACES, 1, 2), INT64),
        (dictionary(SEVEN, 1) * 2 + page(b"\0\2", 1, 8), INT64),
        (page(SEVEN, 1, 0, kind=2) + page(SEVEN, 1, 3), INT64),
        (page(b"\2\0\0\0\2\1" + SEVEN, 1, 0, levels=4), OPTIONAL),
        (page(SEVEN, 1, 4), INT64),
        (page(TWO_TEXTS, 2, 5), TEXT),
        (page(b"\0\0\0\0", 1, 0) * 2000, TEXT),
    ],
)
def test_pages_of_other_kinds_are_left_to_others(data, shape):
    assert decode_chunk(pa.py_buffer(data), None, shape, 2000, MUCH) is None


def test_a_page_that_unpacks_to_other_sizes_is_refused():
    codec = pa.Codec("zstd")
    packed = codec.compress(SEVEN * 10).to_pybytes()
    for unpacked in (79, 81):
        data = pa.py_buffer(page(packed, 10, 0, unpacked=unpacked))
        with pytest.raises((ValueError, OSError)):
            decode_chunk(data, codec, INT64, 10, MUCH)
    data = pa.py_buffer(page(packed, 10, 0, unpacked=80))
    assert decode_chunk(data, codec, INT64, 10, MUCH) is not None


MUTATED = [
    chunk_of(
        [*range(300), None] * 2, pa.int64(), encoding="DELTA_BINARY_PACKED", compression="none"
    ),
    chunk_of([1, 1, None, 7] * 90, pa.int8(), encoding="DICTIONARY", compression="none"),
    chunk_of(["a", "bcd", None, ""] * 90, pa.string(), encoding="DICTIONARY", compression="none"),
    chunk_of(["a", "bcd", None, ""] * 90, pa.string(), encoding="PLAIN", compression="none"),
    chunk_of([0.5, None] * 90, pa.float32(), encoding="PLAIN", compression="none"),
    chunk_of(["a", "bcd", None, ""] * 90, pa.string(), encoding="PLAIN", compression="zstd"),
]


@given(st.integers(0, len(MUTATED) - 1), st.randoms(use_true_random=False))
def test_changed_bytes_are_values_or_an_error(number, random_):
    """What comes out is an array that Arrow takes for whole, whatever the bytes were: only texts may not be UTF-8."""
    chunk = MUTATED[number]
    if chunk.array.type == pa.string():
        chunk = chunk._replace(array=chunk.array.cast(pa.binary()))
    for _ in range(20):
        data = bytearray(chunk.data)
        for _ in range(random_.randint(1, 3)):
            data[random_.randrange(len(data))] = random_.choice(
                [0, 1, 127, 128, 255, random_.getrandbits(8)]
            )
        if random_.random() < 0.2:
            del data[random_.randrange(len(data)) :]
        try:
            chunk.decoded(1 << 20, data)
        except (ValueError, OSError):
            continue
