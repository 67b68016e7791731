"""Readers of changes: where they start, how they go on, and what they are told."""

import dataclasses
import itertools
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.engine import merging, opening
from lsmerge.engine.opening import store_at
from lsmerge.env import Env
from lsmerge.meta.consumer import ConsumerStore
from lsmerge.storage import layout
from tests.changelog_replay import Replay, rows_of

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string()})
LOOKUP = {"changelog-producer": "lookup"}
FULL = {"changelog-producer": "full-compaction", "write-only": "true"}


@pytest.fixture
def table(memory_uri):
    return lsmerge.create_table(memory_uri, SCHEMA, "k", options=LOOKUP)


def upsert(table, **values):
    """One commit of rows such as k1="a"."""
    return table.upsert([{"k": int(name[1:]), "v": v} for name, v in values.items()])


def told(batches):
    """Changes as text such as '1 +I 1 a': snapshot, kind, key, value."""
    rows = (row for batch in batches for row in batch.to_pylist())
    return [f"{r['_snapshot_id']} {r['_row_kind']} {r['k']} {r['v']}" for r in rows]


def expire(table, *snapshot_ids):
    """What expiry does first: the snapshots are gone."""
    for snapshot_id in snapshot_ids:
        table._context.store.delete(layout.snapshot_path(snapshot_id))


# ---- start and end ----


def test_by_default_a_reader_starts_with_the_first_snapshot(table):
    upsert(table, k1="a")
    upsert(table, k1="b", k2="x")
    assert told(table.changelog()) == ["1 +I 1 a", "2 -U 1 a", "2 +U 1 b", "2 +I 2 x"]
    assert told(table.changelog(2)) == ["2 -U 1 a", "2 +U 1 b", "2 +I 2 x"]
    assert told(table.changelog(1, 1)) == ["1 +I 1 a"]
    assert told(table.changelog(3)) == []


def test_latest_full_begins_with_the_table_and_misses_and_repeats_nothing(table):
    upsert(table, k1="a", k2="x")
    table.delete([2])
    changes = table.changelog("latest-full")
    upsert(table, k1="b")
    assert told(changes) == ["2 +I 1 a", "3 -U 1 a", "3 +U 1 b"]


def test_latest_full_of_an_empty_table_is_its_beginning(table):
    changes = table.changelog("latest-full")
    upsert(table, k1="a")
    assert told(changes) == ["1 +I 1 a"]


def test_latest_full_waits_for_what_a_full_compaction_has_not_told_yet(memory_uri):
    table = lsmerge.create_table(memory_uri, SCHEMA, "k", options=FULL)
    upsert(table, k1="a")
    table.compact(full=True)
    upsert(table, k1="b", k2="x")
    changes = table.changelog("latest-full")
    table.compact(full=True)
    assert told(changes) == ["3 +I 1 a", "4 -U 1 a", "4 +U 1 b", "4 +I 2 x"]


def test_latest_is_what_comes_after_the_call(table):
    upsert(table, k1="a")
    changes = table.changelog("latest")
    upsert(table, k1="b")
    assert told(changes) == ["2 -U 1 a", "2 +U 1 b"]


def test_earliest_is_the_oldest_snapshot_left(table):
    for value in "abc":
        upsert(table, k1=value)
    expire(table, 1)
    assert told(table.changelog("earliest", 2)) == ["2 -U 1 a", "2 +U 1 b"]


def test_a_time_is_the_first_snapshot_at_or_after_it(memory_uri):
    env = Env.seeded(1)
    context = opening.create(store_at(memory_uri), SCHEMA, "k", (), LOOKUP, exist_ok=False, env=env)
    table = lsmerge.Table(context)
    times = [upsert(table, k1=value).timestamp_ms for value in "abc"]
    second = datetime.fromtimestamp(times[1] / 1000, UTC)
    moment = timedelta(microseconds=1)
    for start in (second, second - moment, pa.scalar(second, pa.timestamp("us", "Europe/Berlin"))):
        assert told(table.changelog(start, 2)) == ["2 -U 1 a", "2 +U 1 b"]
    assert told(table.changelog(second + moment)) == ["3 -U 1 b", "3 +U 1 c"]
    assert told(table.changelog(datetime.fromtimestamp(0, UTC), 1)) == ["1 +I 1 a"]
    changes = table.changelog(datetime(2200, 1, 1, tzinfo=UTC))
    upsert(table, k1="d")
    assert told(changes) == ["4 -U 1 c", "4 +U 1 d"]


