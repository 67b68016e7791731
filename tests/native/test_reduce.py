"""Pick reducers and row filters against lists of (source, row)."""

import random

import pyarrow as pa
import pytest

from lsmerge_native.keys import encode_keys
from lsmerge_native.reduce import (
    Selection,
    all_rows,
    keep_adds,
    keep_newer,
    pick_first,
    pick_first_valid,
    pick_greatest,
    pick_last,
    pick_last_valid,
    pick_least,
)
from lsmerge_native.regroup import filter_rows
from tests.native.merged_runs import blocky_runs, merged_runs, random_runs, sliced_array

SEEDS = range(12)


def picks(selection):
    """The selection as a list of (source, row), None for a null pick."""
    sources = memoryview(selection.sources).cast("H").tolist()
    rows = memoryview(selection.rows).cast("I").tolist()
    entries = list(zip(sources, rows, strict=True))
    assert len(selection) == len(entries)
    if selection.validity is None:
        assert selection.null_count == 0
        return entries
    bitmap = int.from_bytes(bytes(selection.validity), "little")
    assert bitmap >> len(entries) == 0
    nulls = [i for i in range(len(entries)) if not bitmap >> i & 1]
    assert selection.null_count == len(nulls) > 0
    return [None if i in nulls else entry for i, entry in enumerate(entries)]


def columns(rng, runs, values, type_):
    """One array per source, of values drawn from `values`, and the same as lists."""
    lists = [[rng.choice(values) for _ in range(n)] for n in runs.lengths]
    return [sliced_array(rng, items, type_) for items in lists], lists


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("make", [random_runs, blocky_runs])
def test_ends_of_groups_and_all_rows(seed, make):
    runs = make(random.Random(seed))
    assert picks(pick_last(runs.plan)) == [group[-1] for group in runs.groups]
    assert picks(pick_first(runs.plan)) == [group[0] for group in runs.groups]
    assert picks(all_rows(runs.plan)) == runs.entries()
    assert all_rows(runs.plan).num_sources == len(runs.lengths)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("values", [[1], [None, 1], [None, None, None, None, 1], [None]])
def test_ends_that_are_not_null(seed, values):
    rng = random.Random(seed)
    runs = random_runs(rng)
    arrays, lists = columns(rng, runs, values, pa.int64())
    valid = [[(s, r) for s, r in group if lists[s][r] is not None] for group in runs.groups]
    assert picks(pick_last_valid(runs.plan, arrays)) == [g[-1] if g else None for g in valid]
    assert picks(pick_first_valid(runs.plan, arrays)) == [g[0] if g else None for g in valid]


def test_a_null_pick_still_names_a_row_of_its_group():
    runs = merged_runs(random.Random(0), [[1, 2], [2, 3]])
    selection = pick_last_valid(runs.plan, [pa.nulls(2, pa.string())] * 2)
    assert picks(selection) == [None] * 3
    rows = memoryview(selection.rows).cast("I").tolist()
    sources = memoryview(selection.sources).cast("H").tolist()
    assert all(e in g for e, g in zip(zip(sources, rows, strict=True), runs.groups, strict=True))


def test_only_the_nulls_of_nested_arrays_matter():
    runs = merged_runs(random.Random(0), [[1, 2]])
    array = pa.array([None, [1]])
    assert picks(pick_last_valid(runs.plan, [array])) == [None, (0, 1)]


