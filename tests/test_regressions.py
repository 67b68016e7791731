"""Faults that were found where features meet, each as the smallest case that showed it."""

import tempfile
from array import array
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pyroaring
import pytest

import lsmerge
from lsmerge import failpoints
from lsmerge.engine.hash_index import HashIndex
from lsmerge.meta import manifest
from lsmerge.option_registry import MAX_BUCKETS
from lsmerge.storage.arrow_run import ArrowBlockReader
from lsmerge.testing import check_merger
from tests.long.damage import with_patient
from tests.long.figures import Tally
from tests.long.fuzz import signed_again

INT, TEXT = pa.int64(), pa.string()


def table(uri, columns, options=None, **arguments):
    return lsmerge.create_table(uri, pa.schema(columns), "k", options=options or {}, **arguments)


def aggregating(column, function, **options):
    named = {f"fields.{column}.{name.replace('_', '-')}": value for name, value in options.items()}
    return {
        "merge-engine": "aggregation",
        f"fields.{column}.aggregate-function": function,
        **named,
    }


class Last:
    associative, sees_deletes = True, False

    def merge(self, _older, newer):
        return newer


def test_a_compaction_that_cannot_merge_fails_no_write(memory_uri):
    options = {
        "record.merge.mode": "custom",
        "record.merge.strategy-id": "not-registered-anywhere",
        "num-sorted-run.compaction-trigger": 2,
        "num-sorted-run.stop-trigger": 2,
    }
    t = table(memory_uri, {"k": INT, "v": INT}, options)
    for v in range(5):
        t.upsert([{"k": 1, "v": v}])
    assert len(t.snapshots()) == 5


def test_values_that_do_not_fit_fail_no_write_of_others(memory_uri):
    producer = {"changelog-producer": "full-compaction", "full-compaction.delta-commits": 2}
    t = table(memory_uri, {"k": INT, "v": pa.int8()}, aggregating("v", "sum") | producer)
    for row in ({"k": 1, "v": 100}, {"k": 1, "v": 100}, {"k": 2, "v": 1}):
        t.upsert([row])
    with pytest.raises(lsmerge.MergeValueError, match="widen"):
        t.get(1)
    assert t.get(2) == {"k": 2, "v": 1}


def test_decimals_do_not_wrap(memory_uri):
    with pytest.raises(lsmerge.InvalidOptionError, match="only integers wrap"):
        table(
            memory_uri,
            {"k": INT, "v": pa.decimal128(4, 2)},
            aggregating("v", "sum", on_overflow="wrap"),
        )


def test_a_new_sequence_group_takes_no_stored_column(memory_uri):
    t = table(memory_uri, {"k": INT, "a": INT}, {"merge-engine": "partial-update"})
    t.upsert([{"k": 1, "a": 5}])
    with pytest.raises(lsmerge.InvalidOptionError, match="'a', whose stored values"):
        t.alter(add={"g": INT}, options={"fields.g.sequence-group": "a"})
    t.alter(add={"g": INT, "b": INT}, options={"fields.g.sequence-group": "b"})
    assert t.get(1) == {"k": 1, "a": 5, "g": None, "b": None}


def test_a_column_is_not_dropped_beside_deletes_of_some_columns(memory_uri):
    t = table(memory_uri, {"k": INT, "b": INT, "c": INT}, {"write-only": True})
    t.write([{"k": 1, "b": 1, "c": 1}])
    t.write([{"k": 1, "b": None, "_row_kind": "-D"}], columns=["k", "b"])
    with pytest.raises(lsmerge.SchemaMismatchError, match="compact\\(full=True\\)"):
        t.alter(drop=["c"])
    t.compact(full=True)
    t.alter(drop=["c"])
    assert t.scan().to_arrow().to_pylist() == [{"k": 1, "b": None}]


@pytest.mark.parametrize(
    ("type_", "wider", "function", "overflow"),
    [
        (pa.int8(), pa.int16(), "sum", "wrap"),
        (pa.float32(), pa.float64(), "sum", "error"),
        (pa.decimal128(10, 2), pa.decimal128(14, 4), "product", "error"),
    ],
)
def test_what_a_narrow_type_rounded_is_not_widened(memory_uri, type_, wider, function, overflow):
    t = table(memory_uri, {"k": INT, "a": type_}, aggregating("a", function, on_overflow=overflow))
    with pytest.raises(lsmerge.SchemaMismatchError, match="cannot be widened"):
        t.alter(widen={"a": wider})


