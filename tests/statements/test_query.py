"""Queries: joins, aggregates and subqueries by DuckDB, snapshots and system tables by lsmerge."""

import datetime

import pyarrow as pa
import pytest

import lsmerge
from lsmerge import (
    CorruptFileError,
    InvalidStatementError,
    SnapshotNotFoundError,
    TableNotFoundError,
)
from lsmerge.statements import Session
from lsmerge.statements.evaluation import Question, Stream
from lsmerge.statements.script import statements
from tests.s3_server import S3Server


@pytest.fixture(autouse=True)
def tables(session):
    session.sql(
        """
        CREATE TABLE orders (id INT PRIMARY KEY NOT ENFORCED, customer INT, amount DECIMAL(10, 2));
        CREATE TABLE customers (id INT PRIMARY KEY NOT ENFORCED, name STRING);
        INSERT INTO orders VALUES (1, 1, 10.50), (2, 1, 4.50), (3, 2, 7.00), (4, NULL, 1.00);
        INSERT INTO customers VALUES (1, 'ada'), (2, 'bob'), (3, 'eve');
        """
    )


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT id FROM orders WHERE amount > 5 ORDER BY id DESC", [(3,), (1,)]),
        ("SELECT count(*), sum(amount) FROM orders", [(4, 23)]),
        (
            """SELECT c.name, sum(o.amount) AS total FROM orders o JOIN customers c ON o.customer = c.id
               GROUP BY c.name HAVING sum(o.amount) > 1 ORDER BY total""",
            [("bob", 7), ("ada", 15)],
        ),
        (
            "SELECT name FROM customers LEFT JOIN orders ON customer = customers.id WHERE amount IS NULL",
            [("eve",)],
        ),
        (
            "SELECT name FROM customers c WHERE EXISTS (SELECT 1 FROM orders WHERE customer = c.id AND amount > 9)",
            [("ada",)],
        ),
        (
            "SELECT a.id, b.id FROM orders a, orders b WHERE a.amount < b.amount AND b.id = 3 ORDER BY 1",
            [(2, 3), (4, 3)],
        ),
        ("WITH big AS (SELECT * FROM orders WHERE amount > 5) SELECT max(id) FROM big", [(3,)]),
        ("WITH orders AS (SELECT * FROM orders WHERE id = 2) SELECT id FROM orders", [(2,)]),
        ("WITH a AS (SELECT 1 AS n), b AS (SELECT n + 1 AS n FROM a) SELECT * FROM a, b", [(1, 2)]),
        (
            "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT sum(n) FROM r",
            [(6,)],
        ),
        (
            "SELECT id FROM orders UNION ALL SELECT id FROM customers ORDER BY 1 LIMIT 3",
            [(1,), (1,), (2,)],
        ),
        (
            "SELECT id, rank() OVER (ORDER BY amount) FROM orders ORDER BY 2 LIMIT 2",
            [(4, 1), (2, 2)],
        ),
        ("VALUES (1, 'a'), (2, 'b')", [(1, "a"), (2, "b")]),
        ("(SELECT 1)", [(1,)]),
        ('SELECT `id` FROM `orders` WHERE "id" = 1', [(1,)]),
        ("SELECT ID FROM ORDERS WHERE Id = 1", [(1,)]),
        ("SELECT orders.id FROM orders WHERE orders.id = 1", [(1,)]),
        (
            "SELECT CASE WHEN amount > 5 THEN 'much' ELSE 'little' END FROM orders WHERE id = 1",
            [("much",)],
        ),
        (
            "SELECT DATE_FORMAT(TIMESTAMP '2024-01-31 12:30:00', 'yyyy-MM-dd HH:mm')",
            [("2024-01-31 12:30",)],
        ),
        (
            "SELECT ARRAY[1, 2][1], MAP['a', 1]['a'], CAST(ROW(1, 'x') AS ROW<a INT, b STRING>).b",
            [(1, 1, "x")],
        ),
        # As in Flink and Spark, null comes first.
        ("SELECT customer FROM orders ORDER BY customer LIMIT 1", [(None,)]),
    ],
)
def test_answers(rows, query, expected):
    assert rows(query) == expected


