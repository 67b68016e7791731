"""Plans over several batches and portions of plans, against plain lists."""

import random
from itertools import pairwise

import pyarrow as pa
import pytest

from lsmerge_native.keys import encode_keys
from lsmerge_native.plan import plan_sorted
from lsmerge_native.portion import slice_groups, spread_rows
from lsmerge_native.sort import argsort


def numbers(buffer, code):
    return memoryview(buffer).cast(code).tolist()


def groups_of(plan):
    pairs = list(zip(numbers(plan.sources, "H"), numbers(plan.rows, "I"), strict=True))
    starts = numbers(plan.starts, "I")
    assert len(starts) == plan.num_groups + 1
    return [pairs[a:b] for a, b in pairwise(starts)]


def sorted_plan(values):
    keys = encode_keys([pa.array(values, pa.int64())])
    return plan_sorted(keys, argsort(keys))


def uint32(values):
    return pa.array(values, pa.uint32()).buffers()[1]


@pytest.mark.parametrize("lengths", [[12], [0, 12], [5, 0, 7], [1] * 12, [3, 9, 4]])
@pytest.mark.parametrize("seed", range(5))
def test_rows_are_found_in_their_batches(lengths, seed):
    rng = random.Random(seed)
    values = [rng.randrange(6) for _ in range(12)]
    place = [(s, r) for s, length in enumerate(lengths) for r in range(length)]
    plan = sorted_plan(values)
    spread = spread_rows(plan, uint32(lengths))
    assert spread.num_sources == len(lengths)
    assert groups_of(spread) == [[place[row] for _, row in group] for group in groups_of(plan)]


@pytest.mark.parametrize("lengths", [[], [5, 6]])
def test_batches_that_cannot_hold_the_rows(lengths):
    with pytest.raises(ValueError, match="cannot"):
        spread_rows(sorted_plan(range(12)), uint32(lengths))


def test_portions_add_up():
    plan = sorted_plan([3, 1, 3, 2, 1, 3, 9])
    whole = groups_of(plan)
    for start in range(len(whole) + 1):
        for stop in range(start, len(whole) + 1):
            part = slice_groups(plan, start, stop)
            assert groups_of(part) == whole[start:stop]
            assert part.num_rows == sum(map(len, whole[start:stop]))


@pytest.mark.parametrize(("start", "stop"), [(-1, 1), (2, 1), (0, 5)])
def test_groups_that_are_not_there(start, stop):
    with pytest.raises(IndexError, match="of a plan of 4"):
        slice_groups(sorted_plan([1, 2, 3, 4]), start, stop)
