"""The record merger as its users meet it: doors, deletes with and without a time, partial updates."""

import dataclasses

import pyarrow as pa
import pytest

import lsmerge

SCHEMA = pa.schema({"k": pa.int64(), "ts": pa.int64(), "v": pa.string()})
EVENT = {"record.merge.ordering-fields": "ts"}
PARTIAL = EVENT | {"record.merge.partial-mode": "ignore-defaults"}
FILLING = EVENT | {
    "record.merge.partial-mode": "fill-unavailable",
    "record.merge.unavailable-value": "?",
}
DAY_MS = 86_400_000


def table_of(uri, options, schema=SCHEMA, key="k"):
    return lsmerge.create_table(uri, schema, key, options=options)


def days_later(table, days):
    """The same table, its clock put forward."""
    context = table._context
    later = dataclasses.replace(context.env, now_ms=lambda: context.env.now_ms() + days * DAY_MS)
    table._open_context = dataclasses.replace(context, env=later)
    return table


def rows_of(table):
    return [tuple(row.values()) for row in table.scan().to_arrow().to_pylist()]


# ------------------------------------------------------------------------------------------- doors


@pytest.mark.parametrize("options", [EVENT, PARTIAL], ids=["whole", "partial"])
def test_a_row_without_its_ordering_value_is_refused(memory_uri, options):
    table = table_of(memory_uri, options)
    table.upsert([{"k": 1, "ts": 1, "v": "a"}])
    with pytest.raises(lsmerge.SchemaMismatchError) as caught:
        table.upsert([{"k": 1, "ts": 2, "v": "b"}, {"k": 7, "ts": None, "v": "c"}])
    for part in ("'ts'", "row 1", "'k': 7", "commit-time-ordering"):
        assert part in str(caught.value)
    assert table.latest_snapshot().id == 1
    assert rows_of(table) == [(1, 1, "a")]


@pytest.mark.parametrize(
    ("type_", "marker", "values"),
    [
        (pa.string(), "D", ["d", "D", None]),
        (pa.bool_(), "true", [False, True, None]),
        (pa.int8(), "1", [11, 1, None]),
    ],
)
def test_a_marker_is_compared_as_text_exactly(memory_uri, type_, marker, values):
    schema = pa.schema({"k": pa.int64(), "op": type_})
    options = {"record.merge.delete-field": "op", "record.merge.delete-marker": marker}
    table = table_of(memory_uri, options, schema)
    table.upsert(pa.table({"k": [0, 1, 2], "op": pa.array(values, type_)}))
    assert rows_of(table) == [(0, values[0]), (2, None)]


def test_ignored_deletes_are_ignored_however_they_are_marked(memory_uri):
    options = {
        "record.merge.delete-field": "v",
        "record.merge.delete-marker": "gone",
        "ignore-delete": "true",
    }
    table = table_of(memory_uri, options)
    table.upsert([{"k": 1, "ts": 1, "v": "a"}])
    table.upsert([{"k": 1, "ts": 2, "v": "gone"}])
    table.delete([1])
    assert rows_of(table) == [(1, 1, "a")]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"record.merge.ordering-fields": "tz"}, "did you mean 'ts'"),
        ({"record.merge.ordering-fields": "ts,ts"}, "twice"),
        ({"record.merge.ordering-fields": "tags"}, "ARRAY"),
        ({"record.merge.delete-field": "vv", "record.merge.delete-marker": "d"}, "'v'"),
        ({"record.merge.delete-field": "tags", "record.merge.delete-marker": "d"}, "ARRAY"),
        ({"record.merge.payload": "AWSDmsAvroPayload"}, "'Op'"),
        ({"record.merge.payload": "PostgresDebeziumAvroPayload"}, "'_event_lsn'"),
    ],
)
def test_options_that_do_not_fit_the_columns_are_refused(memory_uri, options, named):
    with pytest.raises(lsmerge.InvalidOptionError, match=named):
        table_of(memory_uri, options, SCHEMA.append(pa.field("tags", pa.list_(pa.string()))))


def test_the_delete_flag_is_boolean(memory_uri):
    schema = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.string()))
    with pytest.raises(lsmerge.InvalidOptionError, match="BOOLEAN"):
        table_of(memory_uri, EVENT, schema)
    table_of(memory_uri, {}, schema)  # without a record merger it is a column like any other


def test_a_table_is_not_opened_under_another_mode(memory_uri):
    table_of(memory_uri, {"hoodie.table.ordering.fields": "ts"})
    same = {"payload.class": "DefaultHoodieRecordPayload", "precombine.field": "ts"}
    lsmerge.create_table(memory_uri, SCHEMA, "k", options=same, exist_ok=True)
    for other in ({"record.merge.mode": "commit-time-ordering"}, {}, PARTIAL):
        with pytest.raises(lsmerge.TableExistsError, match=r"record\.merge"):
            lsmerge.create_table(memory_uri, SCHEMA, "k", options=other, exist_ok=True)


# ----------------------------------------------------------------------------------------- deletes


@pytest.mark.parametrize("options", [EVENT, PARTIAL], ids=["whole", "partial"])
@pytest.mark.parametrize("is_compacted", [False, True])
def test_delete_is_untimed(memory_uri, options, is_compacted):
    table = table_of(memory_uri, options)
    table.upsert([{"k": 1, "ts": 9, "v": "a"}, {"k": 2, "ts": 9, "v": "b"}])
    table.delete([1])
    assert rows_of(table) == [(2, 9, "b")]
    if is_compacted:
        table.compact(full=True)
    table.upsert([{"k": 1, "ts": 3, "v": None}])
    assert table.get(1) == {"k": 1, "ts": 3, "v": None}


