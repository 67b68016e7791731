"""Merge plans against sorting all rows in Python."""

import itertools
import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsmerge_native.keys import encode_keys
from lsmerge_native.plan import MergePlan, merge_runs, plan_sorted
from lsmerge_native.sort import argsort


def numbers(buffer, code):
    return memoryview(buffer).cast(code).tolist()


def groups_of(plan):
    """The plan as lists of (source, row), one per group; checks what every plan promises."""
    sources, rows = numbers(plan.sources, "H"), numbers(plan.rows, "I")
    starts = numbers(plan.starts, "I")
    assert len(sources) == len(rows) == plan.num_rows == starts[-1]
    assert len(starts) == plan.num_groups + 1
    entries = list(zip(sources, rows, strict=True))
    return [entries[a:b] for a, b in itertools.pairwise(starts)]


def encode(values):
    type_ = pa.binary() if values and isinstance(values[0], bytes) else pa.int64()
    return encode_keys([pa.array(values, type_)])


# ---- the twin ----


class Run:
    """A sorted run: rows are (key, order, relative sequence)."""

    def __init__(self, rows, base):
        self.rows = sorted(rows)
        self.base = base

    def keys(self, type_):
        return encode_keys([pa.array([row[0] for row in self.rows], type_)])

    def orders(self):
        return encode_keys([pa.array([row[1] for row in self.rows], pa.int64())], nullable=[True])

    def sequences(self):
        return pa.array([row[2] for row in self.rows], pa.int64()), self.base


def naive_merge(runs):
    entries = [
        (key, order, run.base + sequence, source, row)
        for source, run in enumerate(runs)
        for row, (key, order, sequence) in enumerate(run.rows)
    ]
    entries.sort()
    return [
        [entry[3:] for entry in group]
        for _, group in itertools.groupby(entries, key=lambda entry: entry[0])
    ]


def merge(runs, type_, *, with_orders=True):
    orders = [run.orders() for run in runs] if with_orders else None
    return merge_runs([run.keys(type_) for run in runs], orders, [run.sequences() for run in runs])


def random_runs(rng, count, rows, make_key, orders):
    return [
        Run(
            [(make_key(rng), rng.randrange(orders), s) for s in range(rng.randrange(rows + 1))],
            rng.choice([0, source * 1000, 10**12]),
        )
        for source in range(count)
    ]


KEYS = {
    "unique words": (pa.int64(), lambda rng: rng.randrange(-(2**63), 2**63)),
    "shared words": (pa.int32(), lambda rng: rng.randrange(-60, 60)),
    "extreme words": (pa.int64(), lambda rng: rng.choice([-(2**63), 0, 2**63 - 1])),
    "texts": (pa.string(), lambda rng: f"customer-{rng.randrange(100)}"),
    "long texts": (
        pa.string(),
        lambda rng: f"key-{rng.randrange(9)}-0123456789-{rng.randrange(9)}",
    ),
    "zeros": (pa.binary(), lambda rng: b"\0" * rng.randrange(12)),
    "all ones": (pa.binary(), lambda rng: b"\xff" * rng.randrange(12)),
    "any bytes": (pa.binary(), lambda rng: rng.randbytes(rng.randrange(3))),
}


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 20])
@pytest.mark.parametrize("name", KEYS)
def test_merge(name, count):
    type_, make_key = KEYS[name]
    rng = random.Random(f"{name} {count}")
    runs = random_runs(rng, count, 300, make_key, orders=3)
    assert groups_of(merge(runs, type_)) == naive_merge(runs)


@pytest.mark.parametrize("count", [2, 6, 20])
@pytest.mark.parametrize("name", KEYS)
def test_merge_without_orders(name, count):
    type_, make_key = KEYS[name]
    rng = random.Random(f"{name} {count}")
    runs = random_runs(rng, count, 300, make_key, orders=1)
    plan = merge(runs, type_, with_orders=False)
    assert groups_of(plan) == naive_merge(runs)
    assert plan.num_sources == count


