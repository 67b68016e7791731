"""Plans of long runs that interleave, merged by words, against sorting all rows in Python."""

import random
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    # Bytes, of which some words can be made, and what is left.
    "numbered texts": (pa.string(), lambda rng: f"customer/2024/{rng.randrange(20_000)}"),
    "texts that differ at the end": (
        pa.string(),
        lambda rng: "0123456789" * 7 + f"{rng.randrange(3000):05d}",
    ),
    "texts that differ in places": (
        pa.string(),
        lambda rng: f"region-{rng.randrange(30)} / {rng.randrange(9)} / {rng.randrange(70):09d}",
    ),
    "random bytes": (pa.binary(), lambda rng: rng.randbytes(rng.randrange(20))),
    "random bytes of one size": (pa.binary(16), lambda rng: rng.randbytes(16)),
    "a word and the rest": (
        pa.binary(),
        lambda rng: rng.choice([b"abcdefgh", b"ijklmnop"]) + rng.randbytes(rng.randrange(12)),
    ),
    "prefixes of each other": (pa.binary(), lambda rng: (b"ab" * 400)[: rng.randrange(700)]),
    "zeros": (pa.binary(), lambda rng: b"\0" * rng.randrange(600)),
    "zeros behind a word": (
        pa.binary(),
        lambda rng: rng.choice([b"abcdefgh", b"ijklmnop"]) + b"\0" * rng.randrange(4),
    ),
    "zeros and ones": (
        pa.binary(),
        lambda rng: bytes(rng.randrange(2) for _ in range(rng.randrange(14))),
    ),
    "all ones": (pa.binary(), lambda rng: b"\xff" * rng.randrange(12)),
    "empty or nearly": (pa.binary(), lambda rng: rng.choice([b"", b"\0", b"\0\0", b"a"])),
    "ties inside ties": (
        pa.binary(),
        lambda rng: b"".join(rng.choice([b"abcdefgh", b"ijklmnop"]) for _ in range(4)),
    ),
    "ties inside too many ties": (
        pa.binary(),
        lambda rng: b"".join(rng.choice([b"abcdefgh", b"ijklmnop"]) for _ in range(12)),
    ),
    "alike for too long": (pa.binary(), lambda rng: b"x" * 300 + rng.randbytes(3)),
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


def newest_plan(runs, type_, *, with_sequences=False):
    """The plan of the newest rows of runs that are given source by source; without sequences, from old to new."""
    sources = [source for run in runs for source in run]
    return merge_runs(
        [source.keys(type_) for source in sources],
        None,
        [source.sequences() for source in sources] if with_sequences else None,
        [number > 0 for run in runs for number in range(len(run))],
        newest_only=True,
    )


def newest_rows(runs):
    return [group[-1] for group in naive_merge([source for run in runs for source in run])]


@pytest.mark.parametrize("count", [2, 5, 33])
@pytest.mark.parametrize("name", KEYS)
def test_a_plan_of_the_newest_rows(name, count):
    """What is left out of it is never the last row of a key, which a run may have more than once."""
    type_, make_key = KEYS[name]
    rng = random.Random(f"{name} {count}")
    runs = [cut(rng, run, 3) for run in runs_by_age(rng, count, make_key)]
    runs.sort(key=lambda run: run[0].base)
    plan = newest_plan(runs, type_)
    assert [group[-1] for group in groups_of(plan)] == newest_rows(runs)
    if name == "numbered texts" and count < 32:
        assert plan.num_rows == plan.num_groups


