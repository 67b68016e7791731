"""INSERT, UPDATE, DELETE and their like: exact values, some columns, whole partitions, and what is refused."""

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

import lsmerge
from lsmerge import CommitConflictError, InvalidStatementError, SchemaMismatchError
from lsmerge.statements.writing import Writer


def stored(session, name="t"):
    return lsmerge.open_table(f"{session.catalog.uri}/{name}").scan().to_arrow()


COLUMNS = {
    "ti": ("TINYINT", "-128", -128),
    "bi": ("BIGINT", "9223372036854775807", 9223372036854775807),
    "f": ("FLOAT", "0.1", pa.scalar(0.1, pa.float32()).as_py()),
    "d": ("DOUBLE", "0.1234567890123456789", 0.1234567890123456789),
    "e": ("DOUBLE", "-1e-300", -1e-300),
    "i": ("DOUBLE", "5", 5.0),
    "m": ("DECIMAL(20, 4)", "1234567890123456.7891", Decimal("1234567890123456.7891")),
    "x": ("DECIMAL(20, 4)", "1.5e3", Decimal("1500.0000")),
    "w": ("DECIMAL(38, 0)", "99999999999999999999999999999999999999", Decimal("9" * 38)),
    "s": ("STRING", "'it''s'", "it's"),
    "b": ("BOOLEAN", "TRUE", True),
    "y": ("BYTES", "X'00ff'", b"\x00\xff"),
    "yf": ("BINARY(2)", "X'0102'", b"\x01\x02"),
    "dt": ("DATE", "DATE '2024-02-29'", datetime.date(2024, 2, 29)),
    "dx": ("DATE", "'2024-02-29'", datetime.date(2024, 2, 29)),
    "tm": ("TIME", "TIME '12:34:56'", datetime.time(12, 34, 56)),
    "ts": (
        "TIMESTAMP(3)",
        "TIMESTAMP '2024-01-01 00:00:00.123'",
        datetime.datetime(2024, 1, 1, 0, 0, 0, 123000),
    ),
    "tx": ("TIMESTAMP(0)", "'9999-12-31 23:59:59'", datetime.datetime(9999, 12, 31, 23, 59, 59)),
    "tz": (
        "TIMESTAMP_LTZ(3)",
        "'2024-01-01T02:00:00+02:00'",
        datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
    ),
    "a": ("ARRAY<INT>", "ARRAY[1, NULL, 3]", [1, None, 3]),
    "am": ("ARRAY<DECIMAL(10, 2)>", "ARRAY[1.5, 2]", [Decimal("1.50"), Decimal("2.00")]),
    "ad": ("ARRAY<DOUBLE>", "ARRAY[0.1, 1]", [0.1, 1.0]),
    "mp": ("MAP<STRING, DOUBLE>", "MAP['a', 0.1, 'b', NULL]", [("a", 0.1), ("b", None)]),
    "r": (
        "ROW<p BIGINT, q ROW<u TIMESTAMP(3), v STRING>>",
        "ROW(1, ROW(TIMESTAMP '2024-01-01 00:00:00.5', 'x'))",
        {"p": 1, "q": {"u": datetime.datetime(2024, 1, 1, 0, 0, 0, 500000), "v": "x"}},
    ),
    "ar": ("ARRAY<ROW<p INT, q STRING>>", "ARRAY[ROW(1, 'x'), NULL]", [{"p": 1, "q": "x"}, None]),
    "n": ("ARRAY<ROW<p INT>>", "NULL", None),
    "c": ("INT", "CAST(NULL AS INT)", None),
    "z": ("INT", "1 + length('abc')", 4),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_values_have_the_types_of_their_columns(session, name):
    declared, literal, value = COLUMNS[name]
    session.sql(f"CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, v {declared})")
    session.sql(f"INSERT INTO t VALUES (1, {literal}), (2, NULL)")
    assert stored(session)["v"].to_pylist() == [value, None]
    assert session.sql("SELECT v FROM t ORDER BY k").to_arrow()["v"].to_pylist() == [value, None]


@pytest.mark.parametrize(
    ("declared", "literal", "text"),
    [
        (
            "TIMESTAMP(9)",
            "TIMESTAMP '2024-01-01 00:00:00.123456789'",
            "2024-01-01 00:00:00.123456789",
        ),
        ("TIMESTAMP_LTZ(9)", "'2024-01-01T00:00:00.123456789Z'", "2024-01-01 00:00:00.123456789Z"),
        ("TIME(9)", "TIME '12:34:56.123456789'", "12:34:56.123456789"),
    ],
)
def test_nanoseconds_are_kept(session, declared, literal, text):
    session.sql(f"CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, v {declared})")
    session.sql(f"INSERT INTO t VALUES (1, {literal})")
    assert text in str(session.sql("SELECT v FROM t"))


@pytest.mark.parametrize(
    ("declared", "value", "message"),
    [
        (
            "TINYINT",
            "300",
            "column 26: '300' of column 'v' cannot be read as TINYINT",
        ),
        (
            "INT",
            "1.5",
            "line 1, column 26: column 'v' (INT) does not take DECIMAL(2, 1); say CAST(... AS INT)",
        ),
        ("INT", "'5'", "line 1, column 26: column 'v' (INT) does not take STRING"),
        ("STRING", "5", "column 'v' (STRING) does not take INT"),
        ("BOOLEAN", "1", "column 'v' (BOOLEAN) does not take INT"),
        ("DECIMAL(10, 2)", "1.005", "does not fit; accepted: decimals and integers that fit"),
        ("DECIMAL(10, 2)", "CAST(1 AS DOUBLE)", "does not take DOUBLE"),
        ("TIMESTAMP(3)", "'2024-01-01 00:00:00.1234'", "column 'v' holds 3 digits of a second"),
        (
            "DATE",
            "TIMESTAMP '2024-01-01 10:00:00'",
            "column 'v' holds dates, '2024-01-01 10:00:00' has a time",
        ),
        ("DATE", "'2024-13-01'", "line 1, column 27: '2024-13-01' is no date"),
        ("TIMESTAMP(3)", "'now'", "column 27: 'now' of column 'v' cannot be read as TIMESTAMP"),
        (
            "TIMESTAMP(9)",
            "CAST('now' AS TIMESTAMP(9))",
            "'now' of column 'v' cannot be read as TIMESTAMP",
        ),
        ("BIGINT", "CAST('now' AS BIGINT)", "'now' cannot be read as BIGINT"),
        ("VARCHAR(3)", "'long'", "longer than 3 characters"),
        ("ARRAY<INT>", "ARRAY['a']", "column 'v' (ARRAY<INT>) does not take STRING[]"),
        ("ARRAY<TIMESTAMP(3)>", "ARRAY[localtimestamp]", "does not take"),
        ("ROW<a INT, b INT>", "ROW(1)", "column 'v' (ROW<a INT, b INT>) does not take STRUCT"),
        ("INT NOT NULL", "NULL", "column 'v' (INT NOT NULL): value null at row 0"),
    ],
)
def test_what_a_column_cannot_hold_is_refused(session, declared, value, message):
    session.sql(f"CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, v {declared})")
    with pytest.raises((SchemaMismatchError, InvalidStatementError)) as refusal:
        session.sql(f"INSERT INTO t VALUES (1, {value})")
    assert message in str(refusal.value)
    assert "line 1, column " in str(refusal.value)
    assert stored(session).num_rows == 0


@pytest.fixture
def t(session):
    session.sql(
        "CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, a INT, b STRING);"
        "INSERT INTO t VALUES (1, 10, 'x'), (2, 20, 'y'), (3, 30, NULL)"
    )


def test_columns_that_are_not_named_keep_their_values(session, t, rows):
    session.sql("INSERT INTO t (b, k) VALUES ('new', 1), ('z', 4)")
    assert rows("SELECT * FROM t ORDER BY k") == [
        (1, 10, "new"),
        (2, 20, "y"),
        (3, 30, None),
        (4, None, "z"),
    ]


def test_row_kinds_may_be_inserted(session, t, rows):
    session.sql("INSERT INTO t (_row_kind, k, a, b) VALUES ('-D', 1, 10, 'x'), ('+U', 2, 21, 'y')")
    assert rows("SELECT k, a FROM t") == [(2, 21), (3, 30)]


def test_insert_select(session, t, rows):
    session.sql(
        "CREATE TABLE s (id BIGINT PRIMARY KEY NOT ENFORCED, total BIGINT, avg DOUBLE, ts TIMESTAMP_LTZ(3))"
    )
    session.sql("INSERT INTO s SELECT 1, sum(a), 1.5, TIMESTAMP '2024-01-01 00:00:00' FROM t")
    session.sql(
        "INSERT INTO s (total, id) WITH q AS (SELECT * FROM t WHERE a > 10) SELECT count(*), 2 FROM q"
    )
    session.sql("WITH q AS (SELECT 3 AS n) INSERT INTO s (id) SELECT n FROM q")
    moment = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    assert rows("SELECT * FROM s") == [
        (1, 60, 1.5, moment),
        (2, 2, None, None),
        (3, None, None, None),
    ]


def test_a_table_may_be_written_from_itself(session, t, rows):
    session.sql("INSERT INTO t SELECT k + 10, a, b FROM t")
    assert rows("SELECT count(*) FROM t") == [(6,)]


def test_rows_stream_into_the_table(session, rows):
    session.sql(
        "CREATE TABLE t (k BIGINT PRIMARY KEY NOT ENFORCED) WITH ('write-buffer-size' = '4 mb')"
    )
    result = session.sql("INSERT INTO t SELECT range FROM range(500000)")
    assert result.snapshot_id == 1
    assert rows("SELECT count(*), max(k) FROM t") == [(500000, 499999)]


def test_a_failing_query_writes_nothing(session, t, rows):
    with pytest.raises(InvalidStatementError, match="cannot be read as INT"):
        session.sql("INSERT INTO t SELECT k + 10, CAST(b AS INT), b FROM t")
    assert rows("SELECT count(*) FROM t$snapshots") == [(1,)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("INSERT INTO t VALUES (1, 2)", "line 1, column 23: 2 values for 3 columns (k, a, b)"),
        ("INSERT INTO t SELECT 1, 2", "the query gives 2 columns, 3 are to be written: k, a, b"),
        ("INSERT INTO t (k, c) VALUES (1, 2)", "line 1, column 19: unknown column 'c'"),
        ("INSERT INTO t (k, a, A) VALUES (1, 2, 3)", "column 22: column 'a' is listed twice"),
        ("INSERT INTO t (a) VALUES (1)", "leave out primary key column 'k'"),
        ("INSERT INTO t PARTITION (a = 1) VALUES (1, 'x')", "'a' is not a partition column"),
        ("INSERT INTO t VALUES (NULL, 1, 'x')", "primary key column 'k'"),
        ("INSERT INTO t VALUES (1, 2, 'x') ON CONFLICT DO NOTHING", "CONFLICT is not available"),
        ("UPDATE t SET c = 1", "line 1, column 14: unknown column 'c'"),
        ("UPDATE t SET k = 1", "column 'k' is part of the key"),
        ("UPDATE t SET a = 'x'", "column 'a' (INT) does not take STRING"),
        ("DELETE FROM t USING s WHERE t.k = s.k", "DELETE with USING is not available"),
        ("TRUNCATE TABLE u", "no table 'u'"),
    ],
)
def test_refusals(session, t, text, message):
    with pytest.raises(lsmerge.LsmergeError) as refusal:
        session.sql(text)
    assert message in str(refusal.value)


