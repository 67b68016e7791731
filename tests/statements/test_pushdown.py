"""What a query leaves out of its scans, and that no row is lost by it. LSMERGE_EXAMPLES=1000 searches longer."""

import datetime
from collections import Counter
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

import lsmerge
from lsmerge.statements import Session
from lsmerge.statements.dialect import parsed
from lsmerge.statements.pushdown import pushed
from lsmerge.statements.script import statements
from tests.searches import examples

SCHEMA = pa.schema(
    {
        "k": pa.int64(),
        "n": pa.int32(),
        "x": pa.float64(),
        "s": pa.string(),
        "d": pa.date32(),
        "ts": pa.timestamp("ms"),
        "m": pa.decimal128(10, 2),
        "b": pa.bool_(),
        "z": pa.timestamp("us", "UTC"),
        "y": pa.binary(),
    }
)


def pushed_to(query, table="t", schemas=None):
    [statement] = statements(query)
    tree = parsed(statement)
    nodes = list(tree.find_all(exp.Table))
    known = {id(node): (schemas or {}).get(node.name, SCHEMA) for node in nodes}
    [node] = [node for node in nodes if node.alias_or_name == table]
    return pushed(tree, node, known)


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT k FROM t", ["k"]),
        ("SELECT count(*) FROM t", ["k"]),
        ("SELECT sum(n) FROM t WHERE s = 'a' GROUP BY b ORDER BY x", ["n", "x", "s", "b"]),
        ("SELECT N FROM t", ["n"]),
        ("SELECT * FROM t", None),
        ("SELECT t.* FROM t", None),
        ("SELECT t FROM t", None),
        ("SELECT * EXCEPT (n) FROM t", None),
        ("SELECT (SELECT max(n) FROM t) FROM u", ["n"]),
        ("SELECT k FROM t NATURAL JOIN u", None),
        ("SELECT u.n FROM t JOIN u USING (k)", ["k", "n"]),
        ("SELECT c FROM t AS t(c, e)", None),
    ],
)
def test_columns(query, columns):
    assert pushed_to(query).columns == columns


def test_columns_of_a_table_with_an_alias():
    found = pushed_to("SELECT q.k FROM t AS q WHERE q.n > 1", "q")
    assert (found.columns, found.filter) == (["k", "n"], "`n` > 1")


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("k = 5", "`k` = 5"),
        ("5 < k", "`k` > 5"),
        ("k >= -5 AND n <> 2", "`k` >= -5 and `n` != 2"),
        ("k = 4.5", "`k` = 4.5"),
        ("t.k = 1", "`k` = 1"),
        ("K IN (1, 2)", "`k` in (1, 2)"),
        ("k NOT IN (1, 2)", "`k` not in (1, 2)"),
        ("k BETWEEN 1 AND 9", "`k` between 1 and 9"),
        ("s = 'it''s' OR s IS NULL", "(`s` = 'it''s' or `s` is null)"),
        ("s IS NOT NULL", "not `s` is null"),
        ("d >= '2024-01-31'", "`d` >= '2024-01-31'"),
        ("d >= DATE '2024-01-31'", "`d` >= '2024-01-31'"),
        ("t.ts < TIMESTAMP '2024-01-31 12:00:00.5'", "`ts` < '2024-01-31 12:00:00.5'"),
        ("m <= 1.25", "`m` <= 1.25"),
        ("b = TRUE", "`b` = true"),
        ("y = X'0aff'", "`y` = X'0aff'"),
        ("k = 1 AND upper(s) = 'A'", "`k` = 1"),
        ("(k = 1 AND n = 2) OR k = 3", "((`k` = 1 and `n` = 2) or `k` = 3)"),
        # DuckDB would not compare these as a filter does, or may not mean the column.
        ("k = '5'", None),
        ("s = 5", None),
        ("x > 1", None),
        ("k = 1e3", None),
        ("d >= '2024-1-31'", None),
        ("z >= '2024-01-31'", None),
        ("k = n", None),
        ("k = 1 OR upper(s) = 'A'", None),
        ("NOT k = 1", None),
        ("k IN (SELECT k FROM u)", None),
        ("k = (SELECT 1)", None),
    ],
)
def test_filter(where, expected):
    assert pushed_to(f"SELECT * FROM t WHERE {where}").filter == expected


