"""Plans of long runs that interleave, merged in lanes, against sorting all rows in Python."""

import random

import pyarrow as pa
import pytest

from lsmerge_native.keys import encode_keys
from lsmerge_native.plan import merge_runs
from tests.native.test_plan import Run, cut, groups_of, merge, naive_merge

ROWS = 9_000
AGE = 10**6

KEYS = {
    "unique": (pa.int64(), lambda rng: rng.randrange(-(2**63), 2**63 - 1)),
    "shared": (pa.int32(), lambda rng: rng.randrange(-2000, 2000)),
    "few": (pa.int8(), lambda rng: rng.randrange(-3, 3)),
    "one": (pa.int64(), lambda _: 0),
    "least and greatest": (pa.int64(), lambda rng: rng.choice([-(2**63), 2**63 - 1])),
    "two columns": (pa.int16(), lambda rng: rng.randrange(-(2**15), 2**15)),
}


def runs_by_age(rng, count, make_key):
    """Runs of which the later is the younger, or the other way round; the first is longest."""
    lengths = [ROWS // 2, *(ROWS // 2 // max(1, count - 1) for _ in range(count - 1))]
    ages = rng.sample(range(count), count)
    return [
        Run([(make_key(rng), 0, s) for s in range(length)], AGE * age)
        for length, age in zip(lengths, ages, strict=True)
    ]


@pytest.mark.parametrize("count", [2, 3, 4, 6, 9, 32, 33])
@pytest.mark.parametrize("name", KEYS)
def test_merge(name, count):
    type_, make_key = KEYS[name]
    runs = runs_by_age(random.Random(f"{name} {count}"), count, make_key)
    assert groups_of(merge(runs, type_, with_orders=False)) == naive_merge(runs)


@pytest.mark.parametrize("count", [2, 5, 20])
@pytest.mark.parametrize("name", KEYS)
def test_runs_in_several_sources(name, count):
    type_, make_key = KEYS[name]
    rng = random.Random(f"{name} {count}")
    runs = [cut(rng, run, 6) for run in runs_by_age(rng, count, make_key)]
    sources = [source for run in runs for source in run]
    plan = merge_runs(
        [source.keys(type_) for source in sources],
        None,
        [source.sequences() for source in sources],
        [number > 0 for run in runs for number in range(len(run))],
    )
    assert groups_of(plan) == naive_merge(sources)


@pytest.mark.parametrize("orders", [False, True])
@pytest.mark.parametrize("count", [2, 5, 33])
@pytest.mark.parametrize("name", KEYS)
def test_runs_from_old_to_new_need_no_sequences(name, count, orders):
    type_, make_key = KEYS[name]
    runs = runs_by_age(random.Random(f"{name} {count}"), count, make_key)
    runs.sort(key=lambda run: run.base)
    keys = [run.keys(type_) for run in runs]
    order_keys = [encode_keys([pa.repeat(7, len(run))]) for run in keys] if orders else None
    assert groups_of(merge_runs(keys, order_keys, None)) == naive_merge(runs)


@pytest.mark.parametrize("overlap", [0, 1, 100])
def test_ages_that_overlap(overlap):
    """Where one run is not wholly older than the other, sequence numbers decide."""
    rng = random.Random(overlap)
    make_key = KEYS["shared"][1]
    runs = [
        Run([(make_key(rng), 0, s) for s in range(3000)], age * (3000 - overlap))
        for age in (1, 0, 2)
    ]
    assert groups_of(merge(runs, pa.int32(), with_orders=False)) == naive_merge(runs)


@pytest.mark.parametrize("others", [1, 40, 400])
def test_a_few_rows_among_many(others):
    rng = random.Random(others)
    runs = [
        Run([(key, 0, 0) for key in range(0, 60_000, 3)], 0),
        Run([(rng.randrange(60_000), 0, s) for s in range(others)], AGE),
    ]
    assert groups_of(merge(runs, pa.int64(), with_orders=False)) == naive_merge(runs)


def test_runs_of_ranges_that_hardly_meet():
    """All rows of the other runs are in one lane of the longest."""
    runs = [
        Run([(key, 0, key) for key in range(8000)], 0),
        Run([(key, 0, key) for key in range(-3000, 500)], AGE),
        Run([(key, 0, key) for key in range(100, 600)], 2 * AGE),
    ]
    assert groups_of(merge(runs, pa.int64(), with_orders=False)) == naive_merge(runs)


@pytest.mark.parametrize("wrong", [-(2**63), 0, 2**63 - 1])
@pytest.mark.parametrize("place", [2, 700, 1499, 1500, 2250, 2998])
@pytest.mark.parametrize("culprit", [0, 1, 2])
def test_an_unsorted_run_is_refused(culprit, place, wrong):
    values = [list(range(source, 9000, 3)) for source in range(3)]
    values[culprit][place] = wrong
    keys = [encode_keys([pa.array(run)]) for run in values]
    sequences = [(pa.array(range(3000)), AGE * source) for source in range(3)]
    with pytest.raises(ValueError, match=f"run {culprit} is not sorted"):
        merge_runs(keys, None, sequences)
