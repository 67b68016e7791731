"""Sort-compaction: the same rows, clustered by other columns than the key, whoever else is at work."""

import random
from datetime import UTC, datetime

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.engine import partition_rewrite, redistribute, sort_compact
from lsmerge.engine.placement import DynamicPlacer
from tests.test_dynamic_buckets import buckets_of_keys, index_names, live_index_names
from tests.test_overwrite import meanwhile

SCHEMA = pa.schema(
    {
        "p": pa.string(),
        "k": pa.int64(),
        "x": pa.int32(),
        "y": pa.string(),
        "tags": pa.list_(pa.int8()),
    }
)
OPTIONS = {
    "bucket": "-1",
    "dynamic-bucket.target-row-num": "40",
    "num-sorted-run.compaction-trigger": "3",
    "write-only": "true",
}
LATER = datetime(2100, 1, 1, tzinfo=UTC)
# Two keys with one hash.
TWINS = 128345535226322449, 132074919053496791


def create(uri, **options):
    named = {name.replace("_", "-"): value for name, value in options.items()}
    return lsmerge.create_table(uri, SCHEMA, ["p", "k"], partition_by="p", options=OPTIONS | named)


def rows(p, keys, seed=0):
    draw = random.Random(seed)
    return [
        {
            "p": p,
            "k": k,
            "x": draw.randrange(1000),
            "y": f"y{draw.randrange(1000):03}",
            "tags": None,
        }
        for k in keys
    ]


@pytest.fixture
def table(memory_uri):
    table = create(memory_uri)
    table.upsert(rows("a", range(200), 1))
    table.upsert([*rows("a", range(100, 300), 2), *rows("b", range(50), 3)])
    table.delete([("a", k) for k in range(30)])
    return table


def content(table, **at):
    return {(r["p"], r["k"]): r for r in table.scan(**at).to_arrow().to_pylist()}


def check(table, expected):
    """Every row is there, is found where a look-up looks for it, and lies in one bucket."""
    assert content(table) == expected
    found = table.get_many([{"p": p, "k": k} for p, k in expected]).to_pylist()
    assert {(r["p"], r["k"]): r for r in found} == expected
    assert table.get(("a", 10_000)) is None
    assert table.verify().ok


def files_read(table, condition):
    found = table.scan(filter=condition).explain()["buckets"]
    return sum(b["files_read"] for b in found), sum(b["files_total"] for b in found)


@pytest.mark.parametrize("order", ["order", "zorder", "z-order", "hilbert"])
def test_rows_stay_and_are_found(table, order):
    before = content(table)
    report = table.sort_compact(["x", "y"], order=order)
    assert report.partitions == 2
    assert report.rows_written == len(before)
    assert table.latest_snapshot().kind == "sort-compact"
    check(table, before)
    check(lsmerge.open_table(table.uri), before)


def test_a_filter_by_the_columns_skips_files(table):
    read, total = files_read(table, "p = 'a' and x < 100")
    assert read == total
    table.sort_compact("x", buckets=10)
    read, total = files_read(table, "p = 'a' and x < 100")
    assert total == 10
    assert read <= 2
    expected = [r for r in content(table).values() if r["p"] == "a" and r["x"] < 100]
    found = table.scan(filter="p = 'a' and x < 100").to_arrow().to_pylist()
    assert sorted(found, key=lambda r: r["k"]) == sorted(expected, key=lambda r: r["k"])


@pytest.mark.parametrize("order", ["zorder", "hilbert"])
def test_a_curve_serves_both_columns(table, order):
    table.sort_compact(["x", "y"], order=order, buckets=16)
    for condition in ("p = 'a' and x < 200", "p = 'a' and y < 'y200'"):
        read, total = files_read(table, condition)
        assert read <= total // 2, condition


def test_only_the_partitions_named(table):
    before = content(table)
    b = table.partitions()[1]
    table.sort_compact("x", partition={"p": "a"}, buckets=2)
    assert table.partitions()[1] == b
    check(table, before)
    assert table.sort_compact("x", partition={"p": "nowhere"}).snapshot_id is None