def test_an_exact_total_is_widened(memory_uri):
    t = table(memory_uri, {"k": INT, "a": pa.int8()}, aggregating("a", "sum"))
    t.upsert([{"k": 1, "a": 100}])
    t.upsert([{"k": 1, "a": 100}])
    t.alter(widen={"a": pa.int16()})
    assert t.get(1) == {"k": 1, "a": 200}


def test_a_delete_of_some_columns_leaves_the_column_that_orders(memory_uri):
    t = table(memory_uri, {"k": INT, "s": INT, "a": INT, "b": INT}, {"sequence.field": "s"})
    t.upsert([{"k": 1, "s": 1, "a": 1, "b": 1}])
    t.write([{"k": 1, "s": 2, "a": None, "_row_kind": "-D"}], columns=["k", "s", "a"])
    row = t.get(1)
    assert row == {"k": 1, "s": 1, "a": None, "b": 1}
    t.upsert([{**row, "b": 9}])
    assert t.get(1)["b"] == 9


def test_a_custom_merger_heeds_delete_marks(memory_uri):
    lsmerge.register_merger("regression-last", Last)
    options = {
        "record.merge.mode": "custom",
        "record.merge.strategy-id": "regression-last",
        "record.merge.delete-field": "op",
        "record.merge.delete-marker": "d",
    }
    t = table(memory_uri, {"k": INT, "op": TEXT}, options)
    t.upsert([{"k": 1, "op": "i"}])
    t.upsert([{"k": 1, "op": "d"}])
    assert t.get(1) is None


def test_a_writer_that_keeps_its_input_survives_an_alteration(memory_uri):
    t = table(memory_uri, {"k": INT, "v": INT}, {"changelog-producer": "input"})
    writer = t.writer()
    writer.write([{"k": 1, "v": 1}])
    t.alter(add={"z": INT})
    t.upsert([{"k": 2, "v": 2, "z": 2}])
    writer.commit()
    assert t.get(1) == {"k": 1, "v": 1, "z": None}


def test_without_a_temporary_directory_the_error_says_what_to_do(memory_uri, monkeypatch):
    t = table(memory_uri, {"k": INT}, {"scan.memory-budget": "8 kb", "write-only": True})
    for k in range(10):
        t.upsert({"k": [k, k + 100]})
    monkeypatch.setattr(tempfile, "tempdir", "/does/not/exist")
    with pytest.raises(lsmerge.StorageError, match="TMPDIR"):
        t.scan().to_arrow()


@pytest.mark.parametrize("arguments", [{"primary_key": 5}, {"primary_key": None}])
def test_keys_are_named_as_text(memory_uri, arguments):
    with pytest.raises(lsmerge.SchemaMismatchError, match="give a column's name"):
        lsmerge.create_table(memory_uri, pa.schema({"k": INT}), **arguments)


def test_columns_to_drop_are_named_as_text(memory_uri):
    t = table(memory_uri, {"k": INT, "v": pa.decimal128(4, 2)})
    t.upsert([{"k": 1, "v": Decimal("1.50")}])
    with pytest.raises(lsmerge.SchemaMismatchError, match="names as text"):
        t.alter(drop=[["v"]])


@pytest.mark.parametrize("type_", [INT, pa.float64(), pa.decimal128(10, 2)])
def test_a_factor_of_zero_cannot_be_taken_back(memory_uri, type_):
    t = table(memory_uri, {"k": INT, "v": type_}, aggregating("v", "product"))
    t.upsert([{"k": 1, "v": 5}, {"k": 2, "v": 5}])
    with pytest.raises(lsmerge.SchemaMismatchError, match="factor 0"):
        t.write([{"k": 1, "v": 0, "_row_kind": "-U"}])
    t.write([{"k": 1, "v": 5, "_row_kind": "-U"}, {"k": 2, "v": 0, "_row_kind": "+U"}])
    assert t.scan().to_arrow()["v"].to_pylist() == [1, 0]