@pytest.mark.parametrize(
    ("start", "named"),
    [
        ("newest", "latest-full, latest, earliest"),
        (0, "numbered from 1"),
        (1.5, "snapshots go by number"),
        (datetime(2024, 1, 1), "a time needs its zone"),
        (pa.scalar(0, pa.timestamp("us")), "a time needs its zone"),
    ],
)
def test_a_start_that_cannot_be_is_refused_by_the_call(table, start, named):
    with pytest.raises(lsmerge.SnapshotNotFoundError, match=named):
        table.changelog(start)


def test_a_snapshot_that_is_gone_is_refused_with_the_earliest_left(table):
    for value in "abc":
        upsert(table, k1=value)
    changes = table.changelog(1)
    expire(table, 1, 2)
    for read in (lambda: table.changelog(2), lambda: list(changes)):
        with pytest.raises(lsmerge.SnapshotNotFoundError, match="the earliest one left is 3"):
            read()


def test_a_consumer_whose_snapshot_is_gone_is_told_the_way_out(table):
    for value in "abc":
        upsert(table, k1=value)
    table.changelog(consumer="me")
    expire(table, 1)
    with pytest.raises(lsmerge.SnapshotNotFoundError, match="delete_consumer"):
        table.changelog("earliest", consumer="me")
    table.delete_consumer("me")
    assert told(table.changelog("earliest", 2, consumer="me")) == ["2 -U 1 a", "2 +U 1 b"]


def test_follow_waits_longer_and_longer_for_what_comes(memory_uri):
    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) in (4, 5):
            upsert(lsmerge.open_table(memory_uri), k1=f"{len(pauses)}")

    env = dataclasses.replace(Env.seeded(1), sleep=sleep)
    context = opening.create(store_at(memory_uri), SCHEMA, "k", (), LOOKUP, exist_ok=False, env=env)
    changes = lsmerge.Table(context).changelog(follow=True, end=2)
    assert told(changes) == ["1 +I 1 4", "2 -U 1 4", "2 +U 1 5"]
    assert pauses == [0.01, 0.02, 0.04, 0.08, 0.01]


def names_of(batch):
    return [name for name in batch.schema.names if not name.startswith("_")]


def test_a_follower_shows_the_columns_of_an_altered_table(table):
    upsert(table, k1="a")
    changes, other = table.changelog(follow=True), lsmerge.open_table(table.uri)
    assert names_of(next(changes)) == ["k", "v"]
    other.alter(add={"c": pa.int64()})
    other.upsert({"k": [1], "v": ["b"], "c": [3]})
    batch = next(changes)
    assert names_of(batch) == ["k", "v", "c"]
    assert batch["c"].to_pylist() == [None, 3]
    other.alter(rename={"v": "w"}, drop=["c"])
    other.upsert({"k": [1], "w": ["d"]})
    batch = next(changes)
    assert names_of(batch) == ["k", "w"]
    assert batch["w"].to_pylist() == ["b", "d"]


def test_a_follower_goes_by_the_newest_columns_not_by_those_of_the_snapshot(table):
    upsert(table, k1="a")
    changes, other = table.changelog(follow=True), lsmerge.open_table(table.uri)
    next(changes)
    other.alter(add={"c": pa.int64()})
    other.upsert({"k": [1], "v": ["b"], "c": [3]})
    other.alter(rename={"c": "d"})
    assert names_of(next(changes)) == ["k", "v", "d"]


def test_a_reader_that_does_not_follow_keeps_its_columns(table):
    upsert(table, k1="a")
    changes = table.changelog()
    next(changes)
    table.alter(add={"c": pa.int64()})
    upsert(table, k1="b")
    assert names_of(next(changes)) == ["k", "v"]


# ---- consumers ----


def test_a_consumer_goes_on_where_it_stopped(table):
    upsert(table, k1="a")
    assert told(table.changelog(consumer="me")) == ["1 +I 1 a"]
    assert table.consumers() == {"me": 2}
    upsert(table, k1="b")
    again = lsmerge.open_table(table.uri)
    assert told(again.changelog(1, consumer="me")) == ["2 -U 1 a", "2 +U 1 b"], (
        "start is for new ones"
    )
    assert told(again.changelog(consumer="me")) == []
    assert told(again.changelog(consumer="other"))[0] == "1 +I 1 a"


