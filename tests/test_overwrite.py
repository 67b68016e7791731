"""Whole partitions as units: overwriting, dropping, listing; against other writers and compactions."""

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.engine import compact

SCHEMA = pa.schema({"p": pa.string(), "h": pa.int32(), "k": pa.int64(), "v": pa.string()})
KEY = ["p", "h", "k"]


@pytest.fixture
def table(memory_uri):
    table = lsmerge.create_table(
        memory_uri, SCHEMA, KEY, partition_by=["p", "h"], options={"bucket": 2}
    )
    table.upsert(rows("a", 0, "old", range(4)))
    table.upsert(rows("a", 1, "old", range(4)))
    table.upsert(rows("b", 0, "old", range(4)))
    return table


def rows(p, h, v, keys):
    return [{"p": p, "h": h, "k": k, "v": v} for k in keys]


def content(table, **scan):
    found = table.scan(**scan).to_arrow().to_pylist()
    return sorted((row["p"], row["h"], row["k"], row["v"]) for row in found)


def as_content(*parts):
    return sorted((row["p"], row["h"], row["k"], row["v"]) for part in parts for row in part)


OLD = {(p, h): rows(p, h, "old", range(4)) for p, h in [("a", 0), ("a", 1), ("b", 0)]}


def test_one_partition_is_replaced(table):
    new = rows("a", 1, "new", [2, 9])
    snapshot = table.overwrite(new, {"p": "a", "h": 1})
    assert snapshot.kind == "overwrite"
    assert content(table) == as_content(OLD["a", 0], new, OLD["b", 0])
    assert content(table, snapshot=snapshot.id - 1) == as_content(*OLD.values())
    assert table.get(("a", 1, 0)) is None
    assert table.get(("a", 1, 9)) == new[1]
    assert table.verify().ok


def test_a_column_less_names_all_its_partitions(table):
    new = rows("a", 7, "new", [1])
    table.overwrite(new, {"p": "a"})
    assert content(table) == as_content(new, OLD["b", 0])


def test_several_partitions(table):
    new = rows("b", 0, "new", [1])
    table.overwrite(new, [{"p": "a", "h": 0}, {"p": "b"}])
    assert content(table) == as_content(OLD["a", 1], new)


def test_dynamic_replaces_what_the_data_touches(table):
    new = [*rows("a", 0, "new", [5]), *rows("c", 0, "new", [6])]
    table.overwrite(new, mode="dynamic")
    assert content(table) == as_content(OLD["a", 1], OLD["b", 0], new)
    table.overwrite([], mode="dynamic")
    assert content(table) == as_content(OLD["a", 1], OLD["b", 0], new)


def test_the_whole_table(table):
    new = rows("z", 0, "new", [1])
    table.overwrite(new)
    assert content(table) == as_content(new)
    table.overwrite([])
    assert content(table) == []
    table.upsert(new)
    assert content(table) == as_content(new)


def test_deletes_in_the_data_hide_nothing_but_its_own_rows(table):
    new = [{**row, "_row_kind": kind} for row, kind in zip(OLD["a", 0], ["+I", "-D"], strict=False)]
    table.overwrite(new, {"p": "a", "h": 0})
    assert content(table) == as_content(OLD["a", 0][:1], OLD["a", 1], OLD["b", 0])


def test_an_overwrite_happens_once(table):
    new = rows("a", 0, "new", [1])
    identity = {"commit_user": "job", "commit_id": 1}
    first = table.overwrite(new, {"p": "a"}, **identity)
    table.upsert(rows("a", 0, "later", [2]))
    assert table.overwrite(new, {"p": "a"}, **identity).id == first.id
    assert content(table) == as_content(new, rows("a", 0, "later", [2]), OLD["b", 0])