@pytest.mark.parametrize(
    "ordering",
    [
        {"merge-engine": "aggregation", "sequence.field": "s"},
        {"merge-engine": "partial-update", "fields.s.sequence-group": "n,v"},
    ],
)
def test_rows_that_make_a_total_do_not_pile_up(memory_uri, ordering):
    options = ordering | {"fields.n.aggregate-function": "sum"}
    t = table(memory_uri, {"k": INT, "s": INT, "n": INT, "v": INT}, options)
    for s in [5, 9, 2, 7, 1, 3]:
        t.upsert([{"k": 1, "s": s, "n": 1, "v": s * 10}])
    t.compact(full=True)
    # The row that orders last, and the newest one.
    assert sum(bucket.rows for bucket in t.stats().buckets) <= 2
    t.upsert([{"k": 1, "s": 8, "n": 10, "v": 80}])
    assert t.get(1) == {"k": 1, "s": 9, "n": 16, "v": 90}


class NeedsArguments:
    def __init__(self, factor):
        self.factor = factor

    def merge(self, older, newer):
        return newer

    def __call__(self, older, newer):
        return newer


@pytest.mark.parametrize("register", [lsmerge.register_merger, lsmerge.register_function])
def test_a_class_that_needs_arguments_is_given_as_an_instance(register):
    with pytest.raises(lsmerge.InvalidOptionError, match=r"NeedsArguments\(\.\.\.\)"):
        register("needs-arguments", NeedsArguments)


def test_an_arrow_value_of_a_merger_that_the_column_cannot_hold(memory_uri):
    class Texts:
        def merge(self, older, newer):
            return newer.replace(v=pa.scalar("x"))

    lsmerge.register_merger("texts", Texts)
    options = {"record.merge.mode": "custom", "record.merge.strategy-id": "texts"}
    t = table(memory_uri, {"k": INT, "v": INT}, options)
    t.upsert([{"k": 1, "v": 1}])
    t.upsert([{"k": 1, "v": 2}])
    with pytest.raises(lsmerge.MergeValueError, match=r"merger 'texts' at key \{'k': 1\}"):
        t.get(1)


@pytest.mark.parametrize("changes", [5, [1], pa.table({"k": [1]})])
def test_what_is_no_change_has_no_envelope(changes):
    with pytest.raises(lsmerge.SchemaMismatchError, match="_row_kind"):
        list(lsmerge.debezium(changes))


@pytest.mark.parametrize(
    "options",
    [
        {"fields.v.aggregate-function": "sum"},
        {"fields.default-aggregate-function": "max"},
        {"fields.v.sequence-group": "w", "merge-engine": "aggregation"},
        {"merge-engine.versioned.ver-column": "v", "merge-engine": "first-row"},
        {"partial-update.remove-record-on-delete": "true"},
    ],
)
def test_an_option_that_the_engine_ignores_is_refused(memory_uri, options):
    with pytest.raises(lsmerge.InvalidOptionError, match="does nothing with merge-engine"):
        table(memory_uri, {"k": INT, "v": INT, "w": INT}, options)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"ignore-delete": "true", "delete.behavior": "disable"}, "contradicts 'delete.behavior'"),
        ({"ignore-delete": "true", "delete.behavior": "allow"}, "contradicts 'delete.behavior'"),
        ({"sequence.field.sort-order": "descending"}, "does nothing without 'sequence.field'"),
        ({"sequence.field": "v,k"}, "'k': a primary key column is equal in all rows"),
        (
            {"merge-engine": "partial-update", "fields.default-aggregate-function": "sum"},
            "without sequence groups",
        ),
        (
            {
                "merge-engine": "aggregation",
                "fields.v.aggregate-function": "max",
                "fields.v.on-overflow": "wrap",
            },
            "function 'max' does not look at it",
        ),
        (
            {
                "merge-engine": "aggregation",
                "fields.v.aggregate-function": "sum",
                "fields.v.listagg.delimiter": ";",
            },
            "function 'sum' does not look at it",
        ),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(memory_uri, options, reason):
    with pytest.raises(lsmerge.InvalidOptionError, match=reason):
        table(memory_uri, {"k": INT, "v": INT}, options)


@pytest.mark.parametrize(
    "change", [{"drop": ["_hoodie_is_deleted"]}, {"rename": {"_hoodie_is_deleted": "x"}}]
)
def test_the_column_that_marks_deletes_stays(memory_uri, change):
    columns = {"k": INT, "_hoodie_is_deleted": pa.bool_()}
    t = table(memory_uri, columns, {"record.merge.mode": "commit-time-ordering"})
    with pytest.raises(lsmerge.SchemaMismatchError, match="rows are written as deletes by it"):
        t.alter(**change)