def test_a_snapshot_half_taken_comes_again_from_its_beginning(memory_uri):
    options = LOOKUP | {"bucket": "4"}
    table = lsmerge.create_table(memory_uri, SCHEMA, "k", options=options)
    upsert(table, **{f"k{i}": "a" for i in range(9)})
    upsert(table, k1="b")
    changes = table.changelog(consumer="me")
    first = told([next(changes)])
    changes.close()
    assert table.consumers() == {"me": 1}
    changes = table.changelog(consumer="me")
    assert told([next(changes)]) == first
    for batch in changes:
        (snapshot_id,) = set(batch["_snapshot_id"].to_pylist())
        assert table.consumers() == {"me": snapshot_id}
    assert table.consumers() == {"me": 3}


def test_the_whole_table_half_taken_is_that_of_the_same_snapshot(memory_uri):
    table = lsmerge.create_table(memory_uri, SCHEMA, "k", options=LOOKUP | {"bucket": "4"})
    upsert(table, **{f"k{i}": "a" for i in range(9)})
    changes = table.changelog("latest-full", consumer="me")
    next(changes)
    changes.close()
    upsert(table, k1="b")
    replay = Replay(["k"])
    replay.apply(table.changelog("latest-full", end=1, consumer="me"))
    assert replay.rows == rows_of(table, 1)
    assert table.consumers() == {"me": 2}
    assert told(table.changelog(consumer="me")) == ["2 -U 1 a", "2 +U 1 b"]


def test_a_new_consumer_keeps_what_it_will_need(table):
    upsert(table, k1="a")
    table.changelog(consumer="from-the-start")
    table.changelog("latest", consumer="from-now-on")
    assert table.consumers() == {"from-now-on": 2, "from-the-start": 1}


def test_snapshots_without_changes_are_passed_over(table):
    upsert(table, k1="a")
    table.compact(full=True)
    upsert(table, k2="b")
    table.compact(full=True)
    assert told(table.changelog(consumer="me")) == ["1 +I 1 a", "3 +I 2 b"]
    assert table.consumers() == {"me": 5}


def test_a_forgotten_consumer_starts_anew(table):
    upsert(table, k1="a")
    list(table.changelog(consumer="me"))
    table.delete_consumer("me")
    table.delete_consumer("nobody")
    assert table.consumers() == {}
    assert told(table.changelog(consumer="me")) == ["1 +I 1 a"]


def test_a_crash_between_two_places_leaves_the_newer_one(table):
    upsert(table, k1="a")
    store = table._context.store
    kept, store.delete = store.delete, lambda _path: None
    list(table.changelog(consumer="me"))
    store.delete = kept
    assert len(list(store.list("consumer"))) == 2
    assert table.consumers() == {"me": 2}
    assert told(table.changelog(consumer="me")) == []


@pytest.mark.parametrize("name", ["", "a/b", "..", ".a", "é", "x" * 101, 5])
def test_a_consumer_needs_a_plain_name(table, name):
    with pytest.raises(lsmerge.InvalidOptionError, match="consumer"):
        table.changelog(consumer=name)


def test_a_damaged_place_is_named(table):
    upsert(table, k1="a")
    list(table.changelog(consumer="me"))
    path = layout.consumer_path("me", 2)
    store = table._context.store
    store.replace(path, store.get(path).to_pybytes().replace(b"2,", b"7,"))
    with pytest.raises(lsmerge.CorruptFileError, match=path):
        table.changelog(consumer="me")
    assert ConsumerStore(store).positions() == {"me": 2}


# ---- what is told ----


def test_defaults_are_told_and_not_stored(memory_uri):
    options = LOOKUP | {
        "fields.v.default-value": "none",
        "changelog-producer.row-deduplicate": "true",
    }
    table = lsmerge.create_table(memory_uri, SCHEMA, "k", options=options)
    upsert(table, k1=None)
    upsert(table, k1="none")
    upsert(table, k1="a")
    assert told(table.changelog()) == ["1 +I 1 none", "3 -U 1 none", "3 +U 1 a"]


def test_a_lookup_reads_only_where_its_keys_may_be(memory_uri):
    fine = {"file.block-size": "4 kb", "target-file-size": "16 kb"}
    table = lsmerge.create_table(memory_uri, SCHEMA, "k", options=LOOKUP | fine)
    table.upsert([{"k": k, "v": f"{k:0100d}"} for k in range(2000)])
    table.compact(full=True)
    blocks = table.scan().explain()["buckets"][0]["blocks"]
    before = table.cache_stats()
    upsert(table, k7="new")
    assert blocks > 20
    # The block that it wrote, and the one of its key.
    assert table.cache_stats().misses - before.misses <= 2


