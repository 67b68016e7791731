"""Writing some columns: what is refused, what other reads see, and what files hold.

What the rows mean under every schedule is in test_placement, what Fluss answers in the conformance cases.
"""

import itertools

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lsmerge
from lsmerge.merge.written import bitmap, bitmaps, wrote
from lsmerge.rowkind import WRITTEN_COLUMN
from tests.model import KINDS, Model
from tests.model_engines import Change
from tests.searches import examples

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("a", pa.int64()),
        pa.field("b", pa.string()),
    ]
)
AGGREGATION = {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"}
_uris = (f"memory://targets-{number}" for number in itertools.count(1))


def table(options=None, schema=SCHEMA, key="k", **arguments):
    return lsmerge.create_table(next(_uris), schema, key, options=options, **arguments)


def rows(t):
    return [tuple(row.values()) for row in t.scan().to_arrow().to_pylist()]


# ------------------------------------------------------------------------------------------ meaning


def test_a_column_that_was_not_written_keeps_its_value_and_a_null_overwrites():
    t = table()
    t.upsert([{"k": 1, "a": 1, "b": "x"}, {"k": 2, "a": 2, "b": "y"}])
    t.write([{"k": 1, "a": None}, {"k": 3, "a": 3}], columns=["a", "k"])
    assert rows(t) == [(1, None, "x"), (2, 2, "y"), (3, 3, None)]
    assert t.get(1) == {"k": 1, "a": None, "b": "x"}
    assert t.get_many([3, 1])["b"].to_pylist() == [None, "x"]
    assert t.scan(columns=["b"]).to_arrow()["b"].to_pylist() == ["x", "y", None]
    assert t.scan(filter="b = 'x'").count() == 1


def test_a_list_of_the_key_alone_changes_no_row_and_makes_one():
    t = table()
    t.upsert([{"k": 1, "a": 1, "b": "x"}])
    t.write({"k": [1, 2]}, columns=["k"])
    assert rows(t) == [(1, 1, "x"), (2, None, None)]


def test_a_list_of_all_columns_is_a_whole_row():
    t = table({"merge-engine": "first-row"})
    t.write([{"k": 1, "a": 1, "b": None}], columns=["b", "a", "k"])
    assert rows(t) == [(1, 1, None)]


def test_partial_update_takes_columns_not_written_as_null():
    t = table({"merge-engine": "partial-update"})
    t.upsert([{"k": 1, "a": 1, "b": "x"}])
    t.write([{"k": 1, "a": None}], columns=["k", "a"])
    t.write([{"k": 1, "b": "y"}], columns=["k", "b"])
    assert rows(t) == [(1, 1, "y")]


def test_a_retract_of_some_columns_empties_them_until_nothing_is_left():
    t = table()
    t.upsert([{"k": 1, "a": 1, "b": "x"}, {"k": 2, "a": 2, "b": None}])
    t.delete([1], columns=["k", "a"])
    t.delete([2], columns=["k", "a"])
    assert rows(t) == [(1, None, "x")]
    t.delete([1], columns=["k", "b"])
    assert rows(t) == []


def test_a_total_that_overflowed_to_null_still_keeps_its_row():
    schema = pa.schema({"k": pa.int64(), "n": pa.int8(), "b": pa.string()})
    options = {
        "merge-engine": "aggregation",
        "delete.behavior": "allow",
        "fields.n.aggregate-function": "sum",
        "fields.n.on-overflow": "null",
    }
    t = table(options, schema)
    t.upsert([{"k": 1, "n": 100, "b": "x"}, {"k": 1, "n": 100, "b": "y"}])
    t.delete([1], columns=["k", "b"])
    assert rows(t) == [(1, None, None)]
    t.upsert([{"k": 1, "n": -100, "b": None}])
    assert rows(t) == [(1, 100, None)]


def test_counts_are_those_of_the_rows_that_wrote_the_column():
    schema = pa.schema({"k": pa.int64(), "n": pa.int64(), "b": pa.string()})
    t = table({"merge-engine": "aggregation", "fields.n.aggregate-function": "count"}, schema)
    t.write([{"k": 1, "n": 7}], columns=["k", "n"])
    t.write([{"k": 1, "b": "x"}, {"k": 2, "b": "y"}], columns=["k", "b"])
    assert rows(t) == [(1, 1, "x"), (2, None, "y")]
    changes = [row for batch in t.changelog(start=2) for row in batch.to_pylist()]
    assert [row["n"] for row in changes] == [None, None]


def test_rows_of_some_columns_have_their_place_in_a_sequence():
    schema = pa.schema({"k": pa.int64(), "s": pa.int64(), "a": pa.int64(), "b": pa.int64()})
    for compacts in (False, True):
        t = table({"sequence.field": "s"}, schema)
        for row in ({"s": 5, "b": 5}, {"s": 3, "a": 3}, {"s": 4, "a": 4}, {"s": 1, "a": 1, "b": 1}):
            t.write([{"k": 1, **row}], columns=["k", *row])
            if compacts:
                t.compact(full=True)
        assert rows(t) == [(1, 5, 4, 5)]


def test_a_writer_has_one_list_for_all_its_batches():
    t = table(AGGREGATION)
    with t.writer(columns=iter(["k", "a"])) as w:
        w.write({"k": [1, 2], "a": [1, 2]})
        w.write({"k": [1], "a": [10]})
    assert rows(t) == [(1, 11, None), (2, 2, None)]


# ----------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("options", "columns", "message"),
    [
        ({}, ["a", "b"], "leave out primary key column 'k'"),
        ({}, ["k", "z"], "unknown column 'z'"),
        ({}, ["k", "a", "a"], "listed twice"),
        ({}, "ka", "pass a list of names"),
        ({"merge-engine": "first-row"}, ["k", "a"], "a first-row table takes whole rows only"),
        (
            {"merge-engine": "versioned", "merge-engine.versioned.ver-column": "a"},
            ["k", "a"],
            "a versioned table takes whole rows only",
        ),
        ({"sequence.field": "a"}, ["k", "b"], "leave out 'a', which orders"),
        ({"rowkind.field": "b"}, ["k", "a"], "leave out 'b', which holds the row kind"),
    ],
)
def test_lists_that_cannot_be_are_refused_before_data_is_looked_at(options, columns, message):
    t = table(options)
    with pytest.raises(lsmerge.SchemaMismatchError, match=message):
        t.writer(columns=columns)
    with pytest.raises(lsmerge.SchemaMismatchError, match=message):
        t.write(object(), columns=columns)
    assert t.latest_snapshot() is None