@pytest.mark.parametrize(
    ("function", "bitmap"),
    [("rbm32", pyroaring.BitMap([1, 70_000])), ("rbm64", pyroaring.BitMap64([1, 2**40]))],
)
def test_a_bitmap_is_all_of_its_bytes(memory_uri, function, bitmap):
    t = table(memory_uri, {"k": INT, "v": pa.binary()}, aggregating("v", function))
    with pytest.raises(lsmerge.SchemaMismatchError, match=f"end after {len(bitmap.serialize())}"):
        t.upsert([{"k": 1, "v": bitmap.serialize() + b"more"}])
    t.upsert([{"k": 1, "v": bitmap.serialize()}])


def test_a_column_is_not_moved_behind_itself(memory_uri):
    with pytest.raises(lsmerge.SchemaMismatchError, match="name another column"):
        table(memory_uri, {"k": INT, "v": INT}).alter(move={"v": "after:v"})


def test_a_table_with_other_columns_is_described_in_sql(memory_uri):
    table(memory_uri, {"k": INT})
    with pytest.raises(lsmerge.TableExistsError, match="k BIGINT NOT NULL; asked for: k BIGINT"):
        table(memory_uri, {"k": INT, "v": INT}, exist_ok=True)


def test_a_merger_is_checked_with_columns_that_exist():
    with pytest.raises(lsmerge.SchemaMismatchError, match="unknown column 'when'"):
        check_merger(
            NeedsArguments(1), pa.schema({"k": INT, "v": INT}), "k", ordering_fields=["when"]
        )


def test_the_top_level_stays_where_changes_are_told_of_it(memory_uri):
    t = table(memory_uri, {"k": INT, "v": INT}, {"changelog-producer": "full-compaction"})
    t.upsert({"k": [1, 2], "v": [1, 2]})
    t.compact(full=True)
    with pytest.raises(lsmerge.InvalidOptionError, match="'num-levels' = 6 with that"):
        t.alter(options={"num-sorted-run.compaction-trigger": 8})
    t.alter(options={"num-sorted-run.compaction-trigger": 8, "num-levels": 6})
    t.upsert({"k": [2], "v": [5]})
    t.compact(full=True)
    kinds = [kind for batch in t.changelog() for kind in batch["_row_kind"].to_pylist()]
    assert kinds == ["+I", "+I", "-U", "+U"]


@pytest.mark.parametrize("argument", [{"partition": {"k": 1}}, {"mode": "dynamic"}])
def test_what_an_overwrite_replaces_is_not_said_of_an_append(memory_uri, argument):
    t = table(memory_uri, {"k": INT})
    with pytest.raises(lsmerge.InvalidOptionError, match="pass overwrite=True"):
        t.task_writer(**argument)
    with pytest.raises(lsmerge.InvalidOptionError, match="pass overwrite=True"):
        t.commit_tasks([], **argument)


@pytest.mark.parametrize(
    "options",
    [
        {
            "merge-engine": "partial-update",
            "fields.g.sequence-group": "n",
            "fields.default-aggregate-function": "sum",
        },
        {"merge-engine": "aggregation", "fields.n.aggregate-function": "count"},
    ],
)
def test_a_total_that_wrapped_is_not_widened(memory_uri, options):
    columns = {"k": INT, "g": INT, "n": pa.int8()}
    t = table(memory_uri, columns, options | {"fields.n.on-overflow": "wrap"})
    with pytest.raises(lsmerge.SchemaMismatchError, match="cannot be widened"):
        t.alter(widen={"n": "INT"})