@pytest.mark.parametrize("stride", [1, 5, 50, 1000])
def test_streaks_of_one_run(stride):
    """Runs that take turns in strides, so that galloping begins, ends and overshoots."""
    runs = [
        Run([(key, 0, 0) for key in range(3000) if key // stride % 3 == source], source)
        for source in range(3)
    ]
    runs.append(Run([(key, 0, 7) for key in range(0, 3000, 97)], 0))
    assert groups_of(merge(runs, pa.int64())) == naive_merge(runs)
    texts = [
        Run([(f"key {key:05d}", order, s) for key, order, s in run.rows], run.base) for run in runs
    ]
    assert groups_of(merge(texts, pa.string())) == naive_merge(texts)


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(
            st.lists(
                st.tuples(st.integers(0, 6), st.integers(0, 2), st.integers(0, 4)), max_size=12
            ),
            st.integers(-5, 5),
        ),
        max_size=7,
    )
)
def test_merge_of_anything(drawn):
    runs = [Run(rows, base) for rows, base in drawn]
    assert groups_of(merge(runs, pa.int8())) == naive_merge(runs)
    texts = [
        Run([(b"same start" + b"\0" * key, o, s) for key, o, s in rows], base)
        for rows, base in drawn
    ]
    assert groups_of(merge(texts, pa.binary())) == naive_merge(texts)


def cut(rng, run, most):
    """The rows of a run in some sources that follow each other, of which some are empty."""
    places = sorted(rng.randrange(len(run.rows) + 1) for _ in range(rng.randrange(most)))
    return [
        Run(run.rows[a:b], run.base) for a, b in itertools.pairwise([0, *places, len(run.rows)])
    ]


@pytest.mark.parametrize("count", [1, 2, 5, 20])
@pytest.mark.parametrize("name", KEYS)
def test_runs_in_several_sources(name, count):
    type_, make_key = KEYS[name]
    rng = random.Random(f"{name} {count}")
    runs = [cut(rng, run, 6) for run in random_runs(rng, count, 300, make_key, orders=3)]
    sources = [source for run in runs for source in run]
    plan = merge_runs(
        [source.keys(type_) for source in sources],
        [source.orders() for source in sources],
        [source.sequences() for source in sources],
        [number > 0 for run in runs for number in range(len(run))],
    )
    assert groups_of(plan) == naive_merge(sources)
    assert plan.num_sources == len(sources)


def test_a_run_that_decreases_between_its_sources_is_refused():
    keys, sequences = [encode([1, 5]), encode([]), encode([4, 6])], pa.array([0, 0])
    columns = [(sequences, 0), (sequences[:0], 0), (sequences, 0)]
    with pytest.raises(ValueError, match="run 2 is not sorted: its key decreases at row 0"):
        merge_runs(keys, None, columns, [False, True, True])
    assert groups_of(merge_runs(keys, None, columns)) == [[(0, 0)], [(2, 0)], [(0, 1)], [(2, 1)]]


def test_base_decides_between_runs():
    keys = [encode([1]), encode([1])]
    sequence = pa.array([5])
    assert groups_of(merge_runs(keys, None, [(sequence, 10), (sequence, 0)])) == [[(1, 0), (0, 0)]]
    assert groups_of(merge_runs(keys, None, [(sequence, 0), (sequence, 0)])) == [[(0, 0), (1, 0)]]


def test_null_order_is_oldest():
    keys = [encode([1]), encode([1])]
    orders = [encode_keys([pa.array([value], pa.int64())], nullable=[True]) for value in (-9, None)]
    sequences = [(pa.array([0]), 0), (pa.array([9]), 9)]
    assert groups_of(merge_runs(keys, orders, sequences)) == [[(1, 0), (0, 0)]]


def test_slices_of_keys_and_sequences():
    whole = encode(list(range(10)))
    sequence = pa.array(range(10))
    plan = merge_runs(
        [whole.slice(2, 4), whole.slice(3, 6)],
        None,
        [(sequence.slice(7, 2), 0), (sequence.slice(0, 3), 0)],
    )
    assert groups_of(plan) == [[(0, 0)], [(1, 0), (0, 1)], [(1, 1)], [(1, 2)]]


def test_nothing_to_merge():
    empty = encode([])
    assert groups_of(merge_runs([], None, [])) == []
    plan = merge_runs([empty] * 3, None, [(pa.array([], pa.int64()), 0)] * 3)
    assert (plan.num_rows, plan.num_groups, plan.num_sources) == (0, 0, 3)
    assert numbers(plan.starts, "I") == [0]