OTHER = {"u": pa.schema({"k": pa.int64(), "o": pa.int64()})}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM t JOIN u ON t.k = u.k WHERE t.k = 1 AND u.k = 2", "`k` = 1"),
        ("SELECT * FROM t, u WHERE n = 1 AND o = 2 AND k = 3", "`n` = 1"),
        ("SELECT * FROM u LEFT JOIN t ON t.k = u.k WHERE t.n = 1", "`n` = 1"),
        ("SELECT * FROM u LEFT JOIN t ON t.k = u.k WHERE t.n IS NULL", None),
        ("SELECT * FROM u LEFT JOIN t ON t.k = u.k WHERE t.n = 1 OR t.n IS NULL", None),
        ("SELECT * FROM t ASOF JOIN u ON t.k >= u.k WHERE t.n = 1", None),
        ("SELECT * FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.k = u.k AND n = 1)", "`n` = 1"),
        ("SELECT * FROM t, (SELECT 1 AS n) AS q WHERE n = 1", None),
        ("SELECT * FROM t TABLESAMPLE (10 PERCENT) WHERE n = 1", None),
    ],
)
def test_filter_beside_other_tables(query, expected):
    assert pushed_to(query, schemas=OTHER).filter == expected


# ---------------------------------------------------------------------------------- no row is lost

VALUES = {
    "n": st.integers(-3, 3),
    "s": st.sampled_from(["a", "b", "it's", ""]),
    "d": st.sampled_from([datetime.date(2024, 1, 1), datetime.date(2024, 1, 31)]),
    "ts": st.sampled_from([datetime.datetime(2024, 1, 1, 12), datetime.datetime(2024, 1, 31)]),
    "m": st.sampled_from([Decimal("1.25"), Decimal("-2.00"), Decimal("0.01")]),
    "b": st.booleans(),
    "x": st.sampled_from([1.5, float("nan"), -0.0]),
}
LITERALS = {
    "k": st.sampled_from(["2", "4.5", "-1", "'3'", "1e0", "99999999999999999999"]),
    "n": st.sampled_from(["0", "-2", "1.5", "'1'"]),
    "s": st.sampled_from(["'a'", "'it''s'", "''", "'zz'"]),
    "d": st.sampled_from(["'2024-01-01'", "DATE '2024-01-31'", "TIMESTAMP '2024-01-01 12:00:00'"]),
    "ts": st.sampled_from(["'2024-01-01'", "TIMESTAMP '2024-01-01 12:00:00'", "DATE '2024-01-31'"]),
    "m": st.sampled_from(["1.25", "1.2501", "-2", "0.01"]),
    "b": st.sampled_from(["TRUE", "FALSE"]),
    "x": st.sampled_from(["1.5", "0", "-1"]),
}
OPERATORS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])


@st.composite
def column_tests(draw):
    column = draw(st.sampled_from(sorted(LITERALS)))
    literal, other = draw(LITERALS[column]), draw(LITERALS[column])
    form = draw(st.integers(0, 4))
    return [
        f"a.{column} {draw(OPERATORS)} {literal}",
        f"{literal} {draw(OPERATORS)} a.{column}",
        f"a.{column} {draw(st.sampled_from(['IN', 'NOT IN']))} ({literal}, {other})",
        f"a.{column} BETWEEN {literal} AND {other}",
        f"a.{column} IS {draw(st.sampled_from(['', 'NOT ']))}NULL",
    ][form]


CONDITIONS = st.recursive(
    column_tests(),
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=5,
)
SOURCES = st.sampled_from(
    [
        "a",
        "b LEFT JOIN a ON a.k = b.k",
        "b FULL JOIN a ON a.k = b.k",
        "a JOIN b ON a.k = b.k",
        "a LEFT JOIN b ON a.k = b.k",
    ]
)
ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()}),
    min_size=1,
    max_size=8,
)


@pytest.fixture(scope="module")
def both():
    """A session with two empty tables, and a DuckDB that knows nothing of lsmerge."""
    with Session("memory://pushdown") as session, duckdb.connect() as connection:
        session.sql(
            "CREATE TABLE a (k BIGINT PRIMARY KEY NOT ENFORCED, n INT, s STRING, d DATE, ts TIMESTAMP(3), "
            "m DECIMAL(10,2), b BOOLEAN, x DOUBLE); CREATE TABLE b (k BIGINT PRIMARY KEY NOT ENFORCED)"
        )
        yield session, connection


@settings(max_examples=examples(25))
@given(rows=ROWS, condition=CONDITIONS, source=SOURCES)
def test_a_query_gives_what_duckdb_gives_without_pushdown(both, rows, condition, source):
    session, connection = both
    schema = pa.schema([SCHEMA.field(name) for name in ("k", *VALUES)])
    table = pa.Table.from_pylist([{"k": k, **row} for k, row in enumerate(rows)], schema=schema)
    other = pa.table({"k": pa.array([1, 3, 5, 100], pa.int64())})
    for name, data in (("a", table), ("b", other)):
        lsmerge.open_table(f"memory://pushdown/{name}").overwrite(data)
        connection.register(name, data)
    query = f"SELECT a.k FROM {source} WHERE {condition}"
    expected = Counter(k for (k,) in connection.sql(query).fetchall())
    assert Counter(session.sql(query).to_arrow()["k"].to_pylist()) == expected
