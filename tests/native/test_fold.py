"""Fold reducers against Python's sum, min, max and len."""

import math
import random
import struct

import pyarrow as pa
import pytest

from lsmerge_native.fold import fold_count, fold_max, fold_min, fold_sum
from tests.native.merged_runs import merged_runs, random_runs, sliced_array

SEEDS = range(12)
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
FLOATS = [pa.float32(), pa.float64()]
TIMES = [
    *(pa.date32(), pa.time32("s"), pa.time64("ns")),
    *(pa.timestamp("ms"), pa.timestamp("us", "UTC")),
]


def java_order(value):
    """-0.0 < 0.0 < NaN."""
    return math.isnan(value), value, math.copysign(1, value)


def folded(result, type_):
    validity, data, null_count = result
    width = type_.bit_width // 8
    array = pa.Array.from_buffers(
        type_,
        len(data) // width,
        [None if validity is None else pa.py_buffer(validity), pa.py_buffer(data)],
    )
    array.validate(full=True)
    assert array.null_count == null_count
    assert (validity is None) == (null_count == 0)
    return array


def same(a, b):
    """Equality that tells the zeros apart and knows NaN."""
    if a is None or b is None:
        return a is b
    return struct.pack("d", a) == struct.pack("d", b)


def column(rng, runs, type_, values):
    lists = [[rng.choice(values) for _ in range(n)] for n in runs.lengths]
    arrays = [sliced_array(rng, items, type_) for items in lists]
    return arrays, [[lists[s][r] for s, r in group] for group in runs.groups]


def naive(function, groups):
    valid = [[value for value in group if value is not None] for group in groups]
    return [function(group) if group else None for group in valid]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("type_", INTEGERS, ids=str)
@pytest.mark.parametrize("nulls", [[], [None, None, None]])
def test_integers(seed, type_, nulls):
    rng = random.Random(seed)
    runs = random_runs(rng)
    arrays, groups = column(rng, runs, type_, [-1, 0, 1, 2, *nulls])
    assert folded(fold_sum(runs.plan, arrays), type_).to_pylist() == naive(sum, groups)
    limit = 2 ** (type_.bit_width - 1)
    arrays, groups = column(rng, runs, type_, [-limit, -7, 3, limit - 1, *nulls])
    assert folded(fold_min(runs.plan, arrays), type_).to_pylist() == naive(min, groups)
    assert folded(fold_max(runs.plan, arrays), type_).to_pylist() == naive(max, groups)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("type_", FLOATS, ids=str)
def test_floats(seed, type_):
    rng = random.Random(seed)
    runs = random_runs(rng)
    arrays, groups = column(rng, runs, type_, [0.5, -1.25, 3.0, None, 1024.0])
    assert folded(fold_sum(runs.plan, arrays), type_).to_pylist() == naive(sum, groups)
    odd = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, None]
    arrays, groups = column(rng, runs, type_, odd)
    least = naive(lambda group: min(group, key=java_order), groups)
    greatest = naive(lambda group: max(group, key=java_order), groups)
    got = folded(fold_min(runs.plan, arrays), type_).to_pylist()
    assert all(map(same, got, least))
    got = folded(fold_max(runs.plan, arrays), type_).to_pylist()
    assert all(map(same, got, greatest))


@pytest.mark.parametrize("values", [[-0.0, 0.0], [0.0, -0.0], [math.nan, 1.0], [1.0, math.nan]])
def test_order_of_zeros_and_nan(values):
    runs = merged_runs(random.Random(0), [[1, 1]])
    array = pa.array(values)
    least, greatest = sorted(values, key=java_order)
    assert same(folded(fold_min(runs.plan, [array]), pa.float64())[0].as_py(), least)
    assert same(folded(fold_max(runs.plan, [array]), pa.float64())[0].as_py(), greatest)


def test_floats_add_up_in_their_own_type():
    runs = merged_runs(random.Random(0), [[1] * 3])
    values = [2.0**24, 1.0, 1.0]
    total = folded(fold_sum(runs.plan, [pa.array(values, pa.float32())]), pa.float32())
    assert total.to_pylist() == [2.0**24]
    assert folded(fold_sum(runs.plan, [pa.array(values)]), pa.float64()).to_pylist() == [2**24 + 2]


def test_a_lone_negative_zero_keeps_its_sign():
    runs = merged_runs(random.Random(0), [[1]])
    total = folded(fold_sum(runs.plan, [pa.array([-0.0])]), pa.float64())
    assert same(total[0].as_py(), -0.0)


@pytest.mark.parametrize("type_", TIMES, ids=str)
def test_times_have_extremes_but_no_sum(type_):
    runs = merged_runs(random.Random(0), [[1, 1], [1, 2]])
    arrays = [pa.array([3, None], type_), pa.array([1, 2], type_)]
    expected = pa.array([1, 2], type_)
    assert folded(fold_min(runs.plan, arrays), type_).equals(expected)
    assert folded(fold_max(runs.plan, arrays), type_).equals(pa.array([3, 2], type_))
    with pytest.raises(TypeError, match="cannot fold"):
        fold_sum(runs.plan, arrays)


@pytest.mark.parametrize("seed", SEEDS)
def test_counts(seed):
    rng = random.Random(seed)
    runs = random_runs(rng)
    arrays, groups = column(rng, runs, pa.string(), ["a", None])
    counts = folded(fold_count(runs.plan, arrays), pa.int64()).to_pylist()
    assert counts == [sum(value is not None for value in group) for group in groups]


@pytest.mark.parametrize("type_", INTEGERS, ids=str)
@pytest.mark.parametrize("sign", [1, -1])
def test_an_overflow_names_the_group(type_, sign):
    runs = merged_runs(random.Random(0), [[1, 1, 2, 2]])
    limit = 2 ** (type_.bit_width - 1) - 1 if sign > 0 else -(2 ** (type_.bit_width - 1))
    fitting = pa.array([limit, 0, limit - sign, sign], type_)
    assert folded(fold_sum(runs.plan, [fitting]), type_).to_pylist() == [limit, limit]
    with pytest.raises(OverflowError, match="sum of group 1 "):
        fold_sum(runs.plan, [pa.array([limit, 0, limit, sign], type_)])


@pytest.mark.parametrize(
    "array",
    [pa.array(["a"]), pa.array([True]), pa.array([1], pa.uint8()), pa.array([[1]])],
)
def test_other_types_are_refused(array):
    plan = merged_runs(random.Random(0), [[1]]).plan
    for fold in (fold_sum, fold_min, fold_max):
        with pytest.raises(TypeError, match="cannot fold arrays of Arrow format"):
            fold(plan, [array])


def test_no_rows():
    plan = merged_runs(random.Random(0), [[]]).plan
    assert len(folded(fold_sum(plan, [pa.array([], pa.int64())]), pa.int64())) == 0


def test_short_arrays_are_refused():
    plan = merged_runs(random.Random(0), [[1, 2]]).plan
    for fold in (fold_sum, fold_min, fold_max, fold_count):
        with pytest.raises(ValueError, match="source 0 has 1 rows, but row 1 is selected"):
            fold(plan, [pa.array([1])])
