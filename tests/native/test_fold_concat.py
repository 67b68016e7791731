"""Joined strings against bytes.join."""

import random

import pyarrow as pa
import pytest

from lsmerge_native.fold import fold_concat
from lsmerge_native.regroup import filter_rows
from tests.native.merged_runs import merged_runs, random_runs, sliced_array

SEEDS = range(12)


def joined(result, type_, length):
    null_count, buffers = result
    wrapped = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    array = pa.Array.from_buffers(type_, length, wrapped)
    array.validate(full=True)
    assert array.null_count == null_count
    assert (buffers[0] is None) == (null_count == 0)
    return array.to_pylist()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("delimiter", ["", ",", " and then "])
@pytest.mark.parametrize("values", [["a"], ["", "b", None, "é" * 40], [None], ["", None]])
def test_strings_are_joined_in_plan_order(seed, delimiter, values):
    rng = random.Random(seed)
    runs = random_runs(rng)
    lists = [[rng.choice(values) for _ in range(n)] for n in runs.lengths]
    arrays = [sliced_array(rng, items, pa.string()) for items in lists]
    groups = [[lists[s][r] for s, r in group if lists[s][r] is not None] for group in runs.groups]
    expected = [delimiter.join(group) if group else None for group in groups]
    result = fold_concat(runs.plan, arrays, delimiter.encode())
    assert joined(result, pa.string(), len(groups)) == expected


def test_binaries_and_empty_groups():
    plan = filter_rows(merged_runs(random.Random(0), [[1, 2, 2, 3]]).plan, bytes([0, 1, 1, 0]))
    arrays = [pa.array([b"x", b"\x00", b"\xff", b"y"])]
    assert joined(fold_concat(plan, arrays, b"|"), pa.binary(), 3) == [None, b"\x00|\xff", None]


def test_no_rows():
    plan = merged_runs(random.Random(0), [[]]).plan
    assert joined(fold_concat(plan, [pa.array([], pa.string())], b","), pa.string(), 0) == []


def test_more_bytes_than_one_array_holds():
    plan = merged_runs(random.Random(0), [[1] * 3]).plan
    array = pa.array(["a", "b", "c"])
    with pytest.raises(OverflowError, match="bytes of joined strings in 1 groups; one array holds"):
        fold_concat(plan, [array], bytes(2**30))


def test_other_types_are_refused():
    plan = merged_runs(random.Random(0), [[1]]).plan
    with pytest.raises(TypeError, match="cannot join arrays of Arrow format 'l'"):
        fold_concat(plan, [pa.array([1])], b",")
    with pytest.raises(TypeError, match="cannot join arrays of Arrow format 'U'"):
        fold_concat(plan, [pa.array(["a"], pa.large_string())], b",")