def test_row_kinds_of_python_rows_are_symbols_or_codes(memory_uri):
    t = table(memory_uri, {"k": INT})
    t.write([{"k": 1, "_row_kind": 0}, {"k": 2, "_row_kind": 0}])
    t.write([{"k": 1, "_row_kind": 3}])
    assert t.scan().to_arrow()["k"].to_pylist() == [2]
    with pytest.raises(lsmerge.SchemaMismatchError, match="value None at row 1"):
        t.write([{"k": 1, "_row_kind": "+I"}, {"k": 2}])
    with pytest.raises(lsmerge.SchemaMismatchError, match="value '7' at row 0"):
        t.write([{"k": 1, "_row_kind": 7}])


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({"merge-engine": "aggregation"}, [{"n": 1, "g": 1}, {"n": 1, "g": 1, "_row_kind": "-D"}]),
        (
            {"merge-engine": "partial-update", "fields.g.sequence-group": "n"},
            [{"n": 1, "g": None}],
        ),
    ],
)
def test_a_not_null_column_that_merges_to_null_is_read_as_nullable(memory_uri, options, rows):
    schema = pa.schema([("k", INT), pa.field("n", INT, nullable=False), ("g", INT)])
    t = lsmerge.create_table(memory_uri, schema, "k", options=options)
    for row in rows:
        t.write([{"k": 1} | row])
    scanned = t.scan().to_arrow()
    scanned.validate(full=True)
    assert scanned.schema.field("n").nullable
    assert not scanned.schema.field("k").nullable
    assert scanned.to_pylist() == t.get_many([1]).to_pylist() == [t.get(1)]
    assert t.get(1)["n"] is None
    with pytest.raises(lsmerge.SchemaMismatchError):
        t.write([{"k": 2, "n": None, "g": 1}])


def test_a_not_null_column_stays_one_where_rows_are_replaced(memory_uri):
    schema = pa.schema([("k", INT), pa.field("n", INT, nullable=False)])
    t = lsmerge.create_table(memory_uri, schema, "k")
    t.write([{"k": 1, "n": 1}])
    assert not t.scan().to_arrow().schema.field("n").nullable


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.commit_tasks(None),
        lambda t: t.discard_tasks(b"message"),
        lambda t: t.read_split("part"),
        lambda t: t.run_unit("unit"),
    ],
)
def test_what_other_processes_hand_over_is_told_from_other_things(memory_uri, call):
    with pytest.raises(lsmerge.LsmergeError, match="pass"):
        call(table(memory_uri, {"k": INT}))


@pytest.mark.parametrize("ordering", [{}, {"sequence.field": "s"}])
def test_a_total_may_be_too_large_while_its_commit_is_written(memory_uri, ordering):
    options = aggregating("n", "sum") | ordering | {"write-buffer-size": "1 mb"}
    t = table(memory_uri, {"k": INT, "n": INT, "s": INT, "p": pa.string()}, options)
    padding = pa.table(
        {"k": range(10, 1510), "n": [1] * 1500, "s": [1] * 1500, "p": ["x" * 999] * 1500}
    )
    with t.writer() as writer:
        writer.write([{"k": 1, "n": 2**63 - 1, "s": 1}, {"k": 1, "n": 1, "s": 2}])
        writer.write(padding)
        writer.write(padding)
        writer.write([{"k": 1, "n": -5, "s": 3}])
    assert t.get(1)["n"] == 2**63 - 5


def test_keys_come_as_arrays_too(memory_uri):
    t = table(memory_uri, {"k": INT, "v": INT})
    t.upsert([{"k": 1, "v": 1}, {"k": 2, "v": 2}])
    for keys in (pa.array([2, 3]), pa.chunked_array([[2], [3]]), array("q", [2, 3])):
        assert t.get_many(keys).to_pylist() == [{"k": 2, "v": 2}]


def test_a_delete_without_its_place_says_what_is_missing(memory_uri):
    t = table(memory_uri, {"k": INT, "v": INT}, {"sequence.field": "v"})
    with pytest.raises(lsmerge.SchemaMismatchError, match="rows are ordered by v, deletes too"):
        t.delete([1])


def test_one_bare_tuple_is_no_filter(memory_uri):
    t = table(memory_uri, {"k": INT})
    with pytest.raises(lsmerge.InvalidFilterError, match=r"\('k', '=', 1\): pass a list of"):
        t.scan(filter=("k", "=", 1))


def test_a_column_that_orders_a_group_is_no_member(memory_uri):
    options = {"merge-engine": "partial-update", "fields.v.sequence-group": "v"}
    with pytest.raises(lsmerge.InvalidOptionError, match="'v' orders the group"):
        table(memory_uri, {"k": INT, "v": INT}, options)


@pytest.mark.parametrize(
    ("type_", "widest", "advice"), [(pa.int64(), 2**63 - 1, False), (pa.int8(), 127, True)]
)
def test_an_overflow_advises_what_there_is(memory_uri, type_, widest, advice):
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
    t = table(memory_uri, {"k": INT, "v": type_}, options)
    t.upsert([{"k": 1, "v": widest}])
    t.upsert([{"k": 1, "v": 1}])
    with pytest.raises(lsmerge.MergeValueError, match="on-overflow") as raised:
        t.get(1)
    assert ("widen" in str(raised.value)) is advice
    assert "group" not in str(raised.value)