def test_rows_inside_arrays_and_maps_become_columns(session, rows):
    session.sql(
        """
        CREATE TABLE w (
            k INT PRIMARY KEY NOT ENFORCED, r ARRAY<ROW<a INT, b STRING>>, n ARRAY<INT>, m MAP<STRING, INT>
        );
        INSERT INTO w VALUES (1, ARRAY[ROW(1, 'x'), ROW(2, 'y')], ARRAY[7, 8], MAP['p', 5]), (2, NULL, NULL, NULL);
        """
    )
    assert rows("SELECT k, a, b FROM w, UNNEST(r) AS t(a, b)") == [(1, 1, "x"), (1, 2, "y")]
    assert rows("SELECT k, b FROM w CROSS JOIN UNNEST(r)") == [(1, "x"), (1, "y")]
    assert rows("SELECT k, v FROM w, UNNEST(n) AS t(v)") == [(1, 7), (1, 8)]
    assert rows("SELECT k, x, y FROM w CROSS JOIN UNNEST(m) AS t(x, y)") == [(1, "p", 5)]
    assert rows("SELECT k, a FROM w LEFT JOIN UNNEST(r) AS t(a, b) ON TRUE ORDER BY k, a") == [
        (1, 1),
        (1, 2),
        (2, None),
    ]


# ---------------------------------------------------------------------------------------- snapshots


@pytest.fixture
def versions(session):
    session.sql("INSERT INTO customers VALUES (1, 'ann')")
    table = lsmerge.open_table(f"{session.catalog.uri}/customers")
    table.create_tag("start", 1)
    return table


@pytest.mark.parametrize(
    "clause",
    [
        "customers VERSION AS OF 1",
        "customers FOR VERSION AS OF 1",
        "customers FOR SYSTEM_VERSION AS OF 1",
        "customers VERSION AS OF 'start'",
        "customers VERSION AS OF 1 AS c",
        "customers /*+ OPTIONS('scan.snapshot-id' = '1') */",
        "customers /*+ OPTIONS('scan.snapshot-id'='1', 'scan.mode'='from-snapshot') */ AS c",
        "customers /*+ OPTIONS('scan.tag-name'='start') */",
        "customers /*+ OPTIONS('scan.version'='start') */",
    ],
)
def test_versions(versions, rows, clause):
    assert rows(f"SELECT name FROM {clause} WHERE id = 1") == [("ada",)]
    assert rows("SELECT name FROM customers WHERE id = 1") == [("ann",)]


def test_timestamps(versions, session, rows):
    first, second = (snapshot.timestamp_ms for snapshot in versions.snapshots())
    moment = datetime.datetime.fromtimestamp(first / 1000, datetime.UTC)
    text = f"{moment:%Y-%m-%d %H:%M:%S.%f}"
    for clause in (
        f"TIMESTAMP AS OF '{text}'",
        f"FOR SYSTEM_TIME AS OF TIMESTAMP '{text}'",
        f"FOR TIMESTAMP AS OF CAST('{text}' AS TIMESTAMP)",
        f"/*+ OPTIONS('scan.timestamp-millis' = '{first}') */",
        f"/*+ OPTIONS('scan.timestamp' = '{text}') */",
    ):
        expected = [("ada",)] if first < second else [("ann",)]
        assert rows(f"SELECT name FROM customers {clause} WHERE id = 1") == expected
    session.sql("SET 'table.local-time-zone' = 'America/New_York'")
    local = moment.astimezone(datetime.timezone(datetime.timedelta(hours=-12)))
    with pytest.raises(SnapshotNotFoundError):
        session.sql(f"SELECT * FROM customers TIMESTAMP AS OF '{local:%Y-%m-%d %H:%M:%S}'")


