"""Plans made from plans, and flags on their rows, against lists of (source, row)."""

import random

import pyarrow as pa
import pytest

from lsmerge_native.gather import gather
from lsmerge_native.keys import encode_keys
from lsmerge_native.plan import plan_sorted
from lsmerge_native.reduce import all_rows, pick_first, pick_last, pick_last_valid
from lsmerge_native.regroup import (
    any_in_group,
    filter_groups,
    filter_rows,
    flagged_kinds,
    kinds_seen,
    order_rows,
    picked_rows,
    rows_after_last,
)
from lsmerge_native.sort import argsort
from tests.native.merged_runs import merged_runs, random_runs, sliced_array
from tests.native.test_plan import groups_of
from tests.native.test_reduce import picks

SEEDS = range(12)
WORDS = ["", "a", "customer-00017", "customer-00017-b", "customer-00018", "b"]


def random_flags(rng, count):
    """Flags of varying density; any byte but zero is a yes."""
    share = rng.choice([0.0, 0.1, 0.5, 0.9, 1.0])
    return bytes(rng.choice([1, 255]) if rng.random() < share else 0 for _ in range(count))


def by_group(groups, flags):
    """The flags of rows as one list per group."""
    items = iter(flags)
    return [[bool(next(items)) for _ in group] for group in groups]


def flat(lists):
    return bytes(flag for items in lists for flag in items)


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_are_dropped_and_groups_stay(seed):
    rng = random.Random(seed)
    plan = random_runs(rng).plan
    for _ in range(3):
        groups, keep = groups_of(plan), random_flags(rng, plan.num_rows)
        expected = [
            [entry for entry, kept in zip(group, flags, strict=True) if kept]
            for group, flags in zip(groups, by_group(groups, keep), strict=True)
        ]
        num_sources, plan = plan.num_sources, filter_rows(plan, keep)
        assert groups_of(plan) == expected
        assert plan.num_sources == num_sources
        assert picks(all_rows(plan)) == [entry for group in expected for entry in group]


@pytest.mark.parametrize("seed", SEEDS)
def test_groups_are_dropped_whole(seed):
    rng = random.Random(seed)
    plan = random_runs(rng).plan
    plan = filter_rows(plan, random_flags(rng, plan.num_rows))
    groups, keep = groups_of(plan), random_flags(rng, plan.num_groups)
    kept = filter_groups(plan, keep)
    assert groups_of(kept) == [group for group, flag in zip(groups, keep, strict=True) if flag]
    assert picks(pick_last(kept)) == [group[-1] if group else None for group in groups_of(kept)]