def test_a_null_that_is_still_to_be_merged_gets_no_default(memory_uri):
    options = {"merge-engine": "partial-update", "fields.v.default-value": "7"}
    t = table(memory_uri, {"k": INT, "v": INT, "w": INT}, options)
    t.upsert([{"k": 1, "v": 5, "w": 1}])
    t.upsert([{"k": 1, "v": None, "w": 2}])
    told = [row["v"] for batch in t.changelog() for row in batch.to_pylist()]
    assert told == [5, None]
    assert t.get(1) == {"k": 1, "v": 5, "w": 2}


@pytest.mark.parametrize("at", ["commit.after-publish", "rewrite.after-publish", "file.after-link"])
@pytest.mark.parametrize("rewrite", [lambda t: t.rescale(3), lambda t: t.rollback_to(1)])
def test_an_interrupt_while_publishing_takes_no_file_away(memory_uri, monkeypatch, rewrite, at):
    t = table(memory_uri, {"k": INT}, {"write-only": "true"})
    for number in range(4):
        t.upsert({"k": [number]})
    fuse = failpoints.Fuse(failpoints.parse_trigger(f"{at}:interrupt"))
    monkeypatch.setattr(failpoints, "hook", fuse)
    with suppress(KeyboardInterrupt):
        rewrite(t)
    assert t.verify().problems == ()


def test_the_last_commit_of_a_user_is_known_after_its_snapshot_expired(memory_uri):
    t = table(memory_uri, {"k": INT, "n": INT}, aggregating("n", "sum"))
    row = [{"k": 1, "n": 1}]
    t.write(row, commit_user="job", commit_id=7)
    t.write([{"k": 2, "n": 1}])
    t.expire_snapshots(retain_max=1)
    assert t.write(row, commit_user="job", commit_id=7).id == 2
    assert t.get(1) == {"k": 1, "n": 1}
    with pytest.raises(lsmerge.CommitConflictError, match="cannot tell"):
        t.write(row, commit_user="job", commit_id=6)


@pytest.mark.parametrize("bucket", [1, -1])
@pytest.mark.parametrize("expires", [False, True])
def test_the_messages_of_tasks_committed_twice_at_once_lose_nothing(
    memory_uri, monkeypatch, bucket, expires
):
    t = table(memory_uri, {"k": INT}, {"bucket": bucket})
    with t.task_writer() as task:
        task.write({"k": [1, 2]})
        messages = [task.finish()]

    def others_are_faster(name):
        if name == "task.before-commit":
            failpoints.hook = None
            lsmerge.open_table(memory_uri).commit_tasks(messages, commit_user="job", commit_id=1)
            if expires:
                t.upsert({"k": [3]})
                t.expire_snapshots(retain_max=1)

    monkeypatch.setattr(failpoints, "hook", others_are_faster)
    t.commit_tasks(messages, commit_user="job", commit_id=1)
    t.commit_tasks(messages, commit_user="job", commit_id=1)
    assert t.verify().problems == ()
    assert t.scan().count() == 2 + expires


@pytest.mark.parametrize(
    "values", [(), (None,), ("",), ('a"b', None, "\0\x7f", "é\U0001f600", "\\n"), ("x" * 300,)]
)
def test_any_partition_is_one_that_a_manifest_may_name(values):
    texts = pa.chunked_array([[manifest.partition_text(values)]])
    manifest._check_partitions("manifest", texts)
    assert manifest.partition_values(texts[0].as_py()) == values


@pytest.mark.parametrize(
    "text", ["", "null", "[1]", '["a"', '[["a"]]', '{"a": 1}', '["\n"]', "[NaN]"]
)
def test_a_manifest_names_no_partition_that_is_none(text):
    with pytest.raises(lsmerge.CorruptFileError, match="partition"):
        manifest._check_partitions("manifest", pa.chunked_array([[text]]))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("kind", -127), ("kind", 3), ("action", 2), ("bucket", -1), ("bucket", MAX_BUCKETS)),
        *(("num_buckets", -1), ("num_buckets", MAX_BUCKETS + 1)),
    ],
)
def test_a_manifest_has_no_codes_that_are_none(memory_uri, column, value):
    t = table(memory_uri, {"k": INT})
    t.upsert({"k": [1]})
    entries = t._context.versions.load(t.latest_snapshot()).entries
    place = entries.schema.get_field_index(column)
    forged = pa.array([value] * entries.num_rows, entries.schema.field(place).type)
    manifest._check_codes("manifest", entries)
    with pytest.raises(lsmerge.CorruptFileError, match=f"{column} {value}"):
        manifest._check_codes("manifest", entries.set_column(place, column, forged))