@pytest.mark.parametrize("engine", ["deduplicate", "aggregation", "partial-update"])
def test_a_column_that_must_have_a_value_makes_rows_whole(engine):
    schema = SCHEMA.set(2, pa.field("b", pa.string(), nullable=False))
    t = table({"merge-engine": engine}, schema)
    with pytest.raises(lsmerge.SchemaMismatchError, match="column 'b' is NOT NULL"):
        t.write([{"k": 1, "b": "x"}], columns=["k", "b"])


def test_a_partial_delete_needs_a_table_that_lets_it_empty_columns():
    t = table(AGGREGATION | {"aggregation.remove-record-on-delete": "true"})
    with pytest.raises(lsmerge.SchemaMismatchError, match=r"delete\.behavior=allow"):
        t.delete([1], columns=["k", "a"])


EVENT_TIME = {"record.merge.mode": "event-time-ordering", "record.merge.ordering-fields": "a"}
FILLING = {"record.merge.mode": "commit-time-ordering"} | {
    "record.merge.partial-mode": "fill-unavailable",
    "record.merge.unavailable-value": "?",
}


def test_a_delete_of_some_columns_needs_its_place_in_event_time():
    t = table(EVENT_TIME)
    with pytest.raises(lsmerge.SchemaMismatchError, match="ordering column 'a': value null"):
        t.delete([1], columns=["k", "a"])


def test_what_is_absent_needs_its_marker_where_null_is_a_value():
    with pytest.raises(lsmerge.SchemaMismatchError, match="takes whole rows only"):
        table(FILLING).write([{"k": 1, "a": 1}], columns=["k", "a"])


def test_data_has_exactly_the_columns_listed():
    t = table()
    with pytest.raises(lsmerge.SchemaMismatchError, match="target column 'a' is missing"):
        t.write([{"k": 1}], columns=["k", "a"])
    with pytest.raises(lsmerge.SchemaMismatchError, match="unknown column 'b'"):
        t.write([{"k": 1, "a": 1, "b": "x"}], columns=["k", "a"])


# ------------------------------------------------------------------------------------------- files


def has_written(t):
    """For each data file, oldest first, whether it says what rows wrote."""
    context = t._context
    version = context.versions.load(t.latest_snapshot())
    files = [file for place in version.places() for file in version.files(place)]
    files.sort(key=lambda file: file.sequence_max)
    return [
        WRITTEN_COLUMN in context.runs.reader(context.file_path(file), file.run).schema.names
        for file in files
    ]


def test_only_files_with_rows_of_some_columns_say_what_rows_wrote():
    t = table({"num-sorted-run.compaction-trigger": 3, "write-only": True})
    t.upsert([{"k": 1, "a": 1, "b": "x"}])
    t.write([{"k": 1, "a": 2}], columns=["k", "a"])
    assert has_written(t) == [False, True]
    t.compact(full=True)  # nothing is older: the rows are whole
    assert has_written(t) == [False]