def test_keys_of_one_hash_share_a_bucket_of_their_own(memory_uri):
    """Were they in their ranges, the index could not tell; were they with others, nothing could be skipped."""
    schema = pa.schema({"k": pa.int64(), "x": pa.int32()})
    options = {"bucket": -1, "dynamic-bucket.target-row-num": 20}
    table = lsmerge.create_table(memory_uri, schema, "k", options=options)
    keys = [*range(100), *TWINS]
    table.upsert({"k": keys, "x": [*range(100), 0, 99]})
    table.sort_compact("x", buckets=4)
    places = buckets_of_keys(table)
    assert [places[k] for k in TWINS] == [4, 4]
    assert [k for k in keys if places[k] == 4] == list(TWINS)
    assert [table.get(k)["x"] for k in TWINS] == [0, 99]
    table.upsert({"k": [*TWINS], "x": [1, 2]})
    assert [table.get(k)["x"] for k in TWINS] == [1, 2]
    table.sort_compact("x", buckets=1)
    assert set(buckets_of_keys(table).values()) == {0, 1}
    assert table.get_many(keys).num_rows == len(keys)


def test_hashes_of_deleted_keys_are_forgotten(table):
    table.sort_compact("x")
    version = table._context.versions.load(table.latest_snapshot())
    known = sum(f.num_hashes for f in version.index_files(("a",)))
    assert known == sum(1 for p, _ in content(table) if p == "a")
    table.delete([("b", k) for k in range(50)])
    table.sort_compact("x", partition={"p": "b"})
    assert [info.values for info in table.partitions()] == [{"p": "a"}]
    table.upsert(rows("b", range(5)))
    assert table.get(("b", 3)) is not None


def test_more_buckets_than_files_are_open_at_once(table, monkeypatch):
    monkeypatch.setattr(redistribute, "MAX_OPEN_BUCKETS", 2)
    before = content(table)
    table.sort_compact("x", buckets=7)
    check(table, before)


def test_a_table_without_rows(memory_uri):
    assert create(memory_uri).sort_compact("x").snapshot_id is None


def test_how_many_buckets_there_are(table, monkeypatch):
    """As many as the keys need; more where each still has rows worth reading apart; never more than allowed."""
    table.sort_compact("x")
    assert [info.buckets for info in table.partitions()] == [11, 2]
    table.alter(options={"dynamic-bucket.target-row-num": "1000000"})
    table.sort_compact("x")
    assert [info.buckets for info in table.partitions()] == [1, 1]
    monkeypatch.setattr(sort_compact, "ROWS_WORTH_A_BUCKET", 30)
    table.sort_compact("x")
    assert [info.buckets for info in table.partitions()] == [9, 1]
    table.alter(options={"dynamic-bucket.max-buckets": "3"})
    table.sort_compact("x")
    assert [info.buckets for info in table.partitions()] == [3, 1]


# ------------------------------------------------------------------------------------------ other snapshots


def test_time_travel_sees_the_old_buckets(table):
    before, latest = content(table), table.latest_snapshot().id
    table.sort_compact("x")
    table.upsert(rows("a", range(300), 9))
    assert content(table, snapshot=latest) == before
    key = ("a", 150)
    assert table.get(key, snapshot=latest) == before[key]


@pytest.mark.parametrize("producer", ["none", "input", "lookup", "full-compaction"])
def test_followers_do_not_see_it(memory_uri, producer):
    table = create(memory_uri, changelog_producer=producer)
    table.upsert(rows("a", range(100), 1))
    if producer == "full-compaction":
        table.compact(full=True)
    snapshot = table.sort_compact("x").snapshot_id
    assert list(table.changelog(start=snapshot)) == []
    assert list(table.diff(snapshot - 1, snapshot)) == []


def test_it_tells_what_a_full_compaction_would(memory_uri):
    table = create(memory_uri, changelog_producer="full-compaction")
    table.upsert(rows("a", range(100), 1))
    snapshot = table.sort_compact("x").snapshot_id
    table.upsert(rows("a", range(5), 2))
    table.sort_compact("x")
    told = [r for batch in table.changelog(start=snapshot) for r in batch.to_pylist()]
    assert [r["_row_kind"] for r in told].count("+I") == 100
    assert [r["_row_kind"] for r in told].count("+U") == 5
    assert len(told) == 110


def test_a_difference_over_it_tells_real_changes_only(table):
    first = table.latest_snapshot().id
    table.sort_compact("x")
    table.upsert(rows("a", [150, 1000], 9))
    told = [r for batch in table.diff(first, first + 2) for r in batch.to_pylist()]
    assert sorted((r["k"], r["_row_kind"]) for r in told) == [
        (150, "+U"),
        (150, "-U"),
        (1000, "+I"),
    ]


