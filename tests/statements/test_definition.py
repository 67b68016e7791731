"""CREATE TABLE in the spellings of Flink, Spark, Fluss and Hudi; what it refuses, and where."""

import pytest

import lsmerge
from lsmerge import InvalidOptionError, InvalidStatementError, SchemaMismatchError, TableExistsError


def made(session, name="t"):
    return lsmerge.open_table(f"{session.catalog.uri}/{name}")


def types_of(table):
    return {
        c.name: f"{c.type}{'' if c.nullable else ' NOT NULL'}" for c in table.schemas()[-1].columns
    }


def test_types(session):
    session.sql(
        """CREATE TABLE t (
            `a b` INT, ti TINYINT, si SMALLINT, i INTEGER, l LONG, bi BIGINT NOT NULL, r REAL, d DOUBLE,
            de DECIMAL(10, 2), n NUMERIC(5), b BOOLEAN, s STRING, tx TEXT, vc VARCHAR(7), c CHAR(3), by BYTES,
            bi2 BINARY(4), vb VARBINARY(9), dt DATE, tm TIME(3), ts TIMESTAMP(3), t0 TIMESTAMP, tz TIMESTAMP_LTZ(9),
            t3 TIMESTAMP(3) WITH LOCAL TIME ZONE, t4 TIMESTAMP(6) WITHOUT TIME ZONE, tn TIMESTAMP_NTZ,
            ar ARRAY<ROW<x BIGINT, y DECIMAL(10, 2) NOT NULL>>, m MAP<STRING, ARRAY<INT>>, st STRUCT<a: INT, b: STRING>,
            PRIMARY KEY (`a b`) NOT ENFORCED)"""
    )
    assert types_of(made(session)) == {
        "a b": "INT NOT NULL",
        "ti": "TINYINT",
        "si": "SMALLINT",
        "i": "INT",
        "l": "BIGINT",
        "bi": "BIGINT NOT NULL",
        "r": "FLOAT",
        "d": "DOUBLE",
        "de": "DECIMAL(10,2)",
        "n": "DECIMAL(5,0)",
        "b": "BOOLEAN",
        "s": "STRING",
        "tx": "STRING",
        "vc": "VARCHAR(7)",
        "c": "CHAR(3)",
        "by": "BYTES",
        "bi2": "BINARY(4)",
        "vb": "VARBINARY(9)",
        "dt": "DATE",
        "tm": "TIME(3)",
        "ts": "TIMESTAMP(3)",
        "t0": "TIMESTAMP(6)",
        "tz": "TIMESTAMP_LTZ(9)",
        "t3": "TIMESTAMP_LTZ(3)",
        "t4": "TIMESTAMP(6)",
        "tn": "TIMESTAMP(6)",
        "ar": "ARRAY<ROW<x BIGINT, y DECIMAL(10,2) NOT NULL>>",
        "m": "MAP<STRING NOT NULL, ARRAY<INT>>",
        "st": "ROW<a INT, b STRING>",
    }


@pytest.mark.parametrize(
    "text",
    [
        "(k INT PRIMARY KEY NOT ENFORCED, v INT)",
        "(k INT NOT NULL PRIMARY KEY NOT ENFORCED COMMENT 'the key', v INT) COMMENT 'a table'",
        "(k int, v int, primary key (k) not enforced)",
        "(k INT, v INT, CONSTRAINT pk PRIMARY KEY (k)) WITH ('connector' = 'paimon')",
        "(k INT, v INT) USING hudi TBLPROPERTIES (type = 'mor', primaryKey = 'k')",
        "(k INT, v INT) WITH ('hoodie.datasource.write.recordkey.field' = 'k')",
        "(k INT, v INT) OPTIONS ('primary-key' = 'k')",
    ],
)
def test_the_key_may_be_told_in_many_ways(session, text):
    session.sql(f"CREATE TABLE t {text}")
    assert types_of(made(session)) == {"k": "INT NOT NULL", "v": "INT"}


@pytest.mark.parametrize(
    "text",
    [
        "(k INT, d STRING, PRIMARY KEY (d, k) NOT ENFORCED) PARTITIONED BY (d)",
        "(k INT, d STRING, PRIMARY KEY (d, k)) COMMENT 'a table' PARTITIONED BY (d) WITH ('bucket' = '2')",
        "(k INT) USING paimon PARTITIONED BY (d STRING) TBLPROPERTIES ('primary-key' = 'd, k')",
        "(k INT, d STRING) USING hudi TBLPROPERTIES (type = 'mor', primaryKey = 'd,k') PARTITIONED BY (d)",
    ],
)
def test_partitions(session, text):
    session.sql(f"CREATE TABLE t {text}")
    table = made(session)
    assert (table.primary_key, table.partition_by) == (("d", "k"), ("d",))


