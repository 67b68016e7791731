"""Keys that leave the partition open: each lives in one partition at a time, whoever writes meanwhile."""

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.engine import opening
from lsmerge.engine.opening import store_at
from lsmerge.env import Env
from lsmerge.table import Table

SCHEMA = pa.schema(
    [("p", pa.string()), pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())]
)
DYNAMIC = {"bucket": "-1", "dynamic-bucket.target-row-num": "2"}
ENGINES = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    "first-row": {"merge-engine": "first-row"},
}


def create(uri, engine="deduplicate", **more):
    options = DYNAMIC | ENGINES[engine] | more
    return lsmerge.create_table(uri, SCHEMA, ["k"], partition_by=["p"], options=options)


def rows(*values, kind=None):
    """Rows from texts such as "a1=5": partition, key, value."""
    kinds = {} if kind is None else {"_row_kind": kind}
    return [{"p": v[0], "k": int(v[1]), "v": int(v[3:]), **kinds} for v in values]


def visible(table) -> list[str]:
    found = table.scan().to_arrow().to_pylist()
    keys = sorted(row["k"] for row in found)
    assert table.get_many(keys).num_rows == len(found)
    for row in found:
        assert table.get(row["k"]) == row
    return sorted(f"{row['p']}{row['k']}={row['v']}" for row in found)