def test_an_aggregate_remembers_what_was_written_through_a_full_compaction():
    options = {"merge-engine": "aggregation", "fields.b.aggregate-function": "first_value"}
    t = table(options)
    t.write([{"k": 1, "a": 1}], columns=["k", "a"])
    t.compact(full=True)
    t.upsert([{"k": 1, "a": 1, "b": "first"}])
    assert rows(t) == [(1, 1, "first")]
    t.compact(full=True)
    assert has_written(t) == [False]


def test_whole_rows_before_the_first_of_some_columns_are_in_files_of_their_own():
    options = AGGREGATION | {"file.block-size": "4 kb", "target-file-size": "200 kb"}
    t = table(options)
    t.upsert({"k": range(40_000), "a": range(40_000), "b": ["x"] * 40_000})
    t.write({"k": [300_000], "a": [1]}, columns=["k", "a"])
    t.compact(full=True)
    found = has_written(t)
    assert found.count(True) == 1
    assert len(found) > 1
    assert t.scan().count() == 40_001
    assert t.get(300_000) == {"k": 300_000, "a": 1, "b": None}


@pytest.mark.parametrize("options", [{}, AGGREGATION])
def test_runs_put_aside_remember_what_was_written(options):
    t = table(options | {"scan.memory-budget": "8 kb"})
    t.upsert({"k": range(100), "a": [0] * 100, "b": ["x"] * 100})
    for _ in range(20):
        t.write({"k": range(100), "a": [1] * 100}, columns=["k", "a"])
    expected = [(k, 20 if options else 1, "x") for k in range(100)]
    assert rows(t) == expected
    t.compact(full=True)
    assert rows(t) == expected
    assert has_written(t) == [False]


def test_deduplicate_drops_what_whole_rows_replaced():
    t = table({"num-sorted-run.compaction-trigger": 3, "write-only": True})
    for number in range(3):
        t.write([{"k": 1, "a": number}], columns=["k", "a"])
        t.write([{"k": 1, "_row_kind": "-D"}])
    report = t.compact(full=True)
    assert (report.rows_read, report.rows_written) == (6, 0)


@given(st.sets(st.integers(1, 70)), st.integers(1, 5))
def test_bitmaps_of_groups_are_those_of_their_columns(ids, count):
    flags = {number: bytes(number in ids for _ in range(count)) for number in range(1, 71)}
    expected = None if len(ids) == 70 else int.from_bytes(bitmap(ids), "little")
    found = bitmaps(flags, count).to_pylist()
    assert [v if v is None else int.from_bytes(v, "little") for v in found] == [expected] * count


# --------------------------------------------------------------------------------------- changelog


def test_a_batch_says_which_columns_it_wrote():
    def told(*values):
        return pa.RecordBatch.from_pydict({WRITTEN_COLUMN: pa.array(values, pa.binary())})

    some = bitmap([1, 9])
    assert [number for number in range(12) if wrote(told(some, some), number)] == [1, 9]
    assert wrote(told(None), 5), "whole rows wrote everything"
    assert wrote(told(), 5)
    assert wrote(pa.RecordBatch.from_pydict({"k": [1]}), 5)


COLUMNS = [None, ("k", "a"), ("k", "b"), ("k",)]
CHANGES = st.tuples(
    st.sampled_from(KINDS),
    st.integers(0, 2),
    st.none() | st.integers(0, 9),
    st.none() | st.just("x"),
)
COMMITS = st.lists(
    st.tuples(st.sampled_from(COLUMNS), st.lists(CHANGES, min_size=1, max_size=4)), max_size=5
)


@settings(max_examples=examples(15))
@given(COMMITS)
def test_the_changelog_of_deduplicate_shows_whole_rows(commits):
    t, model = table(), Model(SCHEMA.names, ["k"])
    for columns, drafts in commits:
        names = columns or SCHEMA.names
        changes = [
            Change(kind, {n: v for n, v in zip("kab", values, strict=True) if n in names}, columns)
            for kind, *values in drafts
        ]
        given_rows = [change.row | {"_row_kind": change.kind} for change in changes]
        snapshot = t.write(given_rows, columns=columns)
        model.commit(changes, snapshot.id)
    found = [row for batch in t.changelog() for row in batch.to_pylist()]
    assert sorted(
        (row["_snapshot_id"], row["k"], row["_row_kind"], row["a"], row["b"]) for row in found
    ) == sorted(
        (number, c.row["k"], c.kind, c.row["a"], c.row["b"]) for number, c in model.changelog()
    )


def test_the_changelog_of_an_aggregation_shows_what_was_written():
    t = table(AGGREGATION)
    t.upsert([{"k": 1, "a": 1, "b": "x"}])
    t.write([{"k": 1, "a": 5}, {"k": 1, "a": 6}], columns=["k", "a"])
    found = [row for batch in t.changelog(start=2) for row in batch.to_pylist()]
    assert [(row["_row_kind"], row["a"], row["b"]) for row in found] == [("+I", 11, None)]