def test_a_rollback_over_it_brings_the_old_buckets_back(table):
    before, latest = content(table), table.latest_snapshot().id
    table.sort_compact("x", buckets=3)
    table.upsert(rows("a", range(500, 600), 4))
    after, clustered = content(table), table.latest_snapshot().id
    table.rollback_to(latest)
    check(table, before)
    table.upsert(rows("a", [100], 5))
    check(table, before | content(table))
    table.rollback_to(clustered)
    check(table, after)
    table.expire_snapshots(retain_max=1)
    check(table, after)
    assert index_names(table.uri) == live_index_names(table)


# -------------------------------------------------------------------------------------------- meeting others


def test_a_writer_places_anew_what_it_placed_by_the_old_index(table):
    """Known keys, new ones, and one whose hash the new index has forgotten."""
    before = content(table)
    written = rows("a", [*range(0, 300, 7), *range(1000, 1010)], 8)
    with table.writer() as writer:
        writer.write(written)
        lsmerge.open_table(table.uri).sort_compact("x", buckets=5)
    check(table, before | {("a", r["k"]): r for r in written})
    table.upsert(rows("a", range(300), 11))
    table.compact(full=True)
    check(table, content(table))
    assert sorted(k for p, k in content(table) if p == "a") == [*range(300), *range(1000, 1010)]


@pytest.mark.parametrize("producer", ["input", "lookup"])
def test_a_writer_that_places_anew_tells_its_changes_once(memory_uri, monkeypatch, producer):
    table = create(memory_uri, changelog_producer=producer)
    table.upsert(rows("a", range(100), 1))
    rival = lsmerge.open_table(memory_uri)
    meanwhile(monkeypatch, table, lambda: rival.sort_compact("x", buckets=5))
    snapshot = table.upsert(rows("a", range(50, 150), 2)).id
    told = [r for batch in table.changelog(start=snapshot) for r in batch.to_pylist()]
    kinds = {kind: sum(r["_row_kind"] == kind for r in told) for kind in ("+I", "-U", "+U")}
    if producer == "input":
        assert kinds == {"+I": 100, "-U": 0, "+U": 0}
    else:
        assert kinds == {"+I": 50, "-U": 50, "+U": 50}


def test_a_writer_meets_one_between_its_attempts(table, monkeypatch):
    before, rival = content(table), lsmerge.open_table(table.uri)
    meanwhile(monkeypatch, table, lambda: rival.sort_compact("x", buckets=5))
    written = rows("a", range(250, 350), 8)
    table.upsert(written)
    check(table, before | {("a", r["k"]): r for r in written})
    assert index_names(table.uri) >= live_index_names(table)


def test_rows_placed_by_an_old_index_are_never_published(table, monkeypatch):
    """The committer looks itself, whatever the writer does."""
    before, rival = content(table), lsmerge.open_table(table.uri)
    meanwhile(monkeypatch, table, lambda: rival.sort_compact("x", buckets=5))
    monkeypatch.setattr(DynamicPlacer, "relocate", lambda _placer, _version: None)
    with pytest.raises(lsmerge.CommitConflictError, match="placed by an index"):
        table.upsert(rows("a", range(250, 350), 8))
    check(rival, before)


def test_an_open_writer_of_several_runs_keeps_their_order(memory_uri):
    table = create(memory_uri, write_buffer_size="4 kb")
    table.upsert(rows("a", range(60), 1))
    with table.writer() as writer:
        for seed in range(5):
            writer.write(rows("a", range(60), seed))
        lsmerge.open_table(memory_uri).sort_compact("x", buckets=3)
    check(table, {("a", r["k"]): r for r in rows("a", range(60), 4)})


def test_writers_that_land_first_are_taken_along(table, monkeypatch):
    before, rival = content(table), lsmerge.open_table(table.uri)
    late = rows("a", [*range(20), *range(290, 320)], 7)

    def write():
        rival.upsert(rows("a", range(290, 320), 6))
        rival.upsert(late)
        rival.delete([("a", 200)])

    meanwhile(monkeypatch, table, write)
    table.sort_compact("x", buckets=4)
    expected = before | {("a", r["k"]): r for r in late}
    del expected["a", 200]
    check(table, expected)
    table.upsert(rows("a", range(290, 320), 12))
    check(table, expected | {("a", r["k"]): r for r in rows("a", range(290, 320), 12)})
    assert index_names(table.uri) >= live_index_names(table)