@pytest.mark.parametrize(
    "values",
    [
        [[1, 5, 3], [2, 4]],
        [[1, 2], [0, 9, 8]],
        [[*range(100), 50]],
        [[b"ab", b"ad", b"ac"], [b"aa"]],
        [[b"prefix 1", b"", b"prefix 3"]],
    ],
)
def test_unsorted_run_is_refused(values):
    sequences = [(pa.array(range(len(run))), 0) for run in values]
    culprit = next(i for i, run in enumerate(values) if run != sorted(run))
    row = next(i for i in range(1, 200) if values[culprit][i] < values[culprit][i - 1])
    with pytest.raises(ValueError, match=f"run {culprit} is not sorted: .* at row {row}$"):
        merge_runs([encode(run) for run in values], None, sequences)


ONE = encode([1])
SEQUENCE = (pa.array([0]), 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([ONE], None, []), "1 runs need as many sequences .got 0."),
        (([ONE], [], [SEQUENCE]), "orders .got 0."),
        (([ONE], None, [(pa.array([0, 1]), 0)]), "run 0 has 1 keys but 2 sequences"),
        (([ONE], None, [(pa.array([0], pa.int32()), 0)]), "must be int64"),
        (([ONE], None, [(pa.array([None], pa.int64()), 0)]), "1 nulls"),
        (([ONE], [encode([1, 2])], [SEQUENCE]), "run 0 has 1 keys but 2 order keys"),
        (([ONE, encode([b"a"])], None, [SEQUENCE] * 2), "run 1: keys of kind u64"),
        (([ONE, ONE], [ONE, encode([b"a"])], [SEQUENCE] * 2), "order of run 1: keys of kind u64"),
        (([ONE], None, [SEQUENCE], [True]), "does not say which of 1 sources begin a run"),
        (([ONE], None, [SEQUENCE], [False, True]), "does not say which of 1 sources begin a run"),
        (([ONE] * 65536, None, [SEQUENCE] * 65536), "65536 runs at once, at most 65535"),
    ],
)
def test_runs_that_do_not_fit_together(arguments, message):
    with pytest.raises(ValueError, match=message):
        merge_runs(*arguments)


@pytest.mark.parametrize("run", [None, 5, b"key"])
def test_runs_are_keys(run):
    with pytest.raises(TypeError, match="expected Keys"):
        merge_runs([run], None, [SEQUENCE])
    with pytest.raises(TypeError, match="expected Keys"):
        merge_runs([ONE], [run], [SEQUENCE])


def test_as_many_runs_as_there_may_be():
    plan = merge_runs([ONE] * 65535, None, [SEQUENCE] * 65535)
    assert groups_of(plan) == [[(source, 0) for source in range(65535)]]


def test_base_that_is_no_int64():
    with pytest.raises(OverflowError):
        merge_runs([ONE], None, [(pa.array([0]), 2**63)])


def test_plans_are_not_made_by_hand():
    with pytest.raises(TypeError, match="merge_runs"):
        MergePlan()


# ---- one sorted source ----


@pytest.mark.parametrize(
    "values",
    [
        [],
        [4],
        [3, 1, 3, 2, 1, 3],
        [b"b", b"a", b"b", b""],
        [b"a long common start 2", b"a long common start 1", b"a long common start 2"],
    ],
)
def test_plan_sorted(values):
    keys = encode(values)
    order = sorted(range(len(values)), key=values.__getitem__)
    expected = [
        [(0, row) for row in group] for _, group in itertools.groupby(order, key=values.__getitem__)
    ]
    assert groups_of(plan_sorted(keys, argsort(keys))) == expected


def test_plan_of_some_rows():
    keys = encode([3, 1, 2])
    permutation = memoryview(b"".join(i.to_bytes(4, "little") for i in (1, 0)))
    assert groups_of(plan_sorted(keys, permutation)) == [[(0, 1)], [(0, 0)]]


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([0, 1], ValueError, "entry 1 comes too late"),
        ([1, 3], IndexError, "row 3 is not in keys of 3 rows"),
    ],
)
def test_wrong_permutation(rows, error, message):
    permutation = b"".join(i.to_bytes(4, "little") for i in rows)
    with pytest.raises(error, match=message):
        plan_sorted(encode([3, 1, 2]), permutation)


def test_permutation_of_the_wrong_size():
    with pytest.raises(ValueError, match="permutation"):
        plan_sorted(encode([3, 1, 2]), b"abc")