# ------------------------------------------------------------------------------- update and delete


def test_update(session, t, rows):
    assert session.sql("UPDATE t SET a = a + 1, b = 'new' WHERE a >= 20").snapshot_id == 2
    assert rows("SELECT * FROM t") == [(1, 10, "x"), (2, 21, "new"), (3, 31, "new")]
    session.sql("UPDATE t SET b = NULL")
    assert rows("SELECT b FROM t") == [(None,), (None,), (None,)]


def test_delete(session, t, rows):
    session.sql("DELETE FROM t WHERE b = 'x' OR b IS NULL")
    assert rows("SELECT k FROM t") == [(2,)]
    session.sql("DELETE FROM t")
    assert rows("SELECT k FROM t") == []
    session.sql("INSERT INTO t VALUES (7, 1, 'x'); TRUNCATE TABLE t")
    assert rows("SELECT k FROM t") == []
    assert rows("SELECT k FROM t VERSION AS OF 4") == [(7,)]


def test_delete_by_a_subquery(session, t, rows):
    session.sql("DELETE FROM t WHERE k IN (SELECT max(k) FROM t)")
    assert rows("SELECT k FROM t") == [(1,), (2,)]


def test_a_delete_has_its_place_in_a_sequence(session, rows):
    session.sql(
        "CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, v INT, s INT) WITH ('sequence.field' = 's');"
        "INSERT INTO t VALUES (1, 1, 5), (2, 2, 5); DELETE FROM t WHERE k = 1; INSERT INTO t VALUES (1, 9, 4)"
    )
    assert rows("SELECT * FROM t") == [(2, 2, 5)]