WORDS = ["", "a", "customer-00017", "customer-00017-b", "customer-00018"]
EXTREMES = {
    "int64": (pa.int64(), [-5, 0, 7, 2**40]),
    "int8, nulls": (pa.int8(), [-5, 0, 7, None, None]),
    "string": (pa.string(), [*WORDS, None]),
    "bool": (pa.bool_(), [True, False, None]),
    "null": (pa.int32(), [None]),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", EXTREMES)
def test_extremes_of_keys(seed, case):
    rng = random.Random(seed)
    runs = random_runs(rng)
    type_, values = EXTREMES[case]
    arrays, lists = columns(rng, runs, values, type_)
    nullable = [None in values]
    keys = [encode_keys([array], nullable=nullable) for array in arrays]

    def value(entry):
        return lists[entry[0]][entry[1]]

    valid = [[entry for entry in group if value(entry) is not None] for group in runs.groups]
    greatest = [max(group, key=value, default=None) for group in valid]
    least = [min(group, key=value, default=None) for group in valid]
    assert picks(pick_greatest(runs.plan, keys, arrays)) == greatest
    assert picks(pick_least(runs.plan, keys, arrays)) == least


def test_the_key_decides_and_the_value_need_only_be_there():
    plan = merged_runs(random.Random(0), [[1, 1, 1, 1]]).plan
    keys = [encode_keys([pa.array([5, 9, 9, 5])])]
    values = [pa.array(["a", None, "b", "c"])]
    assert picks(pick_greatest(plan, keys, values)) == [(0, 2)]
    assert picks(pick_least(plan, keys, values)) == [(0, 0)]


def test_keys_that_do_not_match_the_plan_are_refused():
    plan = merged_runs(random.Random(0), [[1, 2], [2, 3]]).plan
    values = [pa.array([1, 2])] * 2
    keys = encode_keys([pa.array([1, 2])])
    with pytest.raises(ValueError, match="keys: 1 keys for 2 sources"):
        pick_greatest(plan, [keys], values)
    with pytest.raises(ValueError, match="keys: source 1 has 1 keys where 2 are needed"):
        pick_least(plan, [keys, keys.slice(0, 1)], values)


@pytest.mark.parametrize("seed", SEEDS)
def test_empty_groups_give_null_picks(seed):
    rng = random.Random(seed)
    runs = random_runs(rng)
    keep = bytes(rng.randrange(2) for _ in runs.entries())
    kept = {entry for entry, flag in zip(runs.entries(), keep, strict=True) if flag}
    groups = [[entry for entry in group if entry in kept] for group in runs.groups]
    plan = filter_rows(runs.plan, keep)
    arrays, lists = columns(rng, runs, [1, 2, None], pa.int64())
    keys = [encode_keys([array], nullable=[True]) for array in arrays]
    valid = [[(s, r) for s, r in group if lists[s][r] is not None] for group in groups]
    greatest = [max(g, key=lambda e: lists[e[0]][e[1]], default=None) for g in valid]
    assert picks(pick_last(plan)) == [g[-1] if g else None for g in groups]
    assert picks(pick_first(plan)) == [g[0] if g else None for g in groups]
    assert picks(pick_last_valid(plan, arrays)) == [g[-1] if g else None for g in valid]
    assert picks(pick_greatest(plan, keys, arrays)) == greatest


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kinds", [[0], [0, 1, 2, 3], [1, 3]])
def test_retracts_are_dropped(seed, kinds):
    rng = random.Random(seed)
    runs = random_runs(rng)
    arrays, lists = columns(rng, runs, kinds, pa.int8())
    selection = all_rows(runs.plan)
    expected = [(s, r) for s, r in runs.entries() if lists[s][r] in (0, 2)]
    assert picks(keep_adds(selection, arrays)) == expected
    assert picks(selection) == runs.entries()


@pytest.mark.parametrize("seed", SEEDS)
def test_old_retracts_are_dropped(seed):
    rng = random.Random(seed)
    runs = random_runs(rng)
    arrays, lists = columns(rng, runs, [0, 1, 2, 3], pa.int8())
    horizon = rng.randrange(sum(runs.lengths) + 1)
    expected = [
        (s, r) for s, r in runs.entries() if lists[s][r] in (0, 2) or runs.sequence(s, r) >= horizon
    ]
    kept = keep_newer(all_rows(runs.plan), arrays, runs.sequences, horizon)
    assert picks(kept) == expected


def test_a_retract_at_the_horizon_stays():
    runs = merged_runs(random.Random(0), [[1], [2]])
    kinds = [pa.array([3], pa.int8())] * 2
    sequences = [(pa.array([5], pa.int64()), 100), (pa.array([4], pa.int64()), 100)]
    kept = keep_newer(all_rows(runs.plan), kinds, sequences, 105)
    assert picks(kept) == [(0, 0)]


def test_filters_follow_each_other():
    runs = merged_runs(random.Random(0), [[1, 2, 3, 4]])
    first = keep_adds(pick_last(runs.plan), [pa.array([0, 1, 0, 0], pa.int8())])
    second = keep_adds(first, [pa.array([1, 0, 0, 2], pa.int8())])
    assert picks(second) == [(0, 2), (0, 3)]


def test_only_reducers_make_selections():
    with pytest.raises(TypeError, match="made by a reducer"):
        Selection()


def test_arrays_that_do_not_match_the_plan_are_refused():
    plan = merged_runs(random.Random(0), [[1, 2], [2, 3]]).plan
    kinds = pa.array([0, 0], pa.int8())
    with pytest.raises(ValueError, match="kinds: 1 arrays for 2 sources"):
        keep_adds(all_rows(plan), [kinds])
    with pytest.raises(ValueError, match="kinds: source 1 has 1 rows where 2 are needed"):
        keep_adds(all_rows(plan), [kinds, kinds[:1]])
    with pytest.raises(ValueError, match="arrays: source 0 has 0 rows"):
        pick_last_valid(plan, [kinds[:0], kinds])
    with pytest.raises(TypeError, match="source 1 has Arrow format 'l', source 0 has 'c'"):
        pick_last_valid(plan, [kinds, pa.array([1, 2])])


def test_system_columns_have_one_type_and_no_nulls():
    plan = merged_runs(random.Random(0), [[1, 2]]).plan
    kinds = [pa.array([0, 0], pa.int8())]
    with pytest.raises(TypeError, match="kinds: Arrow format 'c' is needed, got 'l'"):
        keep_adds(all_rows(plan), [pa.array([0, 0])])
    with pytest.raises(TypeError, match="sequences: Arrow format 'l' is needed, got 'i'"):
        keep_newer(all_rows(plan), kinds, [(pa.array([0, 0], pa.int32()), 0)], 1)
    with pytest.raises(ValueError, match="kinds: a row without a value"):
        keep_adds(all_rows(plan), [pa.array([0, None], pa.int8())])


def test_null_picks_can_not_be_filtered():
    plan = merged_runs(random.Random(0), [[1, 2]]).plan
    selection = pick_last_valid(plan, [pa.nulls(2, pa.int64())])
    with pytest.raises(ValueError, match="a row without a value"):
        keep_adds(selection, [pa.array([0, 0], pa.int8())])
