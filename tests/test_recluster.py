"""Clustered orders, and partitions rewritten into ranges of them."""

import random
from itertools import pairwise

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.engine import clustering
from lsmerge.engine.clustering import Clustering, plan_ranges
from lsmerge.engine.recluster import recluster
from lsmerge.meta.data_file import BucketId

SCHEMA = pa.schema(
    {"k": pa.int64(), "x": pa.int32(), "y": pa.string(), "tags": pa.list_(pa.int8())}
)


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
    ranges = plan_ranges(Clustering(names, "order"), [batch], max_ranges=7)
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
        ranges = plan_ranges(Clustering(("x", "y"), order), [batch], max_ranges=16)
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
    ranges = plan_ranges(Clustering(("x",), "order"), batches, max_ranges=4)
    whole = pa.concat_batches(batches)
    sizes = [len(rows) for rows in by_range(ranges, whole).values()]
    assert len(sizes) == 4
    assert all(3000 < size < 7000 for size in sizes)
    again = plan_ranges(Clustering(("x",), "order"), batches, max_ranges=4)
    assert again.numbers(whole).equals(ranges.numbers(whole))


def test_few_rows_make_few_ranges():
    batch = pa.RecordBatch.from_pydict({"x": [3, 3]})
    ranges = plan_ranges(Clustering(("x",), "zorder"), [batch], max_ranges=10)
    assert len(by_range(ranges, batch)) == 1


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation"])
@pytest.mark.parametrize("order", ["order", "zorder"])
def test_all_rows_of_a_key_go_to_one_bucket(engine, order, memory_uri):
    options = {"merge-engine": engine, "sequence.field": "k"}
    table = lsmerge.create_table(memory_uri, SCHEMA, "k", options=options)
    for commit in range(3):
        values = points(200, seed=commit).to_pylist()
        table.upsert([{"k": k, "tags": None, **row} for k, row in enumerate(values)])
    context = table._context
    version = context.versions.load(table.latest_snapshot())
    runs = version.runs(BucketId((), 0))
    wanted = Clustering.of(context.schema, ["x", "y"], order)
    files = recluster(context, (), runs, wanted, 4, num_buckets=-1)
    assert {file.num_buckets for file in files} == {-1}
    stored = {}
    for file in files:
        reader = context.runs.reader(context.file_path(file), file.run)
        for block in range(reader.num_blocks):
            keys = reader.read_block(block, context.schema.file_schema)["k"].to_pylist()
            assert keys == sorted(keys)
            stored.setdefault(file.place.bucket, set()).update(keys)
    assert sorted(k for keys in stored.values() for k in keys) == list(range(200))
    assert len(stored) > 1


def test_it_is_refused_where_the_hash_chooses_the_bucket(memory_uri):
    table = lsmerge.create_table(memory_uri, SCHEMA, "k", options={"bucket": 4})
    with pytest.raises(lsmerge.InvalidOptionError, match=r"'bucket' = 4 the hash of its key"):
        table.sort_compact(["x", "y"], order="zorder")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"by": []}, "name one column"),
        ({"by": ["x", "x"]}, "each once"),
        ({"by": "z"}, "'z'"),
        ({"by": "tags"}, "has no order"),
        ({"by": "x", "order": "hilbert"}, "order, zorder"),
        ({"by": "x", "partition": {"k": 1}}, "no partition columns"),
    ],
)
def test_what_cannot_be_clustered_by(memory_uri, arguments, message):
    table = lsmerge.create_table(memory_uri, SCHEMA, "k")
    with pytest.raises(lsmerge.LsmergeError, match=message):
        table.sort_compact(**arguments)
