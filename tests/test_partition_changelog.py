"""Overwrites and rescales beside changelogs, differences, target columns, rollbacks and dynamic buckets."""

import pyarrow as pa
import pytest

import lsmerge
from tests.changelog_replay import Replay, rows_of
from tests.test_overwrite import meanwhile

SCHEMA = pa.schema({"p": pa.string(), "k": pa.int64(), "v": pa.int64()})
KEY = ["p", "k"]
TARGET = "dynamic-bucket.target-row-num"


def create(uri, **options):
    named = {"bucket": 2, "write-only": True} | {
        name.replace("_", "-"): value for name, value in options.items()
    }
    return lsmerge.create_table(uri, SCHEMA, KEY, partition_by="p", options=named)


def rows(p, v, keys):
    return [{"p": p, "k": k, "v": v} for k in keys]


def told(table, start=1, end=None):
    return [
        (c["_snapshot_id"], c["_row_kind"], c["p"], c["k"], c["v"])
        for batch in table.changelog(start, end)
        for c in batch.to_pylist()
    ]


def check_lookups(table):
    expected = rows_of(table)
    found = table.get_many([dict(zip(KEY, key, strict=True)) for key in expected]).to_pylist()
    assert {(row["p"], row["k"]): row for row in found} == expected


def test_a_lookup_is_made_anew_for_runs_that_are_split_anew(memory_uri, monkeypatch):
    table = create(memory_uri, changelog_producer="lookup")
    table.upsert(rows("a", 1, range(20)))
    rival = lsmerge.open_table(memory_uri)

    def rescale_and_write():
        rival.upsert(rows("a", 2, range(10)))
        rival.rescale(3)

    meanwhile(monkeypatch, table, rescale_and_write)
    table.upsert(rows("a", 3, range(5, 25)))
    replay = Replay(KEY)
    replay.apply(table.changelog())
    assert replay.rows == rows_of(table)
    assert table.partitions()[0].buckets == 3
    assert table.verify().ok
    assert table.remove_orphan_files(older_than="0 s", dry_run=True).files == ()


def test_rows_told_unmerged_stay_where_they_are(memory_uri, monkeypatch):
    table = create(memory_uri, changelog_producer="input")
    table.upsert(rows("a", 1, range(8)))
    rival = lsmerge.open_table(memory_uri)
    meanwhile(monkeypatch, table, lambda: rival.rescale(5))
    written = rows("a", 2, range(4, 12))
    table.upsert(written)
    assert sorted(told(table, 3)) == sorted((3, "+I", "a", r["k"], 2) for r in written)
    check_lookups(table)
    assert table.verify().ok


def test_a_rescale_tells_what_a_full_compaction_would_tell(memory_uri):
    table = create(memory_uri, changelog_producer="full-compaction")
    replay = Replay(KEY)
    table.upsert(rows("a", 1, range(10)))
    table.compact(full=True)
    table.upsert(rows("a", 2, range(5, 15)))
    table.rescale(3)
    replay.apply(table.changelog())
    assert replay.rows == rows_of(table)
    table.upsert(rows("a", 3, range(2)))
    table.compact(full=True)
    replay.apply(table.changelog(5))
    assert replay.rows == rows_of(table)


@pytest.mark.parametrize("producer", ["input", "lookup", "none"])
def test_producers_tell_nothing_of_overwrites_and_rescales(memory_uri, producer):
    table = create(memory_uri, changelog_producer=producer)
    table.upsert(rows("a", 1, [1, 2]))
    table.overwrite(rows("a", 2, [1]), {"p": "a"})
    table.rescale(3)
    assert told(table, 2) == []
    table.upsert(rows("a", 3, [1]))
    last = {"lookup": [(4, "-U", "a", 1, 2), (4, "+U", "a", 1, 3)]}
    assert told(table, 4) == last.get(producer, [(4, "+I", "a", 1, 3)])


def test_an_overwrite_is_shown_beside_rows_told_unmerged(memory_uri):
    table = create(memory_uri, changelog_producer="input", streaming_read_overwrite=True)
    table.upsert(rows("a", 1, [1, 2]))
    table.overwrite(rows("a", 2, [1]), {"p": "a"})
    *gone, new = told(table, 2)
    assert sorted(gone) == [(2, "-D", "a", 1, 1), (2, "-D", "a", 2, 1)]
    assert new == (2, "+I", "a", 1, 2)


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_overwrites_are_not_told_by_producers_that_compare(memory_uri, producer):
    with pytest.raises(lsmerge.InvalidOptionError, match="streaming-read-overwrite"):
        create(memory_uri, changelog_producer=producer, streaming_read_overwrite=True)


def test_a_full_compaction_tells_the_new_rows_of_an_overwrite(memory_uri):
    table = create(memory_uri, changelog_producer="full-compaction")
    table.upsert(rows("a", 1, [1, 2]))
    table.compact(full=True)
    table.overwrite(rows("a", 2, [1]), {"p": "a"})
    table.compact(full=True)
    assert told(table, 3) == [(4, "+I", "a", 1, 2)]


@pytest.mark.parametrize("counts", [(3,), (4,), (1,), (5, 2)])
def test_the_difference_across_a_rescale_is_that_of_rows(memory_uri, counts):
    table = create(memory_uri)
    table.upsert(rows("a", 1, range(20)) + rows("b", 1, range(3)))
    for count in counts:
        table.rescale(count, {"p": "a"})
    rescaled = table.latest_snapshot().id
    assert list(table.diff(1, rescaled)) == []
    table.upsert(rows("a", 2, [3, 30]))
    table.delete([{"p": "a", "k": 4}])
    for before, after in [(1, rescaled + 2), (rescaled + 2, 1)]:
        replay = Replay(KEY, rows=rows_of(table, before))
        replay.apply(table.diff(before, after))
        assert replay.rows == rows_of(table, after)