@pytest.mark.parametrize("engine", ["aggregation", "first-row", "versioned"])
def test_update_is_for_engines_whose_newest_row_wins(session, engine):
    version = ", 'merge-engine.versioned.ver-column' = 'v'" if engine == "versioned" else ""
    session.sql(
        f"CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, v INT) WITH ('merge-engine' = '{engine}'{version})"
    )
    with pytest.raises(
        InvalidStatementError, match=f"UPDATE is not available for merge-engine = {engine}"
    ):
        session.sql("UPDATE t SET v = 1")


def test_versioned_tables_have_no_deletes(session):
    session.sql(
        "CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, v INT) "
        "WITH ('table.merge-engine' = 'versioned', 'table.merge-engine.versioned.ver-column' = 'v')"
    )
    with pytest.raises(
        InvalidStatementError, match="DELETE is not available for merge-engine = versioned"
    ):
        session.sql("DELETE FROM t")


@pytest.mark.parametrize(("behavior", "left"), [("allow", []), ("ignore", [(1, 3)])])
def test_deletes_of_aggregation_tables(session, rows, behavior, left):
    session.sql(
        "CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, v INT) WITH ('table.merge-engine' = 'aggregation', "
        f"'fields.v.agg' = 'sum', 'table.delete.behavior' = '{behavior}');"
        "INSERT INTO t VALUES (1, 1), (1, 2); DELETE FROM t WHERE k = 1"
    )
    assert rows("SELECT * FROM t") == left


