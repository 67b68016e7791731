"""What a writer promises when it is used in odd ways, and what the write path does with odd data."""

import contextlib
import dataclasses
import datetime as dt
import decimal

import pyarrow as pa
import pytest

import lsmerge
from lsmerge import CommitConflictError
from lsmerge.engine.buckets import _distinct_rows
from lsmerge.storage.object_store import open_store

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])


@pytest.fixture
def table(memory_uri):
    return lsmerge.create_table(memory_uri, SCHEMA, "k")


def rows(table):
    return {row["k"]: row["v"] for row in table.scan().to_arrow().to_pylist()}


def data_files(table):
    return [info.path for info in open_store(table.uri).list("bucket-0")]


def test_aborting_after_the_commit_takes_nothing_back(table):
    writer = table.writer()
    writer.write({"k": [1], "v": ["a"]})
    writer.commit()
    writer.abort()
    assert rows(table) == {1: "a"}


def test_a_block_may_commit_or_abort_itself(table):
    with table.writer() as writer:
        writer.write({"k": [1], "v": ["a"]})
        writer.commit()
    with table.writer() as writer:
        writer.write({"k": [2], "v": ["b"]})
        writer.abort()
    assert rows(table) == {1: "a"}
    assert len(table.snapshots()) == 1


def test_a_swallowed_failure_still_ends_the_block(table):
    def swallow():
        with table.writer() as writer:
            writer.write({"k": [1], "v": ["a"]})
            with contextlib.suppress(lsmerge.SchemaMismatchError):
                writer.write({"k": [None], "v": ["b"]})

    with pytest.raises(lsmerge.TableClosedError, match="earlier write failed"):
        swallow()
    assert rows(table) == {}


@pytest.mark.parametrize(
    ("user", "number"),
    [
        ("u", "abc"),
        ("u", 1.5),
        (7, 1),
        (None, 1),
        ("u", None),
        ("u", True),
        ("u", -1),
        ("", 1),
        ("u", 2**63),
    ],
)
def test_an_identity_that_could_not_be_recognised_is_refused(table, user, number):
    with pytest.raises(lsmerge.InvalidOptionError, match="commit_"):
        table.write({"k": [1], "v": ["a"]}, commit_user=user, commit_id=number)
    assert table.latest_snapshot() is None


def test_a_repeated_commit_writes_nothing(table):
    for _ in range(3):
        table.write({"k": [1], "v": ["a"]}, commit_user="u", commit_id=1)
    with table.writer(commit_user="u", commit_id=1) as writer:
        writer.write({"k": [2], "v": ["b"]})
    assert len(data_files(table)) == 1
    assert rows(table) == {1: "a"}


def test_delete_takes_no_other_kinds(table):
    table.upsert({"k": [1, 2], "v": ["a", "b"]})
    with pytest.raises(lsmerge.SchemaMismatchError, match="_row_kind"):
        table.delete(pa.table({"k": [1], "_row_kind": ["+I"]}))
    table.delete(pa.table({"k": [1], "_row_kind": ["-D"]}))
    assert rows(table) == {2: "b"}


def test_memory_that_changes_before_the_commit(table):
    memory = bytearray((1).to_bytes(8, "little") * 4)
    keys = pa.Array.from_buffers(pa.int64(), 4, [None, pa.py_buffer(memory)])
    with table.writer() as writer:
        writer.write(pa.table({"k": keys}))
        memory[:] = (9).to_bytes(8, "little") * 4
    assert list(rows(table)) == [1]


def test_many_small_batches_are_joined(table):
    """A merge plan has at most 65,535 sources, and finding a row's source takes longer the more there are."""
    writer = table.writer()
    order = [(i * 7919) % 5000 for i in range(5000)]
    for key in order:
        writer.write(pa.record_batch({"k": pa.array([key], pa.int64())}))
    (bucket,) = writer._buffered._buckets.values()
    assert len(bucket.settle()) == 5
    writer.commit()
    assert table.scan().to_arrow()["k"].to_pylist() == sorted(order)