def test_a_rollback_brings_the_count_back(memory_uri):
    table = create(memory_uri)
    table.upsert(rows("a", 1, range(20)))
    before = rows_of(table)
    writer = lsmerge.open_table(memory_uri)
    table.rescale(5)
    writer.upsert(rows("a", 2, range(10, 30)))
    late = lsmerge.open_table(memory_uri).writer()
    late.write(rows("a", 3, range(25)))
    table.rollback_to(1)
    assert table.partitions()[0].buckets == 2
    assert rows_of(table) == before
    check_lookups(table)
    late.commit()
    assert {row["v"] for row in rows_of(table).values()} == {3}
    check_lookups(table)
    table.compact(full=True)
    assert table.verify().ok


def test_columns_not_written_stay_unwritten_when_split_anew(memory_uri, monkeypatch):
    schema = pa.schema({"k": pa.int64(), "a": pa.int64(), "b": pa.int64()})
    options = {"write-only": True}
    table = lsmerge.create_table(memory_uri, schema, "k", options=options)
    table.upsert([{"k": k, "a": 1, "b": 1} for k in range(20)])
    rival = lsmerge.open_table(memory_uri)
    rival.write([{"k": k, "b": 2} for k in range(10)], columns=["k", "b"])
    meanwhile(monkeypatch, table, lambda: rival.rescale(3))
    table.write([{"k": k, "a": 3} for k in range(5, 20)], columns=["k", "a"])
    expected = {k: (3 if k >= 5 else 1, 2 if k < 10 else 1) for k in range(20)}
    for _ in range(2):
        found = table.scan().to_arrow().to_pylist()
        assert {row["k"]: (row["a"], row["b"]) for row in found} == expected
        assert table.scan(filter="b = 1 and a = 3").count() == 10
        assert table.get(7) == {"k": 7, "a": 3, "b": 2}
        table.rescale(2)


def test_values_not_written_hide_no_rows_from_a_filter(memory_uri):
    """Statistics of a file whose rows wrote other columns know only nulls of this one."""
    schema = pa.schema({"k": pa.int64(), "a": pa.int64(), "b": pa.int64()})
    table = lsmerge.create_table(memory_uri, schema, "k", options={"write-only": True})
    table.write([{"k": 1, "a": 5}], columns=["k", "a"])
    table.write([{"k": 1, "b": 6}], columns=["k", "b"])
    assert table.scan(filter="a = 5").to_arrow().to_pylist() == [{"k": 1, "a": 5, "b": 6}]
    assert table.scan(filter="a = 6").count() == 0


def test_overwrite_and_drop_with_dynamic_buckets(memory_uri):
    table = create(memory_uri, bucket=-1, **{TARGET: 4})
    table.upsert(rows("a", 1, range(20)) + rows("b", 1, range(6)))
    buckets = table.partitions()[0].buckets
    assert buckets >= 5
    table.overwrite(rows("a", 2, range(10, 30)), {"p": "a"})
    assert {key for key in rows_of(table) if key[0] == "a"} == {("a", k) for k in range(10, 30)}
    assert table.latest_snapshot().layout_since == 0
    dropped = table.drop_partition({"p": "b"})
    assert [p.values for p in table.partitions()] == [{"p": "a"}]
    table.upsert(rows("b", 3, range(3)) + rows("a", 3, range(15)))
    check_lookups(table)
    assert len(rows_of(table)) == 33
    assert table.latest_snapshot().layout_since == dropped.id  # the index of b began anew
    assert table.verify().ok
    with pytest.raises(lsmerge.InvalidOptionError, match="-1"):
        table.rescale(2)


def test_a_dynamic_writer_that_loses_to_an_overwrite(memory_uri, monkeypatch):
    table = create(memory_uri, bucket=-1, **{TARGET: 3})
    table.upsert(rows("a", 1, range(5)))
    rival = lsmerge.open_table(memory_uri)
    meanwhile(monkeypatch, table, lambda: rival.overwrite(rows("a", 2, range(4, 12)), {"p": "a"}))
    table.upsert(rows("a", 3, range(8, 14)))
    assert {key[1]: row["v"] for key, row in rows_of(table).items()} == {
        k: 3 if k >= 8 else 2 for k in range(4, 14)
    }
    check_lookups(table)


def test_an_overwrite_that_loses_to_a_dynamic_writer(memory_uri, monkeypatch):
    table = create(memory_uri, bucket=-1, **{TARGET: 3})
    table.upsert(rows("a", 1, range(5)))
    rival = lsmerge.open_table(memory_uri)
    meanwhile(monkeypatch, table, lambda: rival.upsert(rows("a", 3, range(8, 14))))
    table.overwrite(rows("a", 2, range(4, 12)), {"p": "a"})
    assert {key[1]: row["v"] for key, row in rows_of(table).items()} == dict.fromkeys(
        range(4, 12), 2
    )
    check_lookups(table)
    assert table.verify().ok


def test_keys_that_move_between_partitions(memory_uri):
    """Where a new row goes would follow from what is replaced; partitions may be dropped."""
    options = {"bucket": -1}
    table = lsmerge.create_table(memory_uri, SCHEMA, "k", partition_by="p", options=options)
    table.upsert(rows("a", 1, [1, 2]) + rows("b", 1, [3]))
    with pytest.raises(lsmerge.InvalidOptionError, match="not available"):
        table.overwrite(rows("a", 2, [3]), {"p": "a"})
    table.drop_partition({"p": "a"})
    table.upsert(rows("c", 2, [2, 3]))
    assert {row["k"]: row["p"] for row in table.scan().to_arrow().to_pylist()} == {2: "c", 3: "c"}
    assert table.get(1) is None
