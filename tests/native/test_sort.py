"""argsort against Python's stable sort."""

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsmerge_native.keys import encode_keys
from lsmerge_native.sort import argsort


def permutation(keys, order=None):
    return memoryview(argsort(keys, order)).cast("I").tolist()


def naive(keys, order=None):
    def rank(row):
        return (keys.bytes_at(row), order.bytes_at(row) if order is not None else b"")

    return sorted(range(len(keys)), key=rank)


def keys_of(values, type_):
    return encode_keys([pa.array(values, type_)])


RANDOM = random.Random(11)
MANY = 5000
INPUTS = {
    "random words": ([RANDOM.randrange(-(2**63), 2**63) for _ in range(MANY)], pa.int64()),
    "few words": ([RANDOM.randrange(7) for _ in range(MANY)], pa.int64()),
    "narrow words": ([RANDOM.randrange(-128, 128) for _ in range(MANY)], pa.int8()),
    "low and high bytes vary": (
        [RANDOM.randrange(9) << 56 | RANDOM.randrange(9) for _ in range(MANY)],
        pa.int64(),
    ),
    "descending": (list(range(MANY, 0, -1)), pa.int32()),
    "random bytes": ([RANDOM.randbytes(RANDOM.randrange(20)) for _ in range(MANY)], pa.binary()),
    "common start": ([f"customer-{RANDOM.randrange(10**9)}" for _ in range(MANY)], pa.string()),
    "long ties": (
        [
            b"0123456789" * RANDOM.randrange(2) + b"samesame" + RANDOM.randbytes(2)
            for _ in range(MANY)
        ],
        pa.binary(),
    ),
    "trailing zeros": ([b"k" + b"\0" * RANDOM.randrange(12) for _ in range(MANY)], pa.binary()),
    "all equal": (["the same long key"] * MANY, pa.string()),
    "wide": ([RANDOM.randbytes(16) for _ in range(MANY)], pa.binary(16)),
    "bytes that differ apart": (
        [
            f"{RANDOM.randrange(9)} of region {RANDOM.randrange(9)}, {RANDOM.randrange(999):012d}"
            for _ in range(MANY)
        ],
        pa.string(),
    ),
    "zeros behind a word": (
        [RANDOM.choice([b"abcdefgh", b"ABCDEFGH"]) + b"\0" * (i % 5) for i in range(MANY)],
        pa.binary(),
    ),
    "alike for long": ([b"x" * 300 + RANDOM.randbytes(2) for _ in range(MANY)], pa.binary()),
}


@pytest.fixture(params=INPUTS)
def keys(request):
    return keys_of(*INPUTS[request.param])


def test_argsort(keys):
    assert permutation(keys) == naive(keys)


@pytest.mark.parametrize("order_type", [pa.int16(), pa.string()])
def test_argsort_with_order(keys, order_type):
    values = [RANDOM.randrange(50) for _ in range(len(keys))]
    if order_type == pa.string():
        values = [f"version {v}" for v in values]
    order = keys_of(values, order_type)
    assert permutation(keys, order) == naive(keys, order)


def test_argsort_of_a_slice(keys):
    part = keys.slice(100, 1000)
    assert permutation(part) == naive(part)


def test_nullable_order_comes_first():
    keys = keys_of([1, 1, 1], pa.int64())
    order = encode_keys([pa.array([5, None, 3], pa.int64())], nullable=[True])
    assert permutation(keys, order) == [1, 2, 0]
    order = encode_keys([pa.array([5, None, 3], pa.int64())], nullable=[True], descending=[True])
    assert permutation(keys, order) == [1, 0, 2]


@pytest.mark.parametrize("type_", [pa.int64(), pa.string()])
def test_sorted_and_short_input(type_):
    for length in (0, 1, 2, 300):
        values = [f"{i // 2:04d}" if type_ == pa.string() else i // 2 for i in range(length)]
        assert permutation(keys_of(values, type_)) == list(range(length))


def test_sorted_keys_with_unsorted_order():
    keys = keys_of([1, 1, 2, 2], pa.int64())
    assert permutation(keys, keys_of([1, 0, 5, 4], pa.int64())) == [1, 0, 3, 2]


@settings(max_examples=200)
@given(st.lists(st.tuples(st.binary(max_size=10), st.integers(-3, 3)), max_size=40))
def test_argsort_of_anything(rows):
    keys = keys_of([row[0] for row in rows], pa.binary())
    order = keys_of([row[1] for row in rows], pa.int8())
    assert permutation(keys, order) == sorted(range(len(rows)), key=rows.__getitem__)
    assert permutation(keys) == sorted(range(len(rows)), key=lambda i: rows[i][0])


def test_order_of_another_length():
    with pytest.raises(ValueError, match="3 keys but 1 order keys"):
        argsort(keys_of([1, 2, 3], pa.int64()), keys_of([1], pa.int64()))
