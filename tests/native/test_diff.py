"""Changes between two states, against dictionaries; equality of values, against Python's."""

import random

import pyarrow as pa
import pytest

from lsmerge.merge.equality import equal_pairs
from lsmerge_native.diff import common_rows, diff_rows, equal_rows
from lsmerge_native.gather import gather
from lsmerge_native.keys import encode_keys
from tests.native.merged_runs import sliced_array

SEEDS = range(20)
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)
NAN = float("nan")


def numbers(buffer, code):
    return memoryview(buffer).cast(code).tolist()


def uint32(values):
    return pa.array(values, pa.uint32()).buffers()[1] or pa.py_buffer(b"")


def random_keys(rng):
    """Sorted and distinct."""
    return sorted(rng.sample(range(40), rng.choice([0, 1, 5, 40])))


def encoded(kind, keys):
    if kind == "words":
        return encode_keys([pa.array(keys, pa.int64())])
    texts = [f"a long prefix that all have in common {key:04d}" for key in keys]
    return encode_keys([pa.array(texts, pa.string())])


def naive_diff(before, after, skipped):
    changes = []
    for key in sorted({*before, *after}):
        if key not in before:
            changes.append((INSERT, 1, after.index(key)))
        elif key not in after:
            changes.append((DELETE, 0, before.index(key)))
        elif key not in skipped:
            changes.append((UPDATE_BEFORE, 0, before.index(key)))
            changes.append((UPDATE_AFTER, 1, after.index(key)))
    return changes


@pytest.mark.parametrize("kind", ["words", "bytes"])
@pytest.mark.parametrize("seed", SEEDS)
def test_changes_are_those_of_dictionaries(kind, seed):
    rng = random.Random(seed)
    before, after = random_keys(rng), random_keys(rng)
    both = sorted({*before} & {*after})
    skipped = {key for key in both if rng.random() < 0.4}
    old, new = encoded(kind, before), encoded(kind, after)
    rows = [numbers(side, "I") for side in common_rows(old, new)]
    assert rows == [[before.index(key) for key in both], [after.index(key) for key in both]]
    for left_out, flags in [(set(), None), (skipped, bytes(key in skipped for key in both))]:
        selection, kinds = diff_rows(old, new, flags)
        sources, rows = numbers(selection.sources, "H"), numbers(selection.rows, "I")
        found = list(zip(numbers(kinds, "b"), sources, rows, strict=True))
        assert found == naive_diff(before, after, left_out)


def test_changes_are_gathered_from_both_states():
    old, new = pa.array(["a", "b"]), pa.array(["B", "C"])
    keys = [encode_keys([pa.array(numbers_, pa.int64())]) for numbers_ in ([1, 2], [2, 3])]
    selection, _ = diff_rows(*keys)
    nulls, buffers = gather([old, new], selection)
    taken = pa.Array.from_buffers(pa.string(), 4, [b and pa.py_buffer(b) for b in buffers], nulls)
    assert taken.to_pylist() == ["a", "b", "B", "C"]


def test_flags_must_be_those_of_the_common_keys():
    keys = encode_keys([pa.array([1, 2], pa.int64())])
    with pytest.raises(ValueError, match="1 flags for 2 keys"):
        diff_rows(keys, keys, b"\0")


def test_keys_of_other_kinds_are_refused():
    one, other = encoded("words", [1]), encoded("bytes", [1])
    with pytest.raises(ValueError, match="cannot be compared"):
        diff_rows(one, other)


VALUES = {
    pa.bool_(): [None, True, False],
    pa.int8(): [None, 0, 1],
    pa.int64(): [None, 0, 2**40],
    pa.float64(): [None, 1.5, NAN],
    pa.decimal128(20, 2): [None, 1, 2],
    pa.binary(3): [None, b"abc", b"abd"],
    pa.string(): [None, "", "a", "ab"],
    pa.list_(pa.int32()): [None, [], [1], [1, None], [1, 2], [2, 1]],
    pa.list_(pa.list_(pa.string())): [None, [], [[]], [None], [["a"], ["b"]], [["a", "b"]]],
    pa.struct({"x": pa.int32(), "y": pa.string()}): [
        None,
        {"x": None, "y": None},
        {"x": 1, "y": "a"},
        {"x": 1, "y": "b"},
    ],
    pa.map_(pa.string(), pa.int32()): [None, [], [("a", 1)], [("a", None)], [("b", 1)]],
    pa.map_(pa.string(), pa.list_(pa.int32())): [None, [("a", [1])], [("a", [1, 1])]],
}


def is_same(x, y):
    return repr(x) == repr(y)


@pytest.mark.parametrize("type_", VALUES, ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_values_are_equal_as_python_sees_them(type_, seed):
    rng = random.Random(seed)
    before = rng.choices(VALUES[type_], k=30)
    after = rng.choices(VALUES[type_], k=20)
    arrays = [sliced_array(rng, values, type_) for values in (before, after)]
    pairs = [(rng.randrange(30), rng.randrange(20)) for _ in range(rng.choice([0, 1, 50]))]
    found = equal_pairs(*arrays, uint32([i for i, _ in pairs]), uint32([j for _, j in pairs]))
    assert found.to_pylist() == [is_same(before[i], after[j]) for i, j in pairs]


def test_zeros_of_both_signs_differ():
    rows = uint32([0])
    assert numbers(equal_rows(pa.array([0.0]), pa.array([-0.0]), rows, rows), "B") == [0]


def test_what_cannot_be_compared_is_refused():
    rows = uint32([0])
    with pytest.raises(TypeError, match="cannot compare"):
        equal_rows(pa.array([1], pa.int32()), pa.array([1], pa.int64()), rows, rows)
    with pytest.raises(TypeError, match="cannot compare"):
        equal_rows(pa.array([[1]]), pa.array([[1]]), rows, rows)
    with pytest.raises(IndexError):
        equal_rows(pa.array([1]), pa.array([1]), uint32([1]), rows)
    with pytest.raises(ValueError, match="1 rows before, 0 rows after"):
        equal_rows(pa.array([1]), pa.array([1]), rows, uint32([]))