@pytest.mark.parametrize("column", ["kind", "action", "bucket", "num_buckets"])
@pytest.mark.parametrize("how_many", ["one", "all"])
def test_a_manifest_has_no_nulls_where_it_has_none(memory_uri, column, how_many):
    """A null drops out of every comparison, and its rows with it."""
    t = table(memory_uri, {"k": INT}, {"bucket": "2"})
    t.upsert({"k": range(10)})
    entries = t._context.versions.load(t.latest_snapshot()).entries
    place = entries.schema.get_field_index(column)
    values = entries[column].to_pylist()
    forged = [None] if how_many == "one" else [None] * len(values)
    forged = pa.array(forged + values[len(forged) :], entries.schema.field(place).type)
    field = entries.schema.field(place)
    data = manifest._serialise(entries.set_column(place, field, forged))
    with pytest.raises(lsmerge.CorruptFileError, match=f"no {column}"):
        manifest._parse("manifest", data)


@pytest.mark.parametrize("bucket", [None, -1, MAX_BUCKETS, 2**31 - 1])
def test_an_index_has_no_bucket_that_cannot_be(memory_uri, monkeypatch, bucket):
    """A look-up of keys in several buckets takes memory and time for each bucket up to the last."""
    t = table(memory_uri, {"k": INT}, {"bucket": -1, "dynamic-bucket.target-row-num": 1})
    monkeypatch.setattr(HashIndex, "stored", with_last_bucket(HashIndex.stored, bucket))
    t.upsert({"k": [1, 2]})
    reader = lsmerge.open_table(memory_uri)
    with pytest.raises(lsmerge.CorruptFileError, match=f"bucket {bucket}"):
        reader.get_many([1, 2])


def with_last_bucket(stored, bucket):
    def forged(index):
        *others, last = stored(index)
        return [*others, replace(last, bucket=bucket)]

    return forged


def unsorted(arrays):
    return [array.take(pa.array(range(len(array) - 1, -1, -1))) for array in arrays]


def without_kinds(arrays):
    return [pa.nulls(len(a), a.type) if a.type == pa.int8() else a for a in arrays]


def with_unknown_kinds(arrays):
    return [pa.array([50] * len(a), a.type) if a.type == pa.int8() else a for a in arrays]


@pytest.mark.parametrize("forge", [unsorted, without_kinds, with_unknown_kinds])
@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_rows_that_no_writer_writes_are_refused(memory_uri, monkeypatch, forge, producer):
    """Checksums that fit say that a file is as it was written, not that we wrote it."""
    t = table(memory_uri, {"k": INT}, {"changelog-producer": producer, "write-only": "true"})
    for keys in ([1, 3], [2, 3]):
        t.upsert({"k": keys})
    read = ArrowBlockReader.read

    def forged(*asked):
        batch = read(*asked).batch
        return pa.RecordBatch.from_arrays(forge(batch.columns), schema=batch.schema)

    monkeypatch.setattr(ArrowBlockReader, "read", forged)
    for look in (lambda t: t.scan().to_arrow(), lambda t: list(t.changelog(start="earliest"))):
        with lsmerge.open_table(memory_uri) as reader, suppress(lsmerge.CorruptFileError):
            look(reader)
    if forge is unsorted:
        with pytest.raises(lsmerge.CorruptFileError, match="not sorted"):
            lsmerge.open_table(memory_uri).scan().to_arrow()


@pytest.mark.parametrize("file_format", ["arrow", "parquet"])
def test_a_column_whose_name_is_no_text_is_refused(file_format):
    def look(patient):
        for place in patient.of_kind("bucket-0/"):
            forged = place.data.replace(b"_VALUE_KIND", b"\xff_ALUE_KIND")
            with signed_again():
                patient.try_damage(place, forged, patient.readers_of(place), found)

    found = Tally()
    with_patient(file_format, look)
    assert set(found.notes) == {"refused"}
