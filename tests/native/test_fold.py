"""Fold reducers against Python's sum, min, max and len, and a naive twin with retracts."""

import math
import random
import struct

import pyarrow as pa
import pytest

from lsmerge_native.fold import (
    FoldDivisionError,
    FoldError,
    FoldOverflowError,
    fold_product,
    fold_sum,
)
from lsmerge_native.regroup import filter_rows
from tests.native.merged_runs import merged_runs, random_runs, sliced_array

SEEDS = range(12)
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
FLOATS = [pa.float32(), pa.float64()]
TIMES = [
    *(pa.date32(), pa.time32("s"), pa.time64("ns")),
    *(pa.timestamp("ms"), pa.timestamp("us", "UTC")),
]


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


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("type_", FLOATS, ids=str)
def test_floats(seed, type_):
    rng = random.Random(seed)
    runs = random_runs(rng)
    arrays, groups = column(rng, runs, type_, [0.5, -1.25, 3.0, None, 1024.0])
    assert folded(fold_sum(runs.plan, arrays), type_).to_pylist() == naive(sum, groups)


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
def test_times_have_no_sum(type_):
    runs = merged_runs(random.Random(0), [[1, 1], [1, 2]])
    with pytest.raises(TypeError, match="cannot fold"):
        fold_sum(runs.plan, [pa.array([3, None], type_), pa.array([1, 2], type_)])


@pytest.mark.parametrize("type_", INTEGERS, ids=str)
@pytest.mark.parametrize("sign", [1, -1])
def test_an_overflow_names_the_group(type_, sign):
    runs = merged_runs(random.Random(0), [[1, 1, 2, 2]])
    limit = 2 ** (type_.bit_width - 1) - 1 if sign > 0 else -(2 ** (type_.bit_width - 1))
    fitting = pa.array([limit, 0, limit - sign, sign], type_)
    assert folded(fold_sum(runs.plan, [fitting]), type_).to_pylist() == [limit, limit]
    with pytest.raises(OverflowError, match="sum of group 1 "):
        fold_sum(runs.plan, [pa.array([limit, 0, limit, sign], type_)])


# ---- retracts ----


def naive_combine(operands, step, on_overflow, start_retract):
    """Fold (value, is_retract) from null. `step` returns (result, fits); a failure is a string."""
    total = None
    for value, is_retract in operands:
        if value is None or (total is None and is_retract and start_retract is None):
            continue
        if total is None and not is_retract:
            total = value
            continue
        if is_retract and value == 0 and start_retract is None:
            return "division"
        total, fits = step(start_retract if total is None else total, value, is_retract)
        if not fits and on_overflow == "error":
            return "overflow"
        if not fits and on_overflow == "null":
            total = None
    return total


def naive_sum(operands, type_, on_overflow):
    """The exact total of (value, is_retract), which alone must fit the type."""
    given = [-value if is_retract else value for value, is_retract in operands if value is not None]
    half = 2 ** (type_.bit_width - 1)
    total = sum(given)
    if not given or -half <= total < half:
        return total if given else None
    wrapped = (total + half) % (2 * half) - half
    return {"error": "overflow", "wrap": wrapped, "null": None}[on_overflow]


def product_step(type_):
    """Combine two integers and wrap the result into the type."""
    half = 2 ** (type_.bit_width - 1)

    def step(total, value, is_retract):
        quotient_sign = 1 if (total < 0) == (value < 0) else -1
        exact = abs(total) // abs(value) * quotient_sign if is_retract else total * value
        return (exact + half) % (2 * half) - half, -half <= exact < half

    return step


def operands(rng, runs, type_, values, kinds=(0, 1, 2, 3)):
    """Arrays of values and of kinds, and per group the (value, is_retract) of its rows."""
    value_lists = [[rng.choice(values) for _ in range(n)] for n in runs.lengths]
    kind_lists = [[rng.choice(kinds) for _ in range(n)] for n in runs.lengths]
    arrays = [sliced_array(rng, items, type_) for items in value_lists]
    kind_arrays = [sliced_array(rng, items, pa.int8()) for items in kind_lists]
    groups = [
        [(value_lists[s][r], bool(kind_lists[s][r] & 1)) for s, r in group] for group in runs.groups
    ]
    return arrays, kind_arrays, groups