def test_columns_are_those_of_the_snapshot(session, rows):
    session.sql(
        "ALTER TABLE customers ADD COLUMN city STRING; INSERT INTO customers VALUES (9, 'zoe', 'oslo')"
    )
    assert rows("SELECT * FROM customers VERSION AS OF 1 WHERE id = 1") == [(1, "ada")]
    assert rows("SELECT * FROM customers WHERE id = 9") == [(9, "zoe", "oslo")]


def test_two_snapshots_of_one_table(versions, rows):
    query = """SELECT o.name, n.name FROM customers VERSION AS OF 1 AS o JOIN customers AS n USING (id)
               WHERE o.name <> n.name"""
    assert rows(query) == [("ada", "ann")]


def test_a_result_stays_at_its_snapshot(session):
    result = session.sql("SELECT count(*) AS n FROM customers")
    session.sql("INSERT INTO customers VALUES (7, 'new')")
    assert [row["n"] for _ in range(2) for row in result.to_pylist()] == [3, 3]


# ------------------------------------------------------------------------------------ system tables


def test_snapshots_and_changes(versions, rows):
    assert rows("SELECT snapshot_id, commit_kind, delta_record_count FROM customers$snapshots") == [
        (1, "APPEND", 3),
        (2, "APPEND", 1),
    ]
    assert rows(
        "SELECT _row_kind, id, name, _snapshot_id FROM `customers$changelog` ORDER BY 4, 2"
    ) == [
        ("+I", 1, "ada", 1),
        ("+I", 2, "bob", 1),
        ("+I", 3, "eve", 1),
        ("+I", 1, "ann", 2),
    ]
    assert rows("SELECT rowkind, id, name FROM customers$audit_log WHERE name = 'ann'") == [
        ("+I", 1, "ann")
    ]
    assert rows("SELECT tag_name, snapshot_id FROM customers$tags") == [("start", 1)]


def test_files_partitions_and_the_rest(session, rows):
    session.sql(
        "CREATE TABLE p (d STRING, k INT, PRIMARY KEY (d, k) NOT ENFORCED) PARTITIONED BY (d) WITH ('bucket'='2');"
        "INSERT INTO p VALUES ('a', 1), ('b', 1), ('b', 2); ALTER TABLE p ADD v INT"
    )
    assert rows(
        "SELECT partition, sum(record_count) FROM p$files GROUP BY partition ORDER BY 1"
    ) == [
        ("{d=a}", 1),
        ("{d=b}", 2),
    ]
    assert rows("SELECT partition, record_count, bucket_count FROM p$partitions") == [
        ("{d=a}", 1, 2),
        ("{d=b}", 2, 2),
    ]
    assert rows("SELECT sum(record_count) FROM p$buckets") == [(3,)]
    assert rows("SELECT * FROM p$options") == [("bucket", "2")]
    assert rows("SELECT schema_id, primary_keys FROM p$schemas") == [
        (0, '["d", "k"]'),
        (1, '["d", "k"]'),
    ]
    assert rows("SELECT * FROM p$consumers") == []


def test_system_tables_of_an_empty_table(session, rows):
    session.sql("CREATE TABLE e (k INT PRIMARY KEY NOT ENFORCED)")
    for name in (
        "snapshots",
        "files",
        "changelog",
        "audit_log",
        "tags",
        "partitions",
        "buckets",
        "consumers",
        "options",
    ):
        assert rows(f"SELECT * FROM e${name}") == []


# ------------------------------------------------------------------------------------- around them


def test_describe_and_show(rows):
    assert rows("DESCRIBE orders") == [
        ("id", "INT", False, "PRI(id)", None),
        ("customer", "INT", True, None, None),
        ("amount", "DECIMAL(10,2)", True, None, None),
    ]
    assert rows("DESC customers") == rows("SHOW COLUMNS FROM customers")
    assert rows("SHOW TABLES") == [("customers",), ("orders",)]