def test_the_cache_keeps_to_its_size_and_says_how_it_fared(memory_uri):
    options = {"lookup.cache-max-memory-size": "20 kb", "file.block-size": "4 kb"}
    table = lsmerge.create_table(memory_uri, SCHEMA, "k", options=options)
    table.upsert([{"k": k, "v": f"{k:0100d}"} for k in range(500)])
    for k in (1, 1, *range(0, 500, 20)):
        table.get(k)
    stats = table.cache_stats()
    assert stats.hits >= 1
    assert stats.evictions > 0
    assert stats.blocks == stats.misses - stats.evictions
    assert 0 < stats.size_bytes <= stats.max_bytes == 20 * 1024


def test_damage_in_a_changelog_file_is_seen(tmp_path):
    table = lsmerge.create_table(tmp_path / "t", SCHEMA, "k", options=LOOKUP)
    upsert(table, k1="a")
    (path,) = tmp_path.rglob("changelog-*")
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)
    table = lsmerge.open_table(tmp_path / "t")
    assert path.name in "".join(table.verify().problems)
    with pytest.raises(lsmerge.CorruptFileError, match=path.name):
        list(table.changelog())


def test_changelog_files_of_expired_snapshots_are_not_missed(table):
    upsert(table, k1="a")
    upsert(table, k1="b")
    store = table._context.store
    (gone,) = [f for f in table._context.versions.delta(table.snapshots()[0]) if not f.is_data]
    expire(table, 1)
    store.delete(table._context.file_path(gone))
    assert table.verify().ok
    assert told(table.changelog(2)) == ["2 -U 1 a", "2 +U 1 b"]


def test_input_is_in_the_order_of_the_sequence_then_of_arrival(memory_uri):
    options = {"changelog-producer": "input", "sequence.field": "s"}
    schema = SCHEMA.append(pa.field("s", pa.int32()))
    table = lsmerge.create_table(memory_uri, schema, "k", options=options)
    rows = [(2, "late"), (1, "early"), (2, "last"), (None, "first")]
    table.upsert([{"k": 1, "s": s, "v": v} for s, v in rows])
    assert [r.split()[-1] for r in told(table.changelog())] == ["first", "early", "late", "last"]


def test_input_by_event_time_is_in_the_order_of_arrival(memory_uri):
    options = {
        "changelog-producer": "input",
        "record.merge.mode": "event-time-ordering",
        "record.merge.ordering-fields": "s",
    }
    schema = SCHEMA.append(pa.field("s", pa.int32()))
    table = lsmerge.create_table(memory_uri, schema, "k", options=options)
    rows = [("+I", 5, "before"), ("-D", None, None), ("+I", 3, "after")]
    table.write([{"_row_kind": kind, "k": 1, "s": s, "v": v} for kind, s, v in rows])
    assert told(table.changelog()) == ["1 +I 1 before", "1 -D 1 None", "1 +I 1 after"]
    assert table.get(1)["v"] == "after"


# ---- the difference of two snapshots ----


@pytest.mark.parametrize("window_rows", [1, 1000])
@pytest.mark.parametrize("compacted", [False, True])
def test_the_difference_of_any_two_snapshots_leads_from_one_to_the_other(
    memory_uri, monkeypatch, window_rows, compacted
):
    monkeypatch.setattr(merging, "_window_rows", lambda _context, _blocks: window_rows)
    options = {
        "bucket": "2",
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "listagg",
    }
    table = lsmerge.create_table(memory_uri, SCHEMA, "k", options=options)
    for number in range(4):
        upsert(table, **{f"k{k}": f"{number}" for k in range(number, number + 3)})
        if compacted:
            table.compact(full=number % 2 == 0)
    last = table.latest_snapshot().id
    for before, after in itertools.product(range(1, last + 1), repeat=2):
        replay = Replay(["k"], rows_of(table, before), is_deduplicated=True)
        replay.apply(table.diff(before, after))
        assert replay.rows == rows_of(table, after)


def test_a_difference_leaves_out_what_is_equal_and_reads_no_common_file(memory_uri):
    table = lsmerge.create_table(memory_uri, SCHEMA, "k")
    upsert(table, k1="a", k2="b")
    table.compact(full=True)
    upsert(table, k8="c", k9="d")
    misses = table.cache_stats().misses
    assert told(table.diff(2, 3)) == ["3 +I 8 c", "3 +I 9 d"]
    assert told(table.diff(3, 2)) == ["2 -D 8 c", "2 -D 9 d"]
    assert list(table.diff(1, 2)) == []
    assert table.cache_stats().misses == misses
    with pytest.raises(lsmerge.SnapshotNotFoundError, match="snapshot 4 does not exist"):
        table.diff(1, 4)


