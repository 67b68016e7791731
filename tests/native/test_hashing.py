"""Spark's hash and buckets against the twin in spark_hash.py, and the grouping of rows."""

import decimal
import math
import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsmerge_native.hashing import bucket_ids, group_ids, murmur3
from tests.native.spark_hash import spark_bucket, spark_hash

INT64 = st.integers(-(2**63), 2**63 - 1)
TIME_S = st.integers(0, 86_399)


def wide(digits):
    return st.integers(-(10**digits) + 1, 10**digits - 1).map(
        lambda n: decimal.Decimal(n).scaleb(-2, decimal.Context(prec=60))
    )


COLUMNS = [
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-128, 127)),
    (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), INT64),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.date32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.time32("s"), TIME_S),
    (pa.time32("ms"), TIME_S.map(lambda t: t * 1000 + 7)),
    (pa.time64("us"), TIME_S.map(lambda t: t * 10**6 + 7)),
    (pa.time64("ns"), TIME_S.map(lambda t: t * 10**9 + 7)),
    (pa.timestamp("s"), st.integers(-(10**10), 10**10)),
    (pa.timestamp("ms"), st.integers(-(10**13), 10**13)),
    (pa.timestamp("us", "UTC"), INT64),
    (pa.timestamp("ns"), INT64),
    (pa.decimal128(10, 2), wide(10)),
    (pa.decimal128(18, 2), wide(18)),
    (pa.decimal128(19, 2), wide(19)),
    (pa.decimal128(38, 2), wide(38)),
    (pa.string(), st.text(max_size=20)),
    (pa.binary(), st.binary(max_size=20)),
    (pa.binary(7), st.binary(min_size=7, max_size=7)),
]


def int32s(buffer):
    return memoryview(buffer).cast("i").tolist()


def pack(ids):
    return b"".join(i.to_bytes(4, "little", signed=True) for i in ids)


def rows_of(arrays):
    return zip(*arrays, strict=True)


def sliced_array(data, type_, values, min_size=0):
    """An array that begins inside its buffers, so that an ignored offset shows."""
    items = data.draw(st.lists(st.none() | values, min_size=min_size + 3, max_size=min_size + 20))
    return pa.array(items, type_)[3:]


@pytest.mark.parametrize(("type_", "values"), COLUMNS, ids=lambda c: str(c)[:20])
@given(data=st.data(), seed=st.integers(-(2**31), 2**31 - 1))
@settings(max_examples=25)
def test_every_type_is_hashed_as_by_the_twin(type_, values, data, seed):
    array = sliced_array(data, type_, values)
    assert int32s(murmur3([array], seed)) == [spark_hash([value], seed) for value in array]


@given(data=st.data(), num_buckets=st.integers(1, 2**31 - 1))
@settings(max_examples=40)
def test_rows_of_several_columns(data, num_buckets):
    chosen = data.draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=4))
    arrays = [sliced_array(data, *column) for column in chosen]
    length = min(len(array) for array in arrays)
    arrays = [array[:length] for array in arrays]
    assert int32s(murmur3(arrays)) == [spark_hash(row) for row in rows_of(arrays)]
    expected = [spark_bucket(row, num_buckets) for row in rows_of(arrays)]
    assert int32s(bucket_ids(arrays, num_buckets)) == expected


@pytest.mark.parametrize("length", [1023, 1024, 1025, 3000])
def test_more_rows_than_one_block(length):
    rng = random.Random(length)
    numbers = pa.array([rng.choice([None, rng.getrandbits(60)]) for _ in range(length)], pa.int64())
    names = pa.array([rng.choice([None, "x" * rng.randrange(9)]) for _ in range(length)])
    rows = rows_of([numbers, names])
    assert int32s(murmur3([numbers, names])) == [spark_hash(row) for row in rows]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([1], pa.int32()), -559580957),
        (pa.array([1], pa.int64()), -1712319331),
        (pa.array(["Spark"]), 228093765),
        (pa.array([None], pa.int32()), 42),
    ],
)
def test_values_that_spark_gave(array, expected):
    assert int32s(murmur3([array])) == [expected] == [spark_hash([array[0]])]


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()])
def test_one_zero_and_one_nan(type_):
    odd_nan = -math.nan
    hashes = int32s(murmur3([pa.array([0.0, -0.0, math.nan, odd_nan], type_)]))
    assert hashes[0] == hashes[1] != hashes[2] == hashes[3]


def test_no_rows_and_seed_alone():
    assert int32s(murmur3([pa.array([], pa.string())])) == []
    assert int32s(murmur3([pa.nulls(3, pa.int64())], -7)) == [-7] * 3


@pytest.mark.parametrize(
    "array",
    [
        pa.array([[1]]),
        pa.array([{"a": 1}]),
        pa.array(["a"]).dictionary_encode(),
        pa.array(["a"], pa.large_string()),
        pa.array([1], pa.uint32()),
        pa.array([decimal.Decimal(1)], pa.decimal256(40, 0)),
    ],
)
def test_other_types_are_refused(array):
    with pytest.raises(TypeError, match="Arrow format"):
        murmur3([array])


def test_senseless_arguments_are_refused():
    array = pa.array([1, 2])
    with pytest.raises(ValueError, match="at least one array"):
        murmur3([])
    with pytest.raises(ValueError, match="2 and 1 rows"):
        murmur3([array, array[:1]])
    with pytest.raises(ValueError, match="num_buckets must be at least 1, got 0"):
        bucket_ids([array], 0)


@given(ids=st.lists(st.integers(0, 9), max_size=60), spare=st.integers(0, 3))
def test_groups_are_those_of_a_stable_sort(ids, spare):
    num_ids = 10 + spare
    order, starts = group_ids(pack(ids), num_ids)
    expected = sorted(range(len(ids)), key=lambda row: ids[row])
    assert memoryview(order).cast("I").tolist() == expected
    below = [sum(id_ < k for id_ in ids) for k in range(num_ids + 1)]
    assert memoryview(starts).cast("I").tolist() == below


def test_no_ids_at_all():
    order, starts = group_ids(b"", 0)
    assert (bytes(order), bytes(starts)) == (b"", bytes(4))


@pytest.mark.parametrize(("ids", "bad"), [([0, 3, 4], 4), ([1, -1], -1)])
def test_an_id_out_of_range_is_refused(ids, bad):
    with pytest.raises(ValueError, match=f"id {bad} at row {ids.index(bad)} is not from 0 to 3"):
        group_ids(pack(ids), 4)
