"""Clustered orders: ranges of rows that are near in some columns."""

import random
from itertools import pairwise

import pyarrow as pa
import pytest

from lsmerge.engine import clustering
from lsmerge.engine.clustering import Clustering, plan_ranges

ROOM = 2**30


def points(count, seed=1):
    draw = random.Random(seed)
    numbers = [draw.choice([None, *range(100)]) for _ in range(count)]
    texts = [draw.choice([None, f"same-prefix-{draw.randrange(100):03}"]) for _ in range(count)]
    return pa.RecordBatch.from_pydict({"x": pa.array(numbers, pa.int32()), "y": pa.array(texts)})


def by_range(ranges, batch):
    found = {}
    for number, row in zip(ranges.numbers(batch).to_pylist(), batch.to_pylist(), strict=True):
        found.setdefault(number, []).append(row)
    return found


def place(row, names):
    return tuple((row[name] is not None, row[name]) for name in names)


@pytest.mark.parametrize("names", [("x",), ("y", "x")])
def test_linear_ranges_follow_each_other(names):
    batch = points(1000)
    ranges = plan_ranges(Clustering(names, "order"), [batch], max_ranges=7, max_bytes=ROOM)
    found = by_range(ranges, batch)
    spans = [
        (min(place(r, names) for r in rows), max(place(r, names) for r in rows))
        for _, rows in sorted(found.items())
    ]
    assert all(left[1] < right[0] for left, right in pairwise(spans))
    if names == ("y", "x"):
        assert len(found) == 7


def test_zorder_ranges_are_narrow_in_every_column():
    """Linear ranges span all of the second column; z-order ranges span a part of both."""
    draw = random.Random(1)
    batch = pa.RecordBatch.from_pydict(
        {
            "x": pa.array([draw.randrange(1000) for _ in range(4000)], pa.int32()),
            "y": pa.array([f"same-prefix-{draw.randrange(1000):03}" for _ in range(4000)]),
        }
    )
    widths = {}
    for order in ("order", "zorder"):
        ranges = plan_ranges(Clustering(("x", "y"), order), [batch], max_ranges=16, max_bytes=ROOM)
        texts = [[row["y"] for row in rows] for rows in by_range(ranges, batch).values()]
        widths[order] = [int(max(each)[-3:]) - int(min(each)[-3:]) for each in texts]
    assert len(widths["zorder"]) == 16
    assert min(widths["order"]) > 900
    assert sum(widths["zorder"]) < 16 * 500


def test_ranges_are_about_equal_and_the_sample_is_bounded(monkeypatch):
    monkeypatch.setattr(clustering, "MAX_SAMPLE_ROWS", 500)
    numbers = list(range(20_000))
    random.Random(1).shuffle(numbers)
    batches = [
        pa.RecordBatch.from_pydict({"x": numbers[start : start + 777]})
        for start in range(0, len(numbers), 777)
    ]
    ranges = plan_ranges(Clustering(("x",), "order"), batches, max_ranges=4, max_bytes=ROOM)
    whole = pa.concat_batches(batches)
    sizes = [len(rows) for rows in by_range(ranges, whole).values()]
    assert len(sizes) == 4
    assert all(3000 < size < 7000 for size in sizes)
    again = plan_ranges(Clustering(("x",), "order"), batches, max_ranges=4, max_bytes=ROOM)
    assert again.numbers(whole).equals(ranges.numbers(whole))


def test_few_rows_make_few_ranges():
    batch = pa.RecordBatch.from_pydict({"x": [3, 3]})
    ranges = plan_ranges(Clustering(("x",), "zorder"), [batch], max_ranges=10, max_bytes=ROOM)
    assert len(by_range(ranges, batch)) == 1


def test_no_rows_have_no_ranges():
    assert plan_ranges(Clustering(("x",), "order"), [], max_ranges=3, max_bytes=ROOM) is None


def test_a_sample_of_large_rows_is_bounded_by_bytes():
    batches = [
        pa.RecordBatch.from_pydict(
            {"x": [f"{n:05}" + "-" * 1000 for n in range(start, start + 100)]}
        )
        for start in range(0, 20_000, 100)
    ]
    taken = clustering._sample(["x"], batches, max_bytes=2_000_000)
    assert 1_000_000 < taken.nbytes <= 2_000_000
    few = clustering._sample(["x"], batches, max_bytes=1)
    assert clustering.MIN_SAMPLE_ROWS / 2 <= few.num_rows <= clustering.MIN_SAMPLE_ROWS