def test_explain_tells_what_is_read(rows):
    query = """EXPLAIN SELECT o.amount FROM orders AS o JOIN customers AS c ON c.id = o.customer
               WHERE o.id = 1 AND c.id > 1"""
    # Names count for all tables: whose they are, DuckDB decides.
    assert rows(query) == [
        ("orders", 1, "id, customer, amount", "`id` = 1", 1, 1),
        ("customers", 1, "id", "`id` > 1", 1, 1),
    ]


def test_a_filter_on_the_key_skips_files(session, rows):
    session.sql(
        "CREATE TABLE p (d STRING, k INT, PRIMARY KEY (d, k) NOT ENFORCED) PARTITIONED BY (d)"
    )
    session.sql(
        "INSERT INTO p VALUES ('a', 1); INSERT INTO p VALUES ('b', 1); INSERT INTO p VALUES ('b', 50)"
    )
    [(*_, files, read)] = rows("EXPLAIN SELECT * FROM p WHERE d = 'b' AND k > 40")
    assert (files, read) == (2, 1)


def test_large_results_stream(session):
    session.sql("CREATE TABLE big (k BIGINT PRIMARY KEY NOT ENFORCED, v STRING)")
    table = lsmerge.open_table(f"{session.catalog.uri}/big")
    table.upsert(pa.table({"k": range(300_000), "v": ["x"] * 300_000}))
    batches = session.sql("SELECT k + 1 AS k FROM big").to_batches()
    assert next(batches).num_rows < 300_000
    assert sum(batch.num_rows for batch in batches) > 200_000


def test_results_are_arrow(session):
    result = session.sql("SELECT id, amount FROM orders WHERE id = 1")
    assert pa.table(result).schema == pa.schema({"id": pa.int32(), "amount": pa.decimal128(10, 2)})
    assert repr(result) == "Result(columns=['id', 'amount'])"
    assert session.sql("").to_pylist() == []


def test_files_of_other_formats_are_read_by_duckdb(session, rows, tmp_path):
    (tmp_path / "new.csv").write_text("5,2,3.25\n")
    query = f"SELECT column0, column1, CAST(column2 AS DECIMAL(10, 2)) FROM read_csv('{tmp_path}/new.csv')"
    session.sql(f"INSERT INTO orders {query}")
    assert rows("SELECT customer FROM orders WHERE id = 5") == [(2,)]


def test_variables_of_the_program_are_no_tables(session):
    secrets = pa.table({"a": [1]})
    assert secrets.num_rows == 1
    with pytest.raises(TableNotFoundError, match="no table 'secrets'"):
        session.sql("SELECT * FROM secrets")


def test_what_a_scan_raises_is_raised(tmp_path):
    session = Session(tmp_path)
    session.sql(
        "CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, v STRING); INSERT INTO t VALUES (1, 'a')"
    )
    [path] = tmp_path.rglob("data-*.arrow")
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 3] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(CorruptFileError):
        Session(tmp_path).sql("SELECT * FROM t").to_arrow()