def test_a_plan_of_which_all_is_kept_is_not_copied():
    plan = merged_runs(random.Random(0), [[1, 2], [2, 3]]).plan
    assert filter_rows(plan, bytes([1] * 4)) is plan
    assert filter_groups(plan, bytes([7] * 3)) is plan


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_after_the_last_flag(seed):
    rng = random.Random(seed)
    runs = random_runs(rng)
    flags = random_flags(rng, runs.plan.num_rows)
    expected = [
        [not any(group[i:]) for i in range(len(group))] for group in by_group(runs.groups, flags)
    ]
    assert bytes(rows_after_last(runs.plan, flags)) == flat(expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_groups_with_a_flag(seed):
    rng = random.Random(seed)
    runs = random_runs(rng)
    flags = random_flags(rng, runs.plan.num_rows)
    expected = bytes(map(any, by_group(runs.groups, flags)))
    assert bytes(any_in_group(runs.plan, flags)) == expected


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("wanted", [0b0000, 0b0001, 0b0110, 0b1111])
def test_rows_of_some_kinds(seed, wanted):
    rng = random.Random(seed)
    runs = random_runs(rng)
    lists = [[rng.randrange(4) for _ in range(n)] for n in runs.lengths]
    kinds = [sliced_array(rng, items, pa.int8()) for items in lists]
    expected = bytes(wanted >> lists[source][row] & 1 for source, row in runs.entries())
    assert bytes(flagged_kinds(runs.plan, kinds, wanted)) == expected


def test_kinds_that_a_mask_has_no_bit_for_are_not_wanted():
    plan = merged_runs(random.Random(0), [[1, 2, 3, 4]]).plan
    kinds = pa.array([31, 32, -1, -128], pa.int8())
    assert bytes(flagged_kinds(plan, [kinds], 2**32 - 1)) == bytes([1, 0, 0, 0])


@pytest.mark.parametrize("seed", SEEDS)
def test_the_kinds_that_rows_have(seed):
    rng = random.Random(seed)
    runs = random_runs(rng)
    codes = rng.choice([[0], [0, 2], [0, 1, 2, 3], [3, 31, 32, 127, -1]])
    kinds = [sliced_array(rng, rng.choices(codes, k=n), pa.int8()) for n in runs.lengths]
    keep = random_flags(rng, runs.plan.num_rows)
    plan = filter_rows(runs.plan, keep)
    found = {kinds[source][row].as_py() for group in groups_of(plan) for source, row in group}
    assert kinds_seen(plan, kinds) == sum(1 << kind for kind in found if 0 <= kind < 32)


@pytest.mark.parametrize("seed", SEEDS)
def test_picked_rows(seed):
    rng = random.Random(seed)
    runs = random_runs(rng)
    plan = runs.plan
    lists = [[rng.choice([None, None, 1]) for _ in range(n)] for n in runs.lengths]
    values = [sliced_array(rng, items, pa.int64()) for items in lists]
    selections = [pick_first(plan), pick_last_valid(plan, values)]
    for chosen in ([], selections[:1], selections[1:], selections):
        picked = {entry for selection in chosen for entry in picks(selection) if entry is not None}
        expected = bytes(entry in picked for entry in runs.entries())
        assert bytes(picked_rows(plan, chosen)) == expected


def test_the_row_that_a_null_pick_names_is_not_picked():
    plan = merged_runs(random.Random(0), [[1, 1, 2]]).plan
    nothing = pick_last_valid(plan, [pa.nulls(3, pa.int64())])
    assert bytes(picked_rows(plan, [nothing])) == bytes(3)


# ---- order ----


def order_keys(rng, runs, kind):
    """Keys of each source and what they encode."""
    draw = {
        "words": lambda: rng.choice(WORDS),
        "numbers": lambda: rng.choice([None, *range(5)]),
        "u64": lambda: rng.randrange(-3, 3),
        "equal": lambda: 0,
    }[kind]
    type_ = pa.string() if kind == "words" else pa.int64()
    lists = [[draw() for _ in range(n)] for n in runs.lengths]
    nullable = [kind == "numbers"]
    keys = [encode_keys([sliced_array(rng, items, type_)], nullable=nullable) for items in lists]
    return keys, lists


def nulls_first(value):
    return (value is not None, value)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["words", "numbers", "u64", "equal"])
def test_rows_are_ordered_in_their_groups(seed, kind):
    rng = random.Random(seed)
    runs = random_runs(rng)
    plan = filter_rows(runs.plan, random_flags(rng, runs.plan.num_rows))
    keys, lists = order_keys(rng, runs, kind)
    expected = [
        sorted(group, key=lambda entry: nulls_first(lists[entry[0]][entry[1]]))
        for group in groups_of(plan)
    ]
    ordered = order_rows(plan, keys)
    assert groups_of(ordered) == expected
    assert order_rows(ordered, keys) is ordered
    assert picks(pick_last(ordered)) == [group[-1] if group else None for group in expected]


@pytest.mark.parametrize(
    "values", [range(500), range(500, 0, -1), [i * 7 % 10 for i in range(500)]]
)
def test_large_groups_are_ordered(values):
    values = list(values)
    plan = merged_runs(random.Random(0), [[0], [1] * len(values), [2]]).plan
    keys = [encode_keys([pa.array(items, pa.int64())]) for items in ([0], values, [0])]
    ordered = sorted(range(len(values)), key=values.__getitem__)
    expected = [[(0, 0)], [(1, row) for row in ordered], [(2, 0)]]
    assert groups_of(order_rows(plan, keys)) == expected


# ---- empty groups ----