# --------------------------------------------------------------------------------------- overwrite


@pytest.fixture
def p(session):
    session.sql(
        "CREATE TABLE p (d DATE, h INT, k INT, v INT, PRIMARY KEY (d, h, k) NOT ENFORCED) PARTITIONED BY (d, h);"
        "INSERT INTO p VALUES ('2024-01-01', 1, 1, 1), ('2024-01-01', 2, 2, 2), ('2024-01-02', 1, 3, 3)"
    )


def test_overwrite_replaces_the_partitions_of_its_rows(session, p, rows):
    session.sql("INSERT OVERWRITE p VALUES ('2024-01-01', 1, 9, 9)")
    assert rows("SELECT k FROM p ORDER BY k") == [(2,), (3,), (9,)]


def test_overwrite_of_named_partitions(session, p, rows):
    session.sql("INSERT OVERWRITE p PARTITION (d = '2024-01-01', h = 1) SELECT 9, 9")
    assert rows("SELECT k, h FROM p ORDER BY k") == [(2, 2), (3, 1), (9, 1)]
    session.sql("INSERT OVERWRITE TABLE p PARTITION (d = '2024-01-01') SELECT 5, 8, 8")
    assert rows("SELECT k, h FROM p ORDER BY k") == [(3, 1), (8, 5)]


