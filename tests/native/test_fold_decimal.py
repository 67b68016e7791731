"""Sums and products of decimals against Python's decimal module, with room to be exact."""

import decimal
import random
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsmerge_native.fold import FoldDivisionError, FoldOverflowError, fold_product, fold_sum
from tests.native.merged_runs import merged_runs, random_runs
from tests.native.test_fold import check_combined, combined, folded, naive_combine, operands

SEEDS = range(12)
TYPES = [pa.decimal128(5, 2), pa.decimal128(18, 0), pa.decimal128(38, 18), pa.decimal128(38, 38)]
EXACT = decimal.Context(prec=400)


def decimal_step(operation, type_):
    """Combine two decimals exactly, then round half-up to the scale and look at the precision."""
    quantum = Decimal(1).scaleb(-type_.scale)
    limit = Decimal(10) ** (type_.precision - type_.scale)

    def rounded(numerator, denominator):
        # In integers, as a quotient has no exact decimal.
        top = EXACT.divide_int(EXACT.scaleb(numerator, 2 * type_.scale), 1)
        bottom = EXACT.divide_int(EXACT.scaleb(denominator, type_.scale), 1)
        units = (2 * abs(int(top)) + abs(int(bottom))) // (2 * abs(int(bottom)))
        return EXACT.scaleb(Decimal(-units if (top < 0) != (bottom < 0) else units), -type_.scale)

    def step(total, value, is_retract):
        if operation is fold_sum:
            result = EXACT.subtract(total, value) if is_retract else EXACT.add(total, value)
        elif is_retract:
            result = rounded(total, value)
        else:
            result = rounded(EXACT.multiply(total, value), Decimal(1))
        return EXACT.quantize(result, quantum), EXACT.abs(result) < limit

    return step


def drawn_values(rng, type_):
    """Values of all magnitudes, and the ends of the type."""
    most = 10**type_.precision - 1
    units = [most, -most, 1, -1, 10**type_.scale, -2 * 10**type_.scale]
    units += [rng.randrange(-(10 ** rng.randrange(1, type_.precision)), most) for _ in range(3)]
    return [EXACT.scaleb(Decimal(unit), -type_.scale) for unit in units if abs(unit) <= most]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("fold", [fold_sum, fold_product])
@pytest.mark.parametrize("on_overflow", ["error", "null"])
def test_decimals(seed, type_, fold, on_overflow):
    rng = random.Random(seed)
    runs = random_runs(rng)
    arrays, kinds, groups = operands(rng, runs, type_, [*drawn_values(rng, type_), None])
    start_retract = Decimal(0) if fold is fold_sum else None
    step = decimal_step(fold, type_)
    for given_kinds in (kinds, None):
        rows = groups if given_kinds else [[(v, False) for v, _ in group] for group in groups]
        expected = [naive_combine(group, step, on_overflow, start_retract) for group in rows]
        options = {"kinds": given_kinds, "on_overflow": on_overflow}
        check_combined(fold, runs, arrays, expected, type_, **options)


@st.composite
def pairs(draw):
    """A decimal type, two values of it, and what to do with them."""
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    most = 10**precision - 1
    digits = st.integers(0, precision).flatmap(lambda n: st.integers(-(10**n), 10**n))
    units = [max(-most, min(most, draw(digits))) for _ in range(2)]
    values = [EXACT.scaleb(Decimal(unit), -scale) for unit in units]
    return pa.decimal128(precision, scale), values, draw(st.booleans())


@settings(max_examples=400, deadline=None)
@given(pairs())
def test_products_and_quotients_of_two(case):
    type_, values, is_retract = case
    rows = [(values[0], False), (values[1], is_retract)]
    expected = naive_combine(rows, decimal_step(fold_product, type_), "null", None)
    kinds = [0, 3 if is_retract else 0]
    if expected == "division":
        with pytest.raises(FoldDivisionError, match="product of group 0 is divided by zero"):
            combined(fold_product, values, kinds, type_)
    else:
        assert combined(fold_product, values, kinds, type_, on_overflow="null") == expected


def test_ties_are_rounded_away_from_zero():
    type_ = pa.decimal128(5, 1)
    for sign in (1, -1):
        values = [Decimal("0.5") * sign, Decimal("0.5")]
        assert combined(fold_product, values, [0, 0], type_) == Decimal("0.3") * sign
        values = [Decimal("0.1") * sign, Decimal("2.0")]
        assert combined(fold_product, values, [0, 1], type_) == Decimal("0.1") * sign


def test_the_precision_is_that_of_the_arrays_unless_given():
    plan = merged_runs(random.Random(0), [[1, 1]]).plan
    arrays = [pa.array([Decimal("99.9"), Decimal("0.1")], pa.decimal128(5, 1))]
    assert folded(fold_sum(plan, arrays), pa.decimal128(5, 1)).to_pylist() == [Decimal("100.0")]
    with pytest.raises(FoldOverflowError, match=r"sum of group 0 does not fit .* 'd:5,1'"):
        fold_sum(plan, arrays, precision=3)
    with pytest.raises(ValueError, match="cannot have precision 39 and scale 1"):
        fold_sum(plan, arrays, precision=39)
    with pytest.raises(ValueError, match="cannot have precision 5 and scale 6"):
        fold_product(plan, arrays, scale=6)


def test_decimals_do_not_wrap():
    plan = merged_runs(random.Random(0), [[1]]).plan
    with pytest.raises(ValueError, match="on_overflow='wrap' is for integers"):
        fold_sum(plan, [pa.array([Decimal(1)])], on_overflow="wrap")


def test_wider_decimals_are_refused():
    plan = merged_runs(random.Random(0), [[1]]).plan
    with pytest.raises(TypeError, match="cannot fold arrays of Arrow format 'd:40,2,256'"):
        fold_sum(plan, [pa.array([Decimal(1)], pa.decimal256(40, 2))])