def test_what_goes_wrong_in_a_stream_is_not_taken_for_the_users_fault():
    def batches():
        yield pa.record_batch({"k": [1]})
        raise ZeroDivisionError("a fault of ours")

    [statement] = statements("SELECT sum(k) FROM broken")
    stream = Stream(pa.schema({"k": pa.int64()}), batches)
    question = Question(statement, statement.text, {"broken": stream}, {})
    with pytest.raises(ZeroDivisionError, match="a fault of ours"):
        list(question.batches())


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("SELECT * FROM ordrs", TableNotFoundError, "line 1, column 15: no table 'ordrs'"),
        ("SELECT * FROM ordrs", TableNotFoundError, "did you mean 'orders'?"),
        (
            "SELECT\n  amont FROM orders",
            InvalidStatementError,
            "line 2, column 3: unknown column 'amont'; did",
        ),
        (
            "SELECT o.amont FROM orders o",
            InvalidStatementError,
            "unknown column 'amont'; did you mean 'amount'?",
        ),
        ("SELECT x.id FROM orders o", InvalidStatementError, "no table of the query is called 'x'"),
        (
            "SELECT summ(id) FROM orders",
            InvalidStatementError,
            "column 8: unknown function 'summ'; did you mean",
        ),
        (
            "SELECT * FROM orders$file",
            InvalidStatementError,
            "no system table 'file'; did you mean 'files'?",
        ),
        ("SELECT * FROM d.orders", InvalidStatementError, "a warehouse has no databases"),
        (
            "SELECT * FROM orders WHERE id = 'x'",
            InvalidStatementError,
            "'x' cannot be read as INT",
        ),
        (
            "SELECT * FROM orders VERSION AS OF 9",
            SnapshotNotFoundError,
            "snapshot 9 does not exist",
        ),
        ("SELECT * FROM orders VERSION AS OF 'x'", SnapshotNotFoundError, "'x'"),
        (
            "SELECT * FROM orders TIMESTAMP AS OF 'soon'",
            InvalidStatementError,
            "give a time such as",
        ),
        (
            "SELECT * FROM orders /*+ OPTIONS('scan.snapshot'='1') */",
            InvalidStatementError,
            "did you mean 'scan.snapshot-id'?",
        ),
        (
            "SELECT * FROM orders /*+ OPTIONS('scan.snapshot-id'='x') */",
            InvalidStatementError,
            "give a whole number",
        ),
        (
            "SELECT * FROM orders /*+ OPTIONS('scan.mode'='earliest') */",
            InvalidStatementError,
            "t$changelog",
        ),
        (
            "SELECT /*+ OPTIONS('scan.snapshot-id'='1') */ * FROM orders",
            InvalidStatementError,
            "behind a table's name",
        ),
        ("SELECT * FROM orders$files VERSION AS OF 1", InvalidStatementError, "newest snapshot"),
        ("SELECT FROM", InvalidStatementError, "line 1, column "),
        ("SELECT 1 +", InvalidStatementError, "line 1, column "),
        ("SELECT (1", InvalidStatementError, "line 1, column "),
        ("SELCT 1", InvalidStatementError, "SELCT is not available; did you mean 'SELECT'?"),
        (
            "MERGE INTO t USING s ON 1=1 WHEN MATCHED THEN DELETE",
            InvalidStatementError,
            "MERGE is not available",
        ),
        ("CALL sys.compact('t')", InvalidStatementError, "CALL is not available"),
    ],
)
def test_refusals(session, query, error, message):
    with pytest.raises(error) as refusal:
        session.sql(query).to_arrow()
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "MERGE INTO t USING s ON 1 = 1 WHEN MATCHED THEN DELETE",
            "INSERT INTO merges rows by their key",
        ),
        ("USE d", "a warehouse has no databases"),
        ("SHOW DATABASES", "a warehouse has no databases, and SHOW TABLES lists its tables"),
        ("SHOW PARTITIONS orders", "say SELECT * FROM t$partitions"),
        ("SHOW FUNCTIONS", "expected TABLES, COLUMNS FROM, or CREATE TABLE, found 'FUNCTIONS'"),
        ("BEGIN", "every statement is a commit of its own"),
        ("COPY orders TO 'x'", "read_csv"),
        ("EXPLAIN INSERT INTO orders VALUES (1)", "line 1, column 9: EXPLAIN is for queries"),
    ],
)
def test_what_is_said_otherwise(session, text, message):
    assert message in refusal_of(session, text)


def refusal_of(session, text):
    with pytest.raises(InvalidStatementError) as refusal:
        session.sql(text).to_arrow()
    return str(refusal.value)


def test_hints_inside_text_are_text(rows):
    assert rows("SELECT '/*+ OPTIONS(''a''=''b'') */'") == [("/*+ OPTIONS('a'='b') */",)]


def test_words_of_sql_may_be_columns(session, rows):
    session.sql(
        "CREATE TABLE w (key INT PRIMARY KEY NOT ENFORCED, value STRING, date DATE, timestamp TIMESTAMP(3), "
        "comment STRING, type STRING, year INT, version INT, `order` INT)"
    )
    session.sql(
        "INSERT INTO w VALUES (1, 'v', '2024-01-01', '2024-01-01 00:00:00', 'c', 't', 2024, 3, 4)"
    )
    assert rows(
        "SELECT key, value, comment, type, year, version, `order` FROM w WHERE date = '2024-01-01'"
    ) == [(1, "v", "c", "t", 2024, 3, 4)]