def test_the_pick_of_an_empty_group_is_null():
    plan = merged_runs(random.Random(0), [[], [1, 2], [2, 3]]).plan
    emptied = filter_rows(plan, bytes([0, 1, 1, 0]))
    for pick in (pick_first, pick_last):
        selection = pick(emptied)
        assert [entry is None for entry in picks(selection)] == [True, False, True]
        null_count, (validity, data) = gather(
            [pa.array([], pa.int64()), pa.array([10, 20]), pa.array([21, 30])], selection
        )
        array = pa.Array.from_buffers(
            pa.int64(), 3, [pa.py_buffer(validity), pa.py_buffer(data)], null_count
        )
        assert array.is_null().to_pylist() == [True, False, True]
    assert bytes(any_in_group(emptied, bytes([0, 1]))) == bytes([0, 1, 0])


def test_a_plan_of_empty_groups_only():
    plan = merged_runs(random.Random(0), [[], [1, 2]]).plan
    emptied = filter_rows(plan, bytes(2))
    assert groups_of(emptied) == [[], []]
    assert picks(pick_last(emptied)) == [None, None]
    strings = [pa.array([], pa.string()), pa.array(["a", "b"])]
    assert gather(strings, pick_last(emptied))[0] == 2
    assert picks(pick_last_valid(emptied, strings)) == [None, None]
    assert groups_of(filter_groups(emptied, bytes([0, 1]))) == [[]]
    assert groups_of(filter_groups(emptied, bytes(2))) == []


def test_as_many_rows_as_groups_though_one_is_empty():
    plan = filter_rows(merged_runs(random.Random(0), [[1, 2, 2]]).plan, bytes([0, 1, 1]))
    assert plan.num_rows == plan.num_groups
    assert picks(pick_last(plan)) == [None, (0, 2)]


def test_no_rows():
    plan = plan_sorted(encode_keys([pa.array([], pa.int64())]), b"")
    assert groups_of(filter_rows(plan, b"")) == []
    assert groups_of(filter_groups(plan, b"")) == []
    assert bytes(rows_after_last(plan, b"")) == b""
    assert bytes(any_in_group(plan, b"")) == b""


# ---- refusals ----


def test_flags_must_match_the_plan():
    plan = merged_runs(random.Random(0), [[1, 2, 2]]).plan
    for function in (filter_rows, rows_after_last, any_in_group):
        with pytest.raises(ValueError, match="2 flags for 3 rows"):
            function(plan, bytes(2))
    with pytest.raises(ValueError, match="keep: 3 flags for 2 groups"):
        filter_groups(plan, bytes(3))


def test_kinds_must_be_int8_without_nulls():
    plan = merged_runs(random.Random(0), [[1]]).plan
    with pytest.raises(TypeError, match="kinds: Arrow format 'c' is needed, got 'l'"):
        flagged_kinds(plan, [pa.array([0])], 1)
    with pytest.raises(ValueError, match="kinds: a row without a value"):
        flagged_kinds(plan, [pa.nulls(1, pa.int8())], 1)
    with pytest.raises(ValueError, match="kinds: source 0 has 0 rows where 1 are needed"):
        flagged_kinds(plan, [pa.array([], pa.int8())], 1)


def test_picks_must_be_one_per_group():
    plan = merged_runs(random.Random(0), [[1, 1]]).plan
    with pytest.raises(ValueError, match="2 picks for 1 groups"):
        picked_rows(plan, [all_rows(plan)])


def test_order_keys_must_match_the_plan():
    keys = encode_keys([pa.array([1, 2])])
    plan = plan_sorted(keys, argsort(keys))
    with pytest.raises(ValueError, match="order: 2 keys for 1 sources"):
        order_rows(plan, [keys, keys])
    with pytest.raises(ValueError, match="order: source 0 has 1 keys where 2 are needed"):
        order_rows(plan, [keys.slice(0, 1)])
    with pytest.raises(TypeError, match="order: expected Keys, got Int64Array"):
        order_rows(plan, [pa.array([1, 2])])
    two = merged_runs(random.Random(0), [[1], [1]]).plan
    with pytest.raises(ValueError, match="order of source 1: keys of kind u64"):
        order_rows(two, [keys, encode_keys([pa.array(["a"])])])