def check_combined(fold, runs, arrays, expected, type_, **options):
    """`expected` has a value, None or the name of a failure for each group."""
    failed = [value in ("overflow", "division") for value in expected]
    if not any(failed):
        assert folded(fold(runs.plan, arrays, **options), type_).to_pylist() == expected
        return
    group = failed.index(True)
    error = FoldOverflowError if expected[group] == "overflow" else FoldDivisionError
    with pytest.raises(error, match=f" of group {group} ") as raised:
        fold(runs.plan, arrays, **options)
    assert raised.value.group == group
    assert [flag != 0 for flag in bytes(raised.value.failed)] == failed


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("type_", INTEGERS, ids=str)
@pytest.mark.parametrize("fold", [fold_sum, fold_product])
@pytest.mark.parametrize("on_overflow", ["error", "wrap", "null"])
def test_integers_with_retracts(seed, type_, fold, on_overflow):
    rng = random.Random(seed)
    runs = random_runs(rng)
    limit = 2 ** (type_.bit_width - 1)
    for values in ([-1, 1, 2, None], [-limit, limit - 1, limit // 2, -1, 1, 3, None], [0, 1, 5]):
        arrays, kinds, groups = operands(rng, runs, type_, values)
        if fold is fold_sum:
            expected = [naive_sum(group, type_, on_overflow) for group in groups]
        else:
            step = product_step(type_)
            expected = [naive_combine(group, step, on_overflow, None) for group in groups]
        options = {"kinds": kinds, "on_overflow": on_overflow}
        check_combined(fold, runs, arrays, expected, type_, **options)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("type_", FLOATS, ids=str)
def test_floats_with_retracts(seed, type_):
    rng = random.Random(seed)
    runs = random_runs(rng)
    arrays, kinds, groups = operands(rng, runs, type_, [0.5, -1.25, 3.0, None, 1024.0])
    expected = naive(sum, [[v if v is None or not r else -v for v, r in group] for group in groups])
    assert folded(fold_sum(runs.plan, arrays, kinds=kinds), type_).to_pylist() == expected
    arrays, kinds, groups = operands(rng, runs, type_, [0.5, -1.0, 2.0, None, -4.0])

    def step(total, value, is_retract):
        return (total / value if is_retract else total * value), True

    expected = [naive_combine(group, step, "error", None) for group in groups]
    assert folded(fold_product(runs.plan, arrays, kinds=kinds), type_).to_pylist() == expected


def combined(fold, values, kinds, type_, **options):
    """One group of one source."""
    plan = merged_runs(random.Random(0), [[1] * len(values)]).plan
    arrays = [pa.array(values, type_)]
    result = fold(plan, arrays, kinds=[pa.array(kinds, pa.int8())], **options)
    return folded(result, type_)[0].as_py()


def test_a_retract_that_comes_first():
    assert combined(fold_sum, [3], [3], pa.int8()) == -3
    assert same(combined(fold_sum, [0.0], [1], pa.float64()), -0.0)
    assert same(combined(fold_sum, [-0.0], [1], pa.float64()), 0.0)
    assert combined(fold_product, [3, 5], [3, 0], pa.int8()) == 5
    assert combined(fold_product, [0], [3], pa.int8()) is None
    with pytest.raises(FoldOverflowError):
        combined(fold_sum, [-128], [3], pa.int8())
    assert combined(fold_sum, [-128], [3], pa.int8(), on_overflow="wrap") == -128
    assert combined(fold_sum, [-128, 7], [3, 0], pa.int8(), on_overflow="null") is None


def test_only_the_end_of_an_integer_sum_must_fit():
    assert combined(fold_sum, [100, 50, -100], [0, 0, 0], pa.int8()) == 50
    assert combined(fold_sum, [2**63 - 1, 1, 1], [0, 0, 1], pa.int64()) == 2**63 - 1


def test_floats_neither_overflow_nor_fail():
    assert combined(fold_product, [1e300, 1e300], [0, 0], pa.float64()) == math.inf
    assert combined(fold_product, [-1.0, 0.0], [0, 1], pa.float64()) == -math.inf


def test_the_least_integer_has_no_negative():
    least = -(2**63)
    for on_overflow, expected in (("wrap", least), ("null", None)):
        options = {"on_overflow": on_overflow}
        assert combined(fold_product, [least, -1], [0, 1], pa.int64(), **options) == expected
    with pytest.raises(FoldOverflowError, match="product of group 0 "):
        combined(fold_product, [least, -1], [0, 1], pa.int64())


def test_failures_are_arithmetic_errors_of_python():
    assert issubclass(FoldOverflowError, OverflowError)
    assert issubclass(FoldDivisionError, ZeroDivisionError)
    assert issubclass(FoldError, ArithmeticError)


def test_empty_groups_fold_to_null():
    plan = filter_rows(merged_runs(random.Random(0), [[1, 2, 2, 3]]).plan, bytes([0, 1, 1, 0]))
    arrays = [pa.array([1, 2, 3, 4])]
    for fold, expected in ((fold_sum, 5), (fold_product, 6)):
        assert folded(fold(plan, arrays), pa.int64()).to_pylist() == [None, expected, None]


# ---- refusals ----


def test_unknown_overflow_rules_are_refused():
    plan = merged_runs(random.Random(0), [[1]]).plan
    with pytest.raises(ValueError, match="on_overflow is 'ignore', but must be one of error, wrap"):
        fold_sum(plan, [pa.array([1])], on_overflow="ignore")


def test_kinds_must_fit_the_plan():
    plan = merged_runs(random.Random(0), [[1, 2]]).plan
    for fold in (fold_sum, fold_product):
        with pytest.raises(ValueError, match="kinds: source 0 has 1 rows where 2 are needed"):
            fold(plan, [pa.array([1, 2])], kinds=[pa.array([0], pa.int8())])


@pytest.mark.parametrize(
    "array",
    [pa.array(["a"]), pa.array([True]), pa.array([1], pa.uint8()), pa.array([[1]])],
)
def test_other_types_are_refused(array):
    plan = merged_runs(random.Random(0), [[1]]).plan
    for fold in (fold_sum, fold_product):
        with pytest.raises(TypeError, match="cannot fold arrays of Arrow format"):
            fold(plan, [array])


def test_no_rows():
    plan = merged_runs(random.Random(0), [[]]).plan
    assert len(folded(fold_sum(plan, [pa.array([], pa.int64())]), pa.int64())) == 0


def test_short_arrays_are_refused():
    plan = merged_runs(random.Random(0), [[1, 2]]).plan
    for fold in (fold_sum, fold_product):
        with pytest.raises(ValueError, match="source 0 has 1 rows where 2 are needed"):
            fold(plan, [pa.array([1])])