def test_nothing_is_logged(session, caplog, capsys):
    session.sql(
        "SELECT ARRAY[1, 2][1], DATE_FORMAT(NOW(), 'yyyy'), COLLECT_LIST(id) FROM orders"
    ).to_arrow()
    assert (caplog.records, *capsys.readouterr()) == ([], "", "")


def test_results_are_read_side_by_side_while_rows_come(session):
    session.sql(
        "CREATE TABLE s (k BIGINT PRIMARY KEY NOT ENFORCED); INSERT INTO s SELECT range FROM range(200000)"
    )
    one, other = (session.sql(f"SELECT k FROM s WHERE k >= {low}").to_batches() for low in (0, 100))
    read = [next(one).num_rows, next(other).num_rows]
    session.sql("INSERT INTO s SELECT range + 1000000 FROM range(10)")
    read[0] += sum(batch.num_rows for batch in one)
    read[1] += sum(batch.num_rows for batch in other)
    assert read == [200000, 199900]


def test_a_warehouse_in_an_object_store():
    with S3Server() as s3:
        place = {"warehouse": "s3://bucket/house", "storage_options": s3.storage_options}
        lsmerge.sql(
            "CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED); INSERT INTO t VALUES (1)", **place
        )
        assert lsmerge.sql("SELECT * FROM t", **place).to_pylist() == [{"k": 1}]
        assert lsmerge.sql("SHOW TABLES", **place).to_pylist() == [{"table name": "t"}]
        lsmerge.sql("DROP TABLE T", **place)
        assert lsmerge.sql("SHOW TABLES", **place).to_pylist() == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT *\nFROM orders VERSION AS OF 99", "line 2, column 27: snapshot 99 does not exist"),
        ("SELECT * FROM orders VERSION AS OF 'old'", "line 1, column 37: unknown tag 'old'"),
        (
            "SELECT * FROM orders TIMESTAMP AS OF '2001-01-01'",
            "line 1, column 38: time '2001-01-01T00:00:00+00:00': no snapshot is that old",
        ),
        (
            "SELECT * FROM orders /*+ OPTIONS('scan.tag-name' = 'old') */",
            "line 1, column 53: unknown tag 'old'",
        ),
    ],
)
def test_snapshots_that_are_not_there_are_told_with_their_place(session, text, message):
    with pytest.raises(SnapshotNotFoundError) as refusal:
        session.sql(text)
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT * FROM", "column 10: expected the name of a table behind 'FROM' (at: FROM)"),
        ("SELECT 1 +", "column 10: something is missing at or behind '+'"),
        ("SELECT (1", "column 9: expected ) at or behind '1'"),
        ("SELECT * FRM orders", "column 14: 'orders' was not expected here (at: orders)"),
        ("SELECT id FROM orders GROUP BY", "'BY' was not expected here"),
        ("SELECT id + name FROM customers", "column 11: '+' does not take (INT, STRING)"),
        ("SELECT id, amount FROM orders GROUP BY id", "neither in GROUP BY nor inside"),
        ("SELECT * FROM orders, orders", "two tables of the query are called 'orders'"),
        ("SELECT $$ FROM orders", "'$$' was not expected here"),
        ("SELECT CAST(300 AS TINYINT)", "column 13: 300 is out of range for TINYINT"),
        ("UPDATE orders SET", "column 18: UPDATE needs SET column = value (at: the end)"),
        ("UPDATE orders SET amount", "column 19: expected column = value behind SET"),
    ],
)
def test_what_cannot_be_read_or_computed_is_told_in_words_of_the_statement(session, text, message):
    told = refusal_of(session, text)
    assert message in told
    assert "lsmerge_" not in told
    assert "sqlglot" not in told