def runs_of_distinct_keys(rng, lengths, key_space, least=0):
    """Runs from old to new, each in a few sources."""
    return [
        cut(rng, Run([(least + k, 0, 0) for k in rng.sample(range(key_space), n)], AGE * age), 4)
        for age, n in enumerate(lengths)
    ]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "lengths",
    [
        [5000, 5000],
        [5000, 1000, 1000, 1000, 1000, 1000],
        [1000, 1000, 6000],
        [2500, 0, 2500, 1],
        [40_000, 3000, 20_000],
        [600] * 32,
        [250] * 32,
        [5000, *[300] * 9],
    ],
    ids=str,
)
@pytest.mark.parametrize("spread", [1.01, 1.5, 40])
def test_of_runs_without_doubled_keys_the_newest_rows_alone_are_planned(lengths, spread, seed):
    rng = random.Random(f"{lengths} {spread} {seed}")
    key_space = int(spread * max(lengths))
    runs = runs_of_distinct_keys(rng, lengths, key_space, least=-key_space // 2)
    for with_sequences in (False, True):
        plan = newest_plan(runs, pa.int64(), with_sequences=with_sequences)
        assert [group[-1] for group in groups_of(plan)] == newest_rows(runs)
        assert plan.num_rows == plan.num_groups
        rng.shuffle(runs)


def test_newest_rows_of_the_least_and_the_greatest_keys():
    ends = [-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 2, 2**63 - 1]
    keys = sorted({*ends, *range(-4000, 4000, 7)})
    runs = [[Run([(key, 0, 0) for key in keys], age * AGE)] for age in range(3)]
    plan = newest_plan(runs, pa.int64())
    assert groups_of(plan) == [[(2, row)] for row in range(len(keys))]


@pytest.mark.parametrize("culprit", [0, 1, 2])
@pytest.mark.parametrize("place", [0, 1, 700, 2999])
def test_a_doubled_key_keeps_its_newest_row(culprit, place):
    """Of a run that has a key twice, the later row is the newer, and none but older runs' are hidden by it."""
    values = [list(range(source, 9000, 3)) for source in range(3)]
    values[culprit].insert(place, values[culprit][place])
    runs = [
        [Run([(key, 0, s) for s, key in enumerate(v)], AGE * age)] for age, v in enumerate(values)
    ]
    assert [group[-1] for group in groups_of(newest_plan(runs, pa.int64()))] == newest_rows(runs)


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


@settings(max_examples=100)
@given(
    st.lists(st.binary(max_size=9), min_size=1, max_size=6),
    st.integers(1, 5),
    st.integers(2, 5),
    st.integers(0, 999),
)
def test_bytes_of_any_parts(parts, most, count, seed):
    rng = random.Random(seed)
    runs = [
        Run(
            [(b"".join(rng.choices(parts, k=rng.randrange(most + 1))), 0, s) for s in range(600)],
            AGE * age,
        )
        for age in rng.sample(range(count), count)
    ]
    assert groups_of(merge(runs, pa.binary(), with_orders=False)) == naive_merge(runs)


@pytest.mark.parametrize("newest_only", [False, True])
@pytest.mark.parametrize("wrong", [-(2**63), 0, 2**63 - 1])
@pytest.mark.parametrize("place", [2, 700, 1499, 1500, 2250, 2998])
@pytest.mark.parametrize("culprit", [0, 1, 2])
def test_an_unsorted_run_is_refused(culprit, place, wrong, newest_only):
    values = [list(range(source, 9000, 3)) for source in range(3)]
    values[culprit][place] = wrong
    keys = [encode_keys([pa.array(run)]) for run in values]
    sequences = [(pa.array(range(3000)), AGE * source) for source in range(3)]
    with pytest.raises(ValueError, match=f"run {culprit} is not sorted"):
        merge_runs(keys, None, None if newest_only else sequences, newest_only=newest_only)


@pytest.mark.parametrize("newest_only", [False, True])
@pytest.mark.parametrize("size", [1500, 30_000])
@pytest.mark.parametrize("overlap", [1, 2, 400])
@pytest.mark.parametrize("culprit", [0, 1])
def test_a_run_whose_sources_overlap_is_refused(culprit, overlap, size, newest_only):
    """Each source is sorted, but the next begins with a key that the one before has, or a lesser one."""
    runs = [list(range(2 * size)), list(range(2 * size))]
    second = [size, size]
    second[culprit] -= overlap
    keys = [
        encode_keys([pa.array(part)])
        for run, middle in zip(runs, second, strict=True)
        for part in (run[:size], run[middle:])
    ]
    merged = partial(merge_runs, keys, None, None, [False, True] * 2, newest_only=newest_only)
    if overlap == 1:
        assert merged().num_groups == 2 * size
    else:
        with pytest.raises(ValueError, match="is not sorted"):
            merged()


@settings(max_examples=200)
@given(st.integers(0, 2**32), st.integers(2, 5), st.integers(0, 3), st.booleans())
def test_runs_in_any_order_are_refused_or_merged(seed, count, faults, is_wild):
    """No wrong order passes; under the address sanitizer no memory outside is touched either."""
    rng = random.Random(seed)
    runs = [sorted(rng.sample(range(4000), 900)) for _ in range(count)]
    for run in rng.choices(runs, k=faults):
        run[rng.randrange(900)] = rng.choice(runs[0])
        if is_wild:
            rng.shuffle(run)
    keys = [encode_keys([pa.array(run)]) for run in runs]
    if all(run == sorted(run) for run in runs):
        newest = {key: (age, row) for age, run in enumerate(runs) for row, key in enumerate(run)}
        plan = merge_runs(keys, None, None, newest_only=True)
        assert [group[-1] for group in groups_of(plan)] == [newest[key] for key in sorted(newest)]
    else:
        with pytest.raises(ValueError, match="is not sorted"):
            merge_runs(keys, None, None, newest_only=True)


# Keys in ascending order: single ones, some that tie by their first bytes, and many that do.
TEXTS = {
    "no ties": [b"key/%05d" % i for i in range(9000)],
    "few ties": [b"%05d-abcdefgh-%d" % (i // 9, i % 9) for i in range(9000)],
    "many ties": [b"%08d-abcdefgh-%08d" % (i // 900, i) for i in range(9000)],
}


@pytest.mark.parametrize("other", [-1, 1, 2, 300, 4000])
@pytest.mark.parametrize("place", [2, 700, 1499, 1500, 2250, 2998])
@pytest.mark.parametrize("name", TEXTS)
def test_an_unsorted_run_of_bytes_is_refused(name, place, other):
    """Two rows of a run have changed places, near each other or far."""
    values = [TEXTS[name][source::3] for source in range(3)]
    run, other = values[1], (place + other) % 3000
    run[place], run[other] = run[other], run[place]
    keys = [encode_keys([pa.array(run)]) for run in values]
    with pytest.raises(ValueError, match="run 1 is not sorted"):
        merge_runs(keys, None, None)


@pytest.mark.parametrize("wrong", [b"", b"\xff", b"key", b"key/", b"key/99999" * 40])
@pytest.mark.parametrize("place", [0, 1, 1500, 2999])
def test_a_key_far_from_its_place_is_refused(place, wrong):
    values = [TEXTS["no ties"][source::3] for source in range(3)]
    is_least, is_greatest = wrong < b"key/0", wrong > b"key/9"
    values[2][place] = wrong
    keys = [encode_keys([pa.array(run)]) for run in values]
    if values[2] == sorted(values[2]):
        assert (is_least, place) == (True, 0) or (is_greatest, place) == (True, 2999)
        assert len(groups_of(merge_runs(keys, None, None))) == 9000
    else:
        with pytest.raises(ValueError, match="run 2 is not sorted"):
            merge_runs(keys, None, None)