@pytest.mark.parametrize("action", ["compact", "overwrite", "sort"])
def test_whoever_takes_its_files_makes_it_begin_again(table, monkeypatch, action):
    rival = lsmerge.open_table(table.uri)
    actions = {
        "compact": lambda: rival.compact(full=True),
        "overwrite": lambda: rival.overwrite(rows("a", range(9)), {"p": "a"}),
        "sort": lambda: rival.sort_compact("y", buckets=3),
    }
    meanwhile(monkeypatch, table, actions[action])
    table.sort_compact("x", buckets=2)
    check(table, content(rival))
    assert [info.buckets for info in table.partitions()] == [2, 2]


def test_against_a_rival_who_is_always_faster_it_gives_up_and_leaves_nothing(table, monkeypatch):
    rival = lsmerge.open_table(table.uri)
    publish, tries = type(table._context.snapshots).publish, []

    def racing(store, snapshot):
        if store is table._context.snapshots:
            tries.append(snapshot.id)
            rival.upsert(rows("a", [1]))
            rival.compact(full=True)
        publish(store, snapshot)

    monkeypatch.setattr(type(table._context.snapshots), "publish", racing)
    with pytest.raises(lsmerge.CommitConflictError):
        table.sort_compact("x")
    assert len(tries) == partition_rewrite.MAX_ATTEMPTS
    orphans = table.remove_orphan_files(older_than=LATER, dry_run=True)
    assert orphans.files == ()


def test_a_compaction_of_the_old_buckets_fails(table, monkeypatch):
    before, rival = content(table), lsmerge.open_table(table.uri)
    meanwhile(monkeypatch, table, lambda: rival.sort_compact("x"))
    with pytest.raises(lsmerge.CommitConflictError):
        table.compact(full=True)
    check(table, before)


def test_keys_that_move_between_partitions(memory_uri):
    """The index says in which bucket of which partition a key lives."""
    schema = pa.schema({"p": pa.string(), "k": pa.int64(), "x": pa.int32()})
    options = {"bucket": -1, "dynamic-bucket.target-row-num": 10}
    table = lsmerge.create_table(memory_uri, schema, "k", partition_by="p", options=options)
    table.upsert({"p": ["a"] * 50, "k": range(50), "x": range(50, 0, -1)})
    with table.writer() as writer:
        writer.write({"p": ["b"] * 10, "k": range(40, 50), "x": [0] * 10})
        rival = lsmerge.open_table(memory_uri)
        rival.upsert({"p": ["c"] * 5, "k": range(38, 43), "x": [1] * 5})
        rival.sort_compact("x", buckets=4)
    table.upsert({"p": ["c"] * 5, "k": range(5), "x": [7] * 5})
    expected = {k: "c" if k < 5 or k in (38, 39) else "b" if k >= 40 else "a" for k in range(50)}
    found = table.scan().to_arrow().to_pylist()
    assert {r["k"]: r["p"] for r in found} == expected
    assert len(found) == 50
    assert {k: table.get(k)["p"] for k in range(50)} == expected


# ------------------------------------------------------------------------------------------------ refusals


def test_it_is_refused_where_the_hash_chooses_the_bucket(memory_uri):
    table = lsmerge.create_table(memory_uri, SCHEMA, "k", options={"bucket": 4})
    with pytest.raises(lsmerge.InvalidOptionError, match=r"'bucket' = 4 the hash .* 'bucket' = -1"):
        table.sort_compact(["x", "y"], order="zorder")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"by": []}, "name one column"),
        ({"by": ["x", "x"]}, "each once"),
        ({"by": "z"}, "'z'"),
        ({"by": "tags"}, "has no order"),
        ({"by": "x", "order": "spiral"}, "order, zorder, hilbert"),
        ({"by": "x", "partition": {"k": 1}}, "'k'"),
        ({"by": "x", "buckets": 0}, "0 buckets: accepted: 1 to"),
        ({"by": "x", "buckets": 2**15}, "accepted: 1 to 32767"),
        ({"by": "x", "buckets": "2"}, "'2' buckets: give a whole number"),
        ({"by": "x", "progress": 3}, "progress = 3"),
    ],
)
def test_what_cannot_be_clustered_by(memory_uri, arguments, message):
    with pytest.raises(lsmerge.LsmergeError, match=message):
        create(memory_uri).sort_compact(**arguments)