def test_overwrite_of_a_table_without_partitions(session, t, rows):
    session.sql("INSERT OVERWRITE t SELECT k, a, b FROM t WHERE k = 2")
    assert rows("SELECT k FROM t") == [(2,)]


def test_insert_into_a_partition(session, p, rows):
    session.sql("INSERT INTO p PARTITION (d = '2024-05-05', h = 7) VALUES (1, 5)")
    assert rows("SELECT d, h, k, v FROM p WHERE h = 7") == [(datetime.date(2024, 5, 5), 7, 1, 5)]


def test_partitions_may_be_dropped(session, p, rows):
    session.sql(
        "ALTER TABLE p DROP PARTITION (d = '2024-01-01', h = 2), PARTITION (d = '2024-01-02')"
    )
    assert rows("SELECT k FROM p") == [(1,)]


def test_many_rows_of_values(session, rows):
    session.sql("CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, v STRING)")
    values = ", ".join(f"({k}, 'text {k}')" for k in range(2000))
    session.sql(f"INSERT INTO t VALUES {values}")
    assert rows("SELECT count(*), min(v), max(k) FROM t") == [(2000, "text 0", 1999)]


def test_times_without_a_zone_are_of_the_session(session, rows):
    session.sql("CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, at TIMESTAMP_LTZ(3))")
    session.sql("SET 'table.local-time-zone' = 'Asia/Tokyo'")
    session.sql(
        "INSERT INTO t VALUES (1, '2024-01-01 09:00:00'), (2, TIMESTAMP '2024-01-01 09:00:00')"
    )
    session.sql("INSERT INTO t SELECT 3, TIMESTAMP '2024-01-01 09:00:00'")
    midnight = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    assert [at.astimezone(datetime.UTC) for (at,) in rows("SELECT at FROM t")] == [midnight] * 3


def test_partitions_of_numbers_below_zero(session, rows):
    session.sql("CREATE TABLE n (h INT, k INT, PRIMARY KEY (h, k) NOT ENFORCED) PARTITIONED BY (h)")
    session.sql("INSERT INTO n PARTITION (h = -5) VALUES (1); INSERT INTO n VALUES (5, 1)")
    assert rows("SELECT h, k FROM n ORDER BY h") == [(-5, 1), (5, 1)]
    session.sql("ALTER TABLE n DROP PARTITION (h = -5)")
    assert rows("SELECT h, k FROM n") == [(5, 1)]


def test_an_update_leaves_the_columns_alone_that_it_does_not_set(session):
    session.sql("CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, a INT, b INT)")
    session.sql("INSERT INTO t VALUES (1, 1, 1)")
    session.sql("UPDATE t SET a = NULL WHERE k = 1")
    assert session.sql("SELECT * FROM t").to_arrow().to_pylist() == [{"k": 1, "a": None, "b": 1}]


def test_an_update_to_null_that_would_do_nothing_is_refused(session):
    session.sql(
        "CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, a INT) WITH ('merge-engine' = 'partial-update')"
    )
    session.sql("INSERT INTO t VALUES (1, 1)")
    with pytest.raises(InvalidStatementError, match="a null updates nothing"):
        session.sql("UPDATE t SET a = NULL")
    assert session.sql("SELECT * FROM t").to_arrow().to_pylist() == [{"k": 1, "a": 1}]


def test_a_delete_that_would_leave_the_row_is_refused(session):
    session.sql(
        "CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, a INT) "
        "WITH ('merge-engine' = 'aggregation', 'fields.a.aggregate-function' = 'sum')"
    )
    with pytest.raises(InvalidStatementError, match="takes values back and keeps the row"):
        session.sql("DELETE FROM t")