def test_rows_elsewhere_are_refused_and_leave_nothing(tmp_path):
    table = lsmerge.create_table(tmp_path / "t", SCHEMA, KEY, partition_by=["p", "h"])
    table.upsert(rows("a", 0, "old", range(4)))
    files = sorted(tmp_path.rglob("*.arrow"))
    with pytest.raises(lsmerge.SchemaMismatchError, match=r"rows of partition \['b', '0'\].*p='a'"):
        table.overwrite([*rows("a", 0, "new", [1]), *rows("b", 0, "new", [1])], {"p": "a"})
    assert sorted(tmp_path.rglob("*.arrow")) == files
    assert content(table) == as_content(OLD["a", 0])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"partition": {"q": 1}}, lsmerge.SchemaMismatchError, "partition column 'q'"),
        ({"partition": {"k": 1}}, lsmerge.SchemaMismatchError, "partition column 'k'"),
        ({"partition": {"h": "x"}}, lsmerge.SchemaMismatchError, "'h' .INT.*'x' .str. is not one"),
        ({"partition": {"h": 1.5}}, lsmerge.SchemaMismatchError, "'h' .INT.*1.5"),
        ({"partition": {"h": 2**40}}, lsmerge.SchemaMismatchError, "'h' .INT"),
        ({"partition": {}}, lsmerge.SchemaMismatchError, "at least one"),
        ({"partition": []}, lsmerge.SchemaMismatchError, "pass a mapping"),
        ({"partition": "a"}, lsmerge.SchemaMismatchError, "pass a mapping"),
        ({"mode": "append"}, lsmerge.InvalidOptionError, "static, dynamic"),
        ({"mode": "dynamic", "partition": {"p": "a"}}, lsmerge.InvalidOptionError, "leave one"),
    ],
)
def test_what_cannot_be_meant_is_refused(table, arguments, error, message):
    with pytest.raises(error, match=message):
        table.overwrite([], **arguments)
    assert content(table) == as_content(*OLD.values())


def test_a_table_without_partitions(memory_uri):
    table = lsmerge.create_table(memory_uri, SCHEMA, KEY)
    with pytest.raises(lsmerge.InvalidOptionError, match="no partition columns"):
        table.overwrite([], mode="dynamic")
    with pytest.raises(lsmerge.SchemaMismatchError, match="no partition columns"):
        table.overwrite([], {"p": "a"})
    table.overwrite(rows("a", 0, "new", [1]))
    assert content(table) == [("a", 0, 1, "new")]


def test_dropped_partitions_are_gone(table):
    table.drop_partition({"p": "a", "h": 1})
    assert content(table) == as_content(OLD["a", 0], OLD["b", 0])
    table.drop_partition([{"p": "b"}, {"p": "nowhere"}])
    assert content(table) == as_content(OLD["a", 0])
    assert [info.values for info in table.partitions()] == [{"p": "a", "h": 0}]
    with pytest.raises(lsmerge.SchemaMismatchError, match="name the partitions"):
        table.drop_partition(None)


def test_partitions_are_listed_with_their_sizes(table):
    table.upsert(rows("a", 0, "newer", range(2)))
    found = {tuple(info.values.values()): info for info in table.partitions()}
    assert list(found) == [("a", 0), ("a", 1), ("b", 0)]
    assert [info.rows for info in found.values()] == [6, 4, 4]
    assert [info.buckets for info in found.values()] == [2, 2, 2]
    assert found["a", 0].files > found["b", 0].files
    assert found["a", 0].size_bytes > found["b", 0].size_bytes > 0


def test_no_partitions_before_the_first_commit(memory_uri):
    assert lsmerge.create_table(memory_uri, SCHEMA, KEY).partitions() == []


# --------------------------------------------------------------------------------------- meeting others


def meanwhile(monkeypatch, table, action):
    """Do something else after the table's next commit was prepared, and before it is published."""
    publish = type(table._context.snapshots).publish
    done = []

    def racing(store, snapshot):
        if not done and store is table._context.snapshots:
            done.append(True)
            action()
        publish(store, snapshot)

    monkeypatch.setattr(type(table._context.snapshots), "publish", racing)