@pytest.fixture
def expiring(tmp_path):
    """Two snapshots to compare, and a call after which their files are gone."""
    table = lsmerge.create_table(tmp_path / "t", SCHEMA, "k", options={"write-only": True})
    upsert(table, k1="a", k2="b")
    upsert(table, k1="c", k2="b")

    def expire():
        table.compact(full=True)
        table.expire_snapshots(retain_max=1)

    return table, expire


def test_a_difference_that_was_begun_comes_to_its_end(expiring):
    table, expire = expiring
    rows = iter(lsmerge.open_table(table.uri).diff(1, 2))
    first = next(rows)
    expire()
    assert told([first, *rows]) == ["2 -U 1 a", "2 +U 1 c"]


def test_a_difference_of_snapshots_that_expired_before_it_was_read(expiring):
    table, expire = expiring
    rows = lsmerge.open_table(table.uri).diff(1, 2)
    expire()
    with pytest.raises(lsmerge.SnapshotExpiredError, match="expired while it was read"):
        list(rows)
    with pytest.raises(lsmerge.SnapshotExpiredError, match="snapshot 1 has expired"):
        table.diff(1, 3)


def test_a_difference_of_snapshots_that_tags_keep(expiring):
    table, expire = expiring
    table.create_tag("one", snapshot=1)
    expire()
    assert told(table.diff(1, 3)) == ["3 -U 1 a", "3 +U 1 c"]


# ---- as JSON ----


def documents(batches):
    return [json.loads(text) for text in lsmerge.debezium(batches)]


def test_envelopes_of_all_kinds_of_changes(table):
    upsert(table, k1="a", k2="x")
    upsert(table, k1="b")
    snapshot = table.delete([1])
    found = [(d["op"], d["before"], d["after"]) for d in documents(table.changelog())]
    assert found == [
        ("c", None, {"k": 1, "v": "a"}),
        ("c", None, {"k": 2, "v": "x"}),
        ("u", {"k": 1, "v": "a"}, {"k": 1, "v": "b"}),
        ("d", {"k": 1, "v": "b"}, None),
    ]
    last = documents(table.changelog())[-1]
    assert (last["ts_ms"], last["source"]) == (snapshot.timestamp_ms, {"snapshot_id": 3})


def test_a_pair_that_two_batches_share_is_one_update(table):
    upsert(table, k1="a")
    upsert(table, k1="b")
    (batch,) = table.changelog(2)
    assert [d["op"] for d in documents([batch.slice(0, 1), batch.slice(1)])] == ["u"]


def test_a_lone_update_before_takes_a_row_back(memory_uri):
    options = {"changelog-producer": "input"}
    table = lsmerge.create_table(memory_uri, SCHEMA, "k", options=options)
    kinds = [("-U", 1), ("+U", 2), ("-U", 3)]
    table.write([{"_row_kind": kind, "k": k, "v": None} for kind, k in kinds])
    assert [d["op"] for d in documents(table.changelog())] == ["d", "u", "d"]


def test_every_type_becomes_json(memory_uri):
    values = {
        "b": (pa.binary(), b"\xff", "/w=="),
        "d": (pa.decimal128(9, 2), Decimal("1.50"), "1.50"),
        "t": (pa.date32(), date(2024, 1, 31), "2024-01-31"),
        "n": (pa.timestamp("ns"), 1, "1970-01-01 00:00:00.000000001"),
        "f": (pa.float64(), float("nan"), "nan"),
        "l": (pa.list_(pa.binary()), [b"a", None], ["YQ==", None]),
        "m": (pa.map_(pa.string(), pa.int32()), [("x", 1)], [["x", 1]]),
        "s": (pa.struct({"x": pa.bool_()}), {"x": True}, {"x": True}),
    }
    schema = pa.schema({"k": pa.int64()} | {name: type_ for name, (type_, _, _) in values.items()})
    table = lsmerge.create_table(memory_uri, schema, "k")
    columns = {n: pa.array([value], type_) for n, (type_, value, _) in values.items()}
    table.upsert(pa.table({"k": pa.array([1])} | columns))
    (document,) = documents(table.changelog())
    assert document["after"] == {"k": 1} | {n: plain for n, (_, _, plain) in values.items()}