def test_what_goes_wrong_after_the_first_rows_is_told_as_ever(session):
    session.sql("CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, a STRING)")
    text = (
        "INSERT INTO t SELECT CAST(i AS INT), CASE WHEN i = 190000 THEN CAST('boom' AS INT)::STRING END "
        "FROM range(200000) r(i)"
    )
    with pytest.raises(InvalidStatementError, match="'boom' cannot be read as INT"):
        session.sql(text)
    assert session.sql("SELECT count(*) AS n FROM t").to_arrow().to_pylist() == [{"n": 0}]


@pytest.mark.parametrize("count", [102, 700])
def test_a_condition_may_be_as_long_as_one_likes(session, count):
    session.sql("CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED)")
    session.sql("INSERT INTO t VALUES (1), (2), (3)")
    condition = " OR ".join(f"k = {number}" for number in range(2, count))
    session.sql(f"DELETE FROM t WHERE {condition}")
    assert session.sql("SELECT * FROM t").to_arrow().to_pylist() == [{"k": 1}]


def test_what_is_nested_too_deeply_is_refused(session):
    with pytest.raises(InvalidStatementError, match="nested too deeply"):
        session.sql(f"SELECT {'(' * 700}1{')' * 700}")


# --------------------------------------------------------------------------------- others meanwhile


@pytest.fixture
def intruding(memory_uri, session, monkeypatch):
    """Lets somebody else write between the read and the commit of a statement, so often."""

    def intrude(times, write):
        left = iter(range(times))
        selected = Writer._selected

        def with_intruder(self, *arguments):
            rows = selected(self, *arguments)
            if next(left, None) is not None:
                write(lsmerge.open_table(f"{session.catalog.uri}/t"))
            return rows

        monkeypatch.setattr(Writer, "_selected", with_intruder)

    session.sql("CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, n INT)")
    session.sql("INSERT INTO t VALUES (1, 1), (2, 1)")
    return intrude


def test_an_update_sees_what_others_wrote_meanwhile(session, rows, intruding):
    intruding(2, lambda t: t.upsert([{"k": 1, "n": t.get(1)["n"] + 10}]))
    session.sql("UPDATE t SET n = n + 1 WHERE k = 1")
    assert rows("SELECT n FROM t WHERE k = 1") == [(22,)], "no update is lost"


def test_a_delete_spares_rows_that_meanwhile_do_not_fit(session, rows, intruding):
    intruding(1, lambda t: t.upsert([{"k": 1, "n": 5}]))
    assert session.sql("DELETE FROM t WHERE n = 1").rows_written == 1
    assert rows("SELECT k, n FROM t") == [(1, 5)]


def test_compactions_are_no_reason_to_begin_again(session, intruding):
    intruding(1, lambda t: t.compact(full=True))
    assert session.sql("UPDATE t SET n = 2").snapshot_id == 3


def test_an_update_gives_up_where_others_never_rest(session, rows, intruding):
    intruding(100, lambda t: t.upsert([{"k": 3, "n": 3}]))
    with pytest.raises(CommitConflictError, match=r"line 1, column 1: .*nothing was written"):
        session.sql("UPDATE t SET n = 2 WHERE k = 1")
    assert rows("SELECT n FROM t WHERE k = 1") == [(1,)]


def test_statements_that_find_no_row_make_no_snapshot(session, intruding):
    for text in ("UPDATE t SET n = 2 WHERE k = 9", "DELETE FROM t WHERE k = 9"):
        result = session.sql(text)
        assert (result.snapshot_id, result.rows_written) == (None, 0)
    assert session.sql("INSERT INTO t SELECT * FROM t WHERE k = 9").snapshot_id is None
    assert session.sql("SELECT max(snapshot_id) AS n FROM t$snapshots").to_pylist() == [{"n": 1}]