@pytest.mark.parametrize(
    ("clause", "options"),
    [
        ("WITH ('merge-engine' = 'first-row')", {"merge-engine": "first-row"}),
        ("WITH ('table.merge-engine' = 'first_row')", {"merge-engine": "first-row"}),
        ("TBLPROPERTIES (merge-engine = 'aggregation')", {"merge-engine": "aggregation"}),
        ("WITH ('bucket' = 4)", {"bucket": "4"}),
        ("WITH ('bucket.num' = '4', 'bucket.key' = 'k')", {"bucket": "4", "bucket-key": "k"}),
        ("DISTRIBUTED BY HASH (k) INTO 4 BUCKETS", {"bucket": "4", "bucket-key": "k"}),
        ("CLUSTERED BY (k) INTO 4 BUCKETS", {"bucket": "4", "bucket-key": "k"}),
        (
            "TBLPROPERTIES (type = 'cow', preCombineField = 'v')",
            {"record.merge.mode": "event-time-ordering", "record.merge.ordering-fields": "v"},
        ),
    ],
)
def test_options(session, clause, options):
    session.sql(f"CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, v INT) {clause}")
    found = made(session).options
    assert {name: found.get(name) for name in options} == options


def test_a_column_keeps_its_comment(session):
    session.sql("CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, v INT COMMENT 'it''s a value')")
    assert made(session).schemas()[-1].columns[1].comment == "it's a value"


def test_what_is_shown_as_create_makes_the_same_table(session):
    session.sql(
        "CREATE TABLE t (`a b` INT, d STRING COMMENT 'it''s', r ROW<`x y` INT NOT NULL>, "
        "PRIMARY KEY (d, `a b`) NOT ENFORCED) PARTITIONED BY (d) WITH ('merge-engine'='partial-update', 'bucket'='2')"
    )
    [[text]] = session.sql("SHOW CREATE TABLE t").to_arrow().to_pydict().values()
    session.sql(f"DROP TABLE t; {text}")
    [[again]] = session.sql("SHOW CREATE TABLE t").to_arrow().to_pydict().values()
    assert again == text


def test_if_not_exists_leaves_what_is_there(session):
    session.sql("CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED)")
    session.sql("CREATE TABLE IF NOT EXISTS t (k STRING PRIMARY KEY NOT ENFORCED, v INT)")
    assert types_of(made(session)) == {"k": "INT NOT NULL"}
    with pytest.raises(TableExistsError, match=r"line 1, column 14: table 'T' is there already"):
        session.sql("CREATE TABLE T (k INT PRIMARY KEY NOT ENFORCED)")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            "(k INT)",
            InvalidStatementError,
            "line 1, column 14: table 't' has no key: add PRIMARY KEY",
        ),
        (
            "(k INTT PRIMARY KEY NOT ENFORCED)",
            SchemaMismatchError,
            "line 1, column 19: type 'INTT'",
        ),
        (
            "(k INT PRIMARY KEY NOT ENFORCED, k INT)",
            SchemaMismatchError,
            "column 'k' appears twice",
        ),
        ("(k INT, PRIMARY KEY (kk) NOT ENFORCED)", SchemaMismatchError, "did you mean 'k'?"),
        (
            "(k INT PRIMARY KEY NOT ENFORCED) WITH ('merge-engin'='x')",
            InvalidOptionError,
            "column 56: unknown option",
        ),
        (
            "(k INT PRIMARY KEY NOT ENFORCED) WITH ('bucket'='x')",
            InvalidOptionError,
            "column 56: option 'bucket'",
        ),
        (
            "(k INT PRIMARY KEY NOT ENFORCED) WITH ('a'='1', 'a'='2')",
            InvalidStatementError,
            "'a' is given twice",
        ),
        (
            "(k INT PRIMARY KEY, PRIMARY KEY (k))",
            InvalidStatementError,
            "the primary key is given twice",
        ),
        (
            "(k INT PRIMARY KEY NOT ENFORCED) USING delta",
            InvalidStatementError,
            "USING delta: known are lsmerge",
        ),
        (
            "(k INT PRIMARY KEY NOT ENFORCED) LOCATION 'x'",
            InvalidStatementError,
            "LOCATION is not available",
        ),
        (
            "(k INT PRIMARY KEY NOT ENFORCED) WITH ('path'='x')",
            InvalidStatementError,
            "lie in the warehouse",
        ),
        (
            "(k INT PRIMARY KEY NOT ENFORCED) AS SELECT 1",
            InvalidStatementError,
            "INSERT INTO ... SELECT",
        ),
        ("AS SELECT 1 AS k", InvalidStatementError, "CREATE TABLE ... AS is not available"),
        (".u (k INT)", InvalidStatementError, "a warehouse has no databases"),
        ("(k INT DEFAULT 1)", InvalidStatementError, "'fields.k.default-value'"),
        ("(k INT, WATERMARK FOR k AS k)", InvalidStatementError, "WATERMARK is not available"),
        ("(k INT", InvalidStatementError, "line 1, column 22: expected ), the statement ends"),
        ("(k, v INT)", InvalidStatementError, "line 1, column 18: expected a type, found ','"),
        ("", InvalidStatementError, "expected (, the statement ends"),
    ],
)
def test_refusals(session, text, error, message):
    with pytest.raises(error) as refusal:
        session.sql(f"CREATE TABLE t {text}")
    assert message in str(refusal.value)
    assert session.catalog.names() == []


@pytest.mark.parametrize("kind", ["DATABASE d", "VIEW v AS SELECT 1", "TEMPORARY TABLE t (k INT)"])
def test_other_things_cannot_be_created(session, kind):
    with pytest.raises(InvalidStatementError, match="is not available; CREATE TABLE makes a table"):
        session.sql(f"CREATE {kind}")
