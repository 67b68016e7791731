"""Single keys of Python values: encoded and hashed like an Arrow array of one row."""

import datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsmerge_native.hashing import murmur3
from lsmerge_native.keys import encode_keys
from lsmerge_native.one_key import KeyEncoder, key_encoder

MAX = 1 << 16

TYPES = {
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.date32(): st.dates(),
    pa.string(): st.text(max_size=12),
    pa.binary(): st.binary(max_size=12),
}


def encoder_of(*types, encoded=None, hashed=None, lengths=None, max_bytes=MAX):
    every = list(range(len(types)))
    return key_encoder(
        [pa.array([], type_) for type_ in types],
        lengths or [MAX] * len(types),
        max_bytes,
        every if encoded is None else encoded,
        every if hashed is None else hashed,
    )


@st.composite
def keys(draw):
    types = draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=5))
    positions = list(range(len(types)))
    encoded = sorted(draw(st.sets(st.sampled_from(positions), min_size=1)))
    hashed = draw(st.permutations(encoded))
    return types, tuple(draw(TYPES[type_]) for type_ in types), encoded, hashed


@settings(max_examples=300)
@given(keys())
def test_a_key_is_that_of_the_twin(case):
    types, values, encoded, hashed = case
    arrays = [pa.array([value], type_) for value, type_ in zip(values, types, strict=True)]
    made = encoder_of(*types, encoded=encoded, hashed=hashed).key(
        values if len(values) > 1 else values[0]
    )
    assert made is not None
    key, bucket_hash = made
    twin = encode_keys([arrays[position] for position in encoded])
    assert (key.kind, key.bytes_at(0), len(key)) == (twin.kind, twin.bytes_at(0), 1)
    assert bytes(key.hashes()) == bytes(twin.hashes())
    assert bucket_hash == memoryview(murmur3([arrays[p] for p in hashed])).cast("i")[0]


class Text(str):
    """Not exactly a str."""


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (pa.int8(), 128),
        (pa.int8(), -129),
        (pa.int64(), 2**63),
        (pa.int64(), -(2**63) - 1),
        (pa.int64(), True),
        (pa.int64(), 1.0),
        (pa.int64(), None),
        (pa.int64(), (1,)),
        (pa.string(), b"a"),
        (pa.string(), Text("a")),
        (pa.string(), "\ud800"),
        (pa.binary(), bytearray(b"a")),
        (pa.date32(), datetime.datetime(2026, 1, 1)),
    ],
)
def test_what_is_not_exactly_a_value_is_left_to_others(type_, value):
    assert encoder_of(type_).key(value) is None
    pair = encoder_of(type_, pa.int8())
    assert pair.key((value, 1)) is None


def test_forms_of_compound_keys():
    encoder = encoder_of(pa.int8(), pa.int8())
    assert encoder.key((1, 2)) is not None
    for other in ([1, 2], (1,), (1, 2, 3), 1, {"a": 1, "b": 2}):
        assert encoder.key(other) is None


def test_lengths_are_limited():
    text = encoder_of(pa.string(), lengths=[3])
    assert text.key("äöü") is not None
    assert text.key("abcd") is None
    assert encoder_of(pa.string(), max_bytes=5).key("äöü") is None
    assert encoder_of(pa.binary(), lengths=[3]).key(b"abcd") is None
    # An encoded key that is no single text has its place on the stack.
    pair = encoder_of(pa.string(), pa.int8())
    assert pair.key(("x" * 253, 1)) is not None
    assert pair.key(("x" * 254, 1)) is None
    assert pair.key(("\0" * 127, 1)) is None


@pytest.mark.parametrize("type_", [pa.float64(), pa.bool_(), pa.decimal128(5, 2), pa.uint8()])
def test_types_that_need_converting_have_no_encoder(type_):
    assert encoder_of(type_) is None
    assert encoder_of(pa.int8(), type_) is None


def test_columns_are_limited():
    assert encoder_of(*[pa.int8()] * 8) is not None
    assert encoder_of(*[pa.int8()] * 9) is None


def test_an_encoder_is_made_by_a_function():
    with pytest.raises(TypeError):
        KeyEncoder()