def test_a_delete_with_half_an_ordering_value_is_untimed(memory_uri):
    options = {"record.merge.ordering-fields": "ts,v"}
    table = table_of(memory_uri, options)
    table.upsert([{"k": 1, "ts": 9, "v": "a"}])
    table.write([{"k": 1, "ts": 1, "v": None, "_row_kind": "-D"}])
    assert rows_of(table) == []
    table.upsert([{"k": 1, "ts": 0, "v": "z"}])
    assert rows_of(table) == [(1, 0, "z")]


def test_an_ordering_field_in_the_key_orders_nothing(memory_uri):
    options = {"record.merge.ordering-fields": "ts,v"}
    table = table_of(memory_uri, options, key=["k", "ts"])
    table.upsert([{"k": 1, "ts": 1, "v": "b"}, {"k": 1, "ts": 1, "v": "a"}])
    assert rows_of(table) == [(1, 1, "b")]
    table.delete([(1, 1)])
    table.upsert([{"k": 1, "ts": 1, "v": "a"}])
    assert rows_of(table) == [(1, 1, "a")]


@pytest.mark.parametrize("options", [EVENT, PARTIAL, FILLING], ids=["whole", "partial", "filling"])
def test_a_timed_delete_is_remembered_for_its_retention(memory_uri, options):
    table = table_of(memory_uri, options | {"tombstone.retention": "7 d"})
    table.upsert([{"k": 1, "ts": 5, "v": "a"}, {"k": 2, "ts": 5, "v": "b"}])
    table.write([{"k": 1, "ts": 8, "v": None, "_row_kind": "-D"}])
    table.delete([2])
    assert table.compact(full=True).rows_written == 2
    table.upsert([{"k": 1, "ts": 6, "v": "late"}])
    assert rows_of(table) == []
    days_later(table, 30)
    report = table.compact(full=True)
    assert report.rows_written == 0
    table.upsert([{"k": 1, "ts": 6, "v": "late"}])
    assert rows_of(table) == [(1, 6, "late")]


@pytest.mark.parametrize("options", [EVENT, PARTIAL], ids=["whole", "partial"])
def test_rows_behind_a_forgotten_delete_stay(memory_uri, options):
    table = table_of(memory_uri, options | {"tombstone.retention": "7 d"})
    table.upsert([{"k": 1, "ts": 5, "v": "a"}])
    table.delete([1])
    table.write([{"k": 1, "ts": 2, "v": None, "_row_kind": "-D"}])
    table.upsert([{"k": 1, "ts": 3, "v": "b"}])
    table.compact(full=True)
    days_later(table, 30).compact(full=True)
    assert table.compact(full=True).snapshot_id is None
    assert rows_of(table) == [(1, 3, "b")]


# --------------------------------------------------------------------------------- partial updates


def test_a_marker_stands_for_a_value_not_sent_in_texts_and_bytes(memory_uri):
    schema = pa.schema({"k": pa.int64(), "ts": pa.int64(), "t": pa.string(), "b": pa.binary()})
    table = table_of(memory_uri, FILLING, schema)
    table.upsert([{"k": 1, "ts": 1, "t": "a", "b": b"x"}, {"k": 2, "ts": 1, "t": "?", "b": None}])
    table.upsert([{"k": 1, "ts": 2, "t": "?", "b": b"?"}, {"k": 2, "ts": 2, "t": "?", "b": b"?"}])
    assert rows_of(table) == [(1, 2, "a", b"x"), (2, 2, "?", None)]
    table.upsert([{"k": 1, "ts": 3, "t": None, "b": b"?"}])
    assert table.get(1) == {"k": 1, "ts": 3, "t": None, "b": b"x"}


def test_partial_updates_keep_no_more_rows_than_columns_need(memory_uri):
    table = table_of(memory_uri, PARTIAL | {"write-only": "true"})
    for ts in range(20):
        table.upsert([{"k": 1, "ts": ts, "v": "x" if ts == 3 else None}])
    table.write([{"k": 1, "ts": 2, "v": None, "_row_kind": "-D"}])
    assert table.compact(full=True).rows_written == 3  # the delete, ts = 3 and ts = 19
    assert rows_of(table) == [(1, 19, "x")]


@pytest.mark.parametrize("buffer", ["4 kb", "64 mb"])
def test_a_commit_is_combined_whatever_the_buffer_holds(memory_uri, buffer):
    """The second commit says v = b as of ts 9: of its values b is the newest, though older than the stored one."""
    options = {"record.merge.combine-before-upsert": "true", "write-buffer-size": buffer}
    table = table_of(memory_uri, PARTIAL | options)
    keys = list(range(300))
    table.upsert({"k": keys, "ts": [5] * 300, "v": ["a"] * 300})
    with table.writer() as writer:
        for ts, value in ((3, "c"), (4, "b")):
            writer.write({"k": keys, "ts": [ts] * 300, "v": [value] * 300})
        writer.write({"k": [7, 7], "ts": [1, 9], "v": ["z", None]})
    assert rows_of(table) == [(k, 9, "b") if k == 7 else (k, 5, "a") for k in keys]
    table.verify()