def test_an_append_that_lands_first_is_replaced_too(table, monkeypatch):
    rival = lsmerge.open_table(table.uri)
    meanwhile(monkeypatch, table, lambda: rival.upsert(rows("a", 0, "rival", [1, 8])))
    new = rows("a", 0, "new", [1])
    table.overwrite(new, {"p": "a", "h": 0})
    assert content(table) == as_content(new, OLD["a", 1], OLD["b", 0])
    assert content(table, snapshot=4) != content(table)


def test_an_append_that_lands_later_is_added(table, monkeypatch):
    rival = lsmerge.open_table(table.uri)
    new = rows("a", 0, "new", [1])
    meanwhile(monkeypatch, table, lambda: rival.overwrite(new, {"p": "a", "h": 0}))
    table.upsert(rows("a", 0, "later", [8]))
    later = rows("a", 0, "later", [8])
    assert content(table) == as_content(new, later, OLD["a", 1], OLD["b", 0])


def test_a_compaction_that_lands_first_is_replaced_too(table, monkeypatch):
    rival = lsmerge.open_table(table.uri)
    meanwhile(monkeypatch, table, lambda: rival.compact(full=True))
    new = rows("a", 0, "new", [1])
    table.overwrite(new, {"p": "a", "h": 0})
    assert content(table) == as_content(new, OLD["a", 1], OLD["b", 0])


def test_a_compaction_that_lands_later_fails_and_leaves_nothing(table, monkeypatch):
    rival = lsmerge.open_table(table.uri)
    new = rows("a", 0, "new", [1])
    table.upsert(rows("a", 0, "old", range(4)))
    meanwhile(monkeypatch, table, lambda: rival.overwrite(new, {"p": "a", "h": 0}))
    discarded = []
    monkeypatch.setattr(compact, "discard", lambda _context, files: discarded.extend(files))
    with pytest.raises(lsmerge.CommitConflictError, match="overwrite"):
        table.compact(full=True)
    assert discarded
    assert content(table) == as_content(new, OLD["a", 1], OLD["b", 0])


# ------------------------------------------------------------------------------------------- changelog


def changes(table, **between):
    found = [row for batch in table.changelog(**between) for row in batch.to_pylist()]
    return [(row["_row_kind"], row["p"], row["h"], row["k"], row["v"]) for row in found]


def replayed(table):
    """The table that a follower has who applies every change."""
    state = {}
    for kind, *values in changes(table):
        if kind in ("+I", "+U"):
            state[tuple(values[:3])] = tuple(values)
        else:
            state.pop(tuple(values[:3]), None)
    return sorted(state.values())


def test_followers_do_not_see_an_overwrite_by_default(table):
    snapshot = table.overwrite(rows("a", 0, "new", [1]), {"p": "a"})
    assert changes(table, start=snapshot.id) == []


def test_with_the_option_a_replay_gives_the_table(memory_uri):
    table = lsmerge.create_table(
        memory_uri,
        SCHEMA,
        KEY,
        partition_by=["p", "h"],
        options={"bucket": 2, "streaming-read-overwrite": "true"},
    )
    table.upsert(rows("a", 0, "old", range(4)))
    table.upsert([*rows("a", 0, "newer", [1]), *rows("b", 0, "old", [1])])
    table.delete([("a", 0, 2)])
    snapshot = table.overwrite(rows("a", 0, "new", [1, 7]), {"p": "a"})
    expected = [
        ("-D", *row[:4]) for row in [("a", 0, 0, "old"), ("a", 0, 1, "newer"), ("a", 0, 3, "old")]
    ]
    found = changes(table, start=snapshot.id)
    assert sorted(found[:3]) == sorted(expected)
    assert sorted(found[3:]) == [("+I", "a", 0, 1, "new"), ("+I", "a", 0, 7, "new")]
    table.rescale(3)
    table.drop_partition({"p": "b"})
    table.compact(full=True)
    assert replayed(table) == content(table)