# What is visible after a1=1, a2=2 and then b1=5, c3=7.
AFTERWARDS = {
    "deduplicate": ["a2=2", "b1=5", "c3=7"],
    "partial-update": ["a1=5", "a2=2", "c3=7"],
    "aggregation": ["a1=6", "a2=2", "c3=7"],
    "first-row": ["a1=1", "a2=2", "c3=7"],
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("cut", ["commits", "batches", "batch"])
def test_a_row_meets_its_key_in_another_partition(memory_uri, engine, cut):
    table = create(memory_uri, engine)
    first, second = rows("a1=1", "a2=2"), rows("b1=5", "c3=7")
    if cut == "commits":
        table.upsert(first)
        table.upsert(second)
    elif cut == "batches":
        with table.writer() as writer:
            writer.write(first)
            writer.write(second)
    else:
        table.upsert([*first, *second])
    assert visible(table) == AFTERWARDS[engine]
    table.compact(full=True)
    assert visible(table) == AFTERWARDS[engine]
    assert table.verify().ok


@pytest.mark.parametrize("engine", ENGINES)
def test_a_rival_that_wrote_our_key_elsewhere_is_followed(memory_uri, engine):
    ours, theirs = create(memory_uri, engine), lsmerge.open_table(memory_uri)
    with ours.writer() as writer:
        writer.write(rows("b1=5", "c3=7"))
        theirs.upsert(rows("a1=1", "a2=2"))
    assert visible(ours) == AFTERWARDS[engine]
    assert ours.verify().ok


@pytest.mark.parametrize("engine", ENGINES)
def test_a_rival_that_moved_our_key_is_followed(memory_uri, engine):
    ours, theirs = create(memory_uri, engine), lsmerge.open_table(memory_uri)
    ours.upsert(rows("a1=1", "a2=2"))
    with ours.writer() as writer:
        writer.write(rows("b1=5", "c3=7"))
        theirs.upsert(rows("d1=3"))
        theirs.upsert(rows("e1=4"))
    expected = {
        "deduplicate": ["a2=2", "b1=5", "c3=7"],
        "partial-update": ["a1=5", "a2=2", "c3=7"],
        "aggregation": ["a1=13", "a2=2", "c3=7"],
        "first-row": ["a1=1", "a2=2", "c3=7"],
    }
    assert visible(ours) == expected[engine]


def test_a_rival_that_moved_a_key_to_where_we_write_it(memory_uri):
    ours, theirs = create(memory_uri), lsmerge.open_table(memory_uri)
    ours.upsert(rows("a1=1"))
    with ours.writer() as writer:
        writer.write(rows("b1=5"))
        theirs.upsert(rows("b1=3"))
    assert visible(ours) == ["b1=5"]


def test_a_rival_that_moved_a_key_we_delete(memory_uri):
    ours, theirs = create(memory_uri), lsmerge.open_table(memory_uri)
    ours.upsert(rows("a1=1", "a2=2"))
    with ours.writer() as writer:
        writer.write(rows("a1=1", kind="-D"))
        theirs.upsert(rows("b1=3"))
    assert visible(ours) == ["a2=2"]


def test_rivals_before_every_attempt(memory_uri, monkeypatch):
    ours, theirs = create(memory_uri, "aggregation"), lsmerge.open_table(memory_uri)
    commits = iter([rows("a1=1"), rows("b2=1", "c1=1"), rows("d3=1")])
    publish = ours._context.snapshots.publish

    def late(snapshot):
        for commit in commits:
            theirs.upsert(commit)
            break
        publish(snapshot)

    monkeypatch.setattr(ours._context.snapshots, "publish", late)
    ours.upsert(rows("x1=10", "x2=10", "x3=10", "x4=10"))
    assert visible(ours) == ["a1=12", "b2=11", "d3=11", "x4=10"]
    assert ours.verify().ok


def test_delete_takes_keys_without_their_partition(memory_uri):
    table = create(memory_uri)
    table.upsert(rows("a1=1", "b2=2"))
    table.delete([2, 9])
    assert visible(table) == ["a1=1"]
    partitions = {b["partition"]["p"] for b in table.scan().explain()["buckets"]}
    assert partitions == {"a", "b"}, "a key that lives nowhere leaves nothing"


@pytest.mark.parametrize("engine", ["deduplicate", "aggregation"])
def test_deletes_of_keys_that_live_nowhere_leave_nothing(memory_uri, engine):
    table = create(memory_uri, engine)
    table.delete([1, 2, 3])
    assert visible(table) == []
    assert table.scan().explain()["buckets"] == []
    # The deletes before the first row of a key do nothing, the one after it does.
    unknown = [{"p": None, "k": 1, "v": 5, "_row_kind": "-D"}] * 3
    table.write([*unknown, *rows("a1=7", kind="+I"), unknown[0]])
    assert visible(table) == ([] if engine == "deduplicate" else ["a1=2"])


def test_a_deleted_key_may_live_anywhere(memory_uri):
    table = create(
        memory_uri, "partial-update", **{"partial-update.remove-record-on-delete": "true"}
    )
    table.upsert(rows("a1=1"))
    table.delete([1])
    table.upsert(rows("b1=2"))
    assert visible(table) == ["b1=2"]
    changes = [*rows("b1=2", kind="-D"), *rows("c1=3", kind="+I"), *rows("d1=4", kind="+I")]
    table.write(changes)
    assert visible(table) == ["c1=4"]


def test_partition_columns_in_the_key_stay_apart(memory_uri):
    schema = pa.schema([("tenant", pa.string()), *SCHEMA])
    table = lsmerge.create_table(
        memory_uri, schema, ["tenant", "k"], partition_by=["tenant", "p"], options=DYNAMIC
    )
    table.upsert({"tenant": ["x", "y"], "p": ["a", "a"], "k": [1, 1], "v": [1, 2]})
    table.upsert({"tenant": ["x"], "p": ["b"], "k": [1], "v": [3]})
    found = table.scan().to_arrow().sort_by("tenant").to_pylist()
    assert [tuple(row.values()) for row in found] == [("x", "b", 1, 3), ("y", "a", 1, 2)]
    assert table.get(("y", 1))["v"] == 2
    assert table.get(("z", 1)) is None


def test_partition_values_are_never_combined(memory_uri):
    schema = pa.schema([("p", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])
    options = DYNAMIC | {
        "merge-engine": "aggregation",
        "fields.default-aggregate-function": "sum",
    }
    table = lsmerge.create_table(memory_uri, schema, ["k"], partition_by=["p"], options=options)
    for partition in (5, 6, 7):
        table.upsert({"p": [partition], "k": [1], "v": [10]})
    table.write({"p": [8], "k": [1], "v": [1], "_row_kind": ["-U"]})
    assert table.scan().to_arrow().to_pylist() == [{"p": 5, "k": 1, "v": 29}]


def test_keys_are_forgotten_after_their_time(memory_uri):
    clock = [1_000_000_000_000]
    table = create(memory_uri, **{"cross-partition-upsert.index-ttl": "3 h"})
    env = Env.seeded(1)
    slow = Env(lambda: clock[0], env.new_id, env.random, env.sleep)
    table = Table(opening.open_existing(store_at(memory_uri), env=slow))
    table.upsert(rows("a1=1", "a2=1"))
    clock[0] += 2 * 3_600_000
    table.upsert(rows("b1=2"))
    clock[0] += 2 * 3_600_000
    table.upsert(rows("c1=3", "c2=3"))
    found = sorted(f"{r['p']}{r['k']}={r['v']}" for r in table.scan().to_arrow().to_pylist())
    assert found == ["a2=1", "c1=3", "c2=3"], "key 2 was not written for four hours"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"bucket": "4"}, "bucket=-1"),
        ({"bucket": "-1", "sequence.field": "v"}, "'sequence.field'"),
        (
            {
                "bucket": "-1",
                "merge-engine": "versioned",
                "merge-engine.versioned.ver-column": "v",
            },
            "versioned",
        ),
        ({"bucket": "-1", "bucket-key": "k"}, "bucket-key"),
    ],
)
def test_what_cannot_be_followed_is_refused(memory_uri, options, named):
    with pytest.raises(lsmerge.InvalidOptionError, match=named):
        lsmerge.create_table(memory_uri, SCHEMA, ["k"], partition_by=["p"], options=options)


@pytest.mark.parametrize("engine", ["deduplicate", "first-row"])
def test_whether_a_key_lives_elsewhere_is_read_from_keys_alone(memory_uri, engine):
    """Blocks with all columns would leave the cache room for few keys."""
    schema = pa.schema({"p": pa.string(), "k": pa.int64(), "text": pa.string()})
    options = {"bucket": "-1", "merge-engine": engine}
    table = lsmerge.create_table(memory_uri, schema, "k", partition_by="p", options=options)
    table.upsert({"p": ["a"] * 50, "k": range(50), "text": ["x" * 10_000] * 50})
    table.upsert({"p": ["b"] * 10, "k": range(10), "text": ["y"] * 10})
    kept = table.cache_stats()
    assert kept.misses > 0
    assert kept.size_bytes < 50 * 100
    living = {"deduplicate": "b", "first-row": "a"}[engine]
    assert {table.get(k)["p"] for k in range(10)} == {living}
    assert table.scan().count() == 50