def test_both_zeros_are_one_partition_value(memory_uri):
    schema = pa.schema([pa.field("p", pa.float64()), ("k", pa.int64()), ("v", pa.string())])
    table = lsmerge.create_table(memory_uri, schema, ["p", "k"], partition_by="p")
    table.upsert([{"p": p, "k": 1, "v": v} for p, v in ((0.0, "a"), (-0.0, "b"), (0.0, "c"))])
    assert [row["v"] for row in table.scan().to_arrow().to_pylist()] == ["c"]


def test_many_distinct_partition_values_do_not_mix():
    width = 8192
    columns = [
        pa.array([i % width if i // width == c else 0 for i in range(5 * width)], pa.int32())
        for c in range(5)
    ]
    distinct, ids = _distinct_rows(columns)
    expected = set(zip(*(column.to_pylist() for column in columns), strict=True))
    assert len(distinct[0]) == len(expected)
    found = list(zip(*(column.to_pylist() for column in distinct), strict=True))
    numbers = memoryview(ids).cast("i").tolist()
    assert [found[n] for n in numbers] == list(zip(*(c.to_pylist() for c in columns), strict=True))


@pytest.mark.parametrize(
    ("type_", "values", "text"),
    [
        (pa.time64("us"), [dt.time(1, 2, 3, 4), dt.time(23)], "p = '23:00:00'"),
        (
            pa.date32(),
            [pa.scalar(-800_000, pa.int32()).cast(pa.date32()), dt.date(2024, 1, 1)],
            "p = '2024-01-01'",
        ),
        (
            pa.timestamp("us"),
            [pa.scalar(-(2**62), pa.timestamp("us")), dt.datetime(2024, 1, 1)],
            "p = '2024-01-01'",
        ),
        (pa.binary(), [b"\0\xff", b""], None),
        (pa.decimal128(6, 2), None, "p = 1.5"),
    ],
)
def test_partition_values_of_every_sort_are_filtered(memory_uri, type_, values, text):
    values = values or [decimal.Decimal("1.50"), decimal.Decimal("-2")]
    schema = pa.schema([pa.field("p", type_), ("k", pa.int64())])
    table = lsmerge.create_table(memory_uri, schema, ["p", "k"], partition_by="p")
    data = pa.table({"p": pa.array(values, type_), "k": [1, 2]}, schema=schema)
    table.upsert(data)
    assert table.scan().to_arrow().sort_by("k") == data.cast(table.schema)
    assert table.scan(filter="p is not null").count() == 2
    if text:
        assert table.scan(filter=text).count() == 1


def test_a_key_beyond_the_limit_is_refused(memory_uri):
    table = lsmerge.create_table(memory_uri, pa.schema({"s": pa.string()}), "s")
    table.upsert({"s": ["x" * 65_536]})
    with pytest.raises(lsmerge.SchemaMismatchError, match=r"'s'.*65537 bytes at row 1"):
        table.upsert({"s": ["a", "x" * 65_537]})
    assert table.get("x" * 65_536) is not None


def test_a_second_that_parquet_cannot_hold_is_refused(memory_uri):
    table = lsmerge.create_table(
        memory_uri, pa.schema({"k": pa.int64(), "t": pa.timestamp("s")}), "k"
    )
    with pytest.raises(lsmerge.SchemaMismatchError, match="'t'"):
        table.upsert(pa.table({"k": [1], "t": pa.array([2**60], pa.timestamp("s"))}))


def test_nanoseconds_that_python_cannot_hold(memory_uri):
    table = lsmerge.create_table(
        memory_uri, pa.schema({"k": pa.int64(), "t": pa.timestamp("ns")}), "k"
    )
    table.upsert(pa.table({"k": [1], "t": pa.array([1_000_000_001], pa.timestamp("ns"))}))
    assert table.get(1)["t"].value == 1_000_000_001


def test_columns_named_like_our_own(memory_uri):
    schema = pa.schema({"_position": pa.int64(), "v": pa.string()})
    table = lsmerge.create_table(memory_uri, schema, "_position")
    table.upsert({"_position": [3, 1], "v": ["c", "a"]})
    assert table.get_many([1, 2, 3]).to_pylist() == [
        {"_position": 1, "v": "a"},
        {"_position": 3, "v": "c"},
    ]


def test_many_blocks_are_looked_up_at_once(memory_uri):
    table = lsmerge.create_table(memory_uri, SCHEMA, "k", options={"file.block-size": "4 kb"})
    count = 20_000
    table.upsert(pa.table({"k": range(count), "v": ["x" * 100] * count}))
    assert table.get_many(list(range(count))).num_rows == count


def test_an_expired_delete_marker_goes_with_the_next_full_compaction(memory_uri):
    options = {"sequence.field": "v", "tombstone.retention": "7 d"}
    table = lsmerge.create_table(memory_uri, SCHEMA, "k", options=options)
    table.upsert({"k": [1, 2], "v": ["a", "a"]})
    table.delete([{"k": 1, "v": "b"}])
    assert table.compact(full=True).rows_written == 2
    assert table.compact(full=True).snapshot_id is None
    context = table._context
    later = dataclasses.replace(context.env, now_ms=lambda: context.env.now_ms() + 30 * 86_400_000)
    table._open_context = dataclasses.replace(context, env=later)
    assert table.compact(full=True).rows_written == 1


def test_a_delete_has_its_place_in_sequence_groups(memory_uri):
    schema = pa.schema({name: pa.int64() for name in ("k", "g", "a")})
    options = {"merge-engine": "partial-update", "fields.g.sequence-group": "a"}
    table = lsmerge.create_table(memory_uri, schema, "k", options=options)
    table.upsert([{"k": 1, "g": 3, "a": 7}])
    with pytest.raises(lsmerge.SchemaMismatchError, match="'g'"):
        table.delete(pa.table({"k": [1]}))
    table.delete([{"k": 1, "g": 2}])
    assert table.get(1) == {"k": 1, "g": 3, "a": 7}
    table.delete([{"k": 1, "g": 4}])
    assert table.get(1) == {"k": 1, "g": 4, "a": None}


# ------------------------------------------------------------------------------ nothing, and others


def test_no_rows_make_no_snapshot(memory_uri):
    table = lsmerge.create_table(memory_uri, pa.schema({"k": pa.int64()}), "k")
    assert table.upsert([]).id == 1, "there must be one to return"
    assert table.upsert({"k": [1]}).id == 2
    assert table.upsert([]).id == 2
    assert table.delete([]).id == 2
    with table.writer() as writer:
        pass
    assert writer.snapshot.id == 2
    assert table.overwrite([]).id == 3, "rows went"


def test_no_rows_with_an_identity_are_a_commit(memory_uri):
    table = lsmerge.create_table(memory_uri, pa.schema({"k": pa.int64()}), "k")
    table.upsert({"k": [1]})
    assert table.write([], commit_user="job", commit_id=7).id == 2
    assert table.write({"k": [2]}, commit_user="job", commit_id=7).id == 2, "it was made before"


def test_rows_based_on_what_others_changed_are_refused(memory_uri):
    table = lsmerge.create_table(memory_uri, pa.schema({"k": pa.int64()}), "k")
    with table.writer(based_on=0) as writer:
        writer.write({"k": [1]})
    with (
        pytest.raises(CommitConflictError, match=r"snapshot 1 \(append\) came after snapshot 0"),
        table.writer(based_on=0) as writer,
    ):
        writer.write({"k": [2]})
    with pytest.raises(CommitConflictError, match="read again"):
        table.delete([1], based_on=0)
    assert table.latest_snapshot().id == 1
    assert table.scan().count() == 1


def test_rows_based_on_what_was_only_compacted_are_accepted(memory_uri):
    table = lsmerge.create_table(memory_uri, pa.schema({"k": pa.int64()}), "k")
    table.upsert({"k": [1]})
    table.upsert({"k": [1, 2]})
    table.compact(full=True)
    assert table.delete([2], based_on=2).id == 4
    assert table.delete_columns == ("k",)
