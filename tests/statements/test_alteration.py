"""ALTER TABLE, DROP TABLE and settings."""

import pytest

import lsmerge
from lsmerge import (
    InvalidOptionError,
    InvalidStatementError,
    SchemaMismatchError,
    TableNotFoundError,
)


@pytest.fixture(autouse=True)
def t(session):
    session.sql(
        "CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, a INT, b STRING NOT NULL) "
        "WITH ('snapshot.num-retained.max' = '5');"
        "INSERT INTO t VALUES (1, 10, 'x')"
    )


@pytest.mark.parametrize(
    ("change", "columns"),
    [
        ("ADD c DOUBLE", "k a b c"),
        ("ADD COLUMN c DOUBLE AFTER k", "k c a b"),
        ("ADD (c DOUBLE COMMENT 'new' FIRST, d INT)", "c k a b d"),
        ("ADD COLUMNS (c DOUBLE, d ARRAY<INT>)", "k a b c d"),
        ("DROP a", "k b"),
        ("DROP COLUMN a", "k b"),
        ("DROP (a)", "k b"),
        ("RENAME a TO z", "k z b"),
        ("RENAME COLUMN a TO z", "k z b"),
        ("MODIFY a BIGINT AFTER b", "k b a"),
        ("ALTER COLUMN a TYPE BIGINT", "k a b"),
        ("ALTER COLUMN a FIRST", "a k b"),
        ("ALTER COLUMN b DROP NOT NULL", "k a b"),
        ("ALTER COLUMN a COMMENT 'it''s'", "k a b"),
    ],
)
def test_columns(session, change, columns):
    session.sql(f"ALTER TABLE t {change}")
    assert session.sql("SELECT * FROM t").schema.names == columns.split()


def test_what_changes_beside_names(session, rows):
    session.sql(
        "ALTER TABLE t MODIFY a BIGINT COMMENT 'wide'; ALTER TABLE t ALTER COLUMN b DROP NOT NULL"
    )
    assert rows("DESCRIBE t")[1:] == [
        ("a", "BIGINT", True, None, "wide"),
        ("b", "STRING", True, None, None),
    ]


def test_options(session, rows):
    session.sql("ALTER TABLE t SET ('snapshot.num-retained.max' = '7')")
    assert rows("SELECT * FROM t$options") == [("snapshot.num-retained.max", "7")]
    session.sql("ALTER TABLE t SET TBLPROPERTIES ('write-only' = 'true')")
    session.sql("ALTER TABLE t RESET ('snapshot.num-retained.max')")
    session.sql("ALTER TABLE t UNSET TBLPROPERTIES ('write-only')")
    assert rows("SELECT * FROM t$options") == []


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("ALTER TABLE u ADD c INT", TableNotFoundError, "line 1, column 13: no table 'u'"),
        ("ALTER TABLE t DROP c", SchemaMismatchError, "line 1, column 20: unknown column 'c'"),
        ("ALTER TABLE t DROP k", SchemaMismatchError, "it is a primary key column"),
        ("ALTER TABLE t ADD c INT NOT NULL", SchemaMismatchError, "cannot be added as NOT NULL"),
        ("ALTER TABLE t MODIFY a TINYINT", SchemaMismatchError, "stored values may not fit"),
        ("ALTER TABLE t SET ('merge-engine' = 'aggregation')", InvalidOptionError, "merge-engine"),
        ("ALTER TABLE t SET ('primary-key' = 'a')", InvalidStatementError, "cannot be changed"),
        ("ALTER TABLE t RENAME TO u", InvalidStatementError, "RENAME TO is not available"),
        (
            "ALTER TABLE t ALTER COLUMN b SET NOT NULL",
            InvalidStatementError,
            "SET NOT NULL is not available",
        ),
        ("ALTER TABLE t DROP PARTITION (a = 1)", SchemaMismatchError, "'a'"),
        ("ALTER TABLE t FROB", InvalidStatementError, "line 1, column 15: expected ADD, DROP"),
        (
            "ALTER TABLE t ADD c INT, d INT",
            InvalidStatementError,
            "expected the end of the statement, found ','",
        ),
        ("DROP TABLE u", TableNotFoundError, "no table 'u'"),
        ("DROP DATABASE d", InvalidStatementError, "expected TABLE, found 'DATABASE'"),
    ],
)
def test_refusals(session, text, error, message):
    with pytest.raises(error) as refusal:
        session.sql(text)
    assert message in str(refusal.value)


def test_if_exists(session):
    session.sql("ALTER TABLE IF EXISTS u ADD c INT; DROP TABLE IF EXISTS u")


def test_drop(session, rows):
    session.sql("DROP TABLE T")
    assert rows("SHOW TABLES") == []
    session.sql("CREATE TABLE t (other STRING PRIMARY KEY NOT ENFORCED)")
    assert rows("SELECT * FROM t") == []


def test_a_dropped_table_leaves_no_file(tmp_path):
    lsmerge.sql(
        "CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED); INSERT INTO t VALUES (1); DROP TABLE t",
        warehouse=tmp_path,
    )
    assert list(tmp_path.rglob("*")) == []
    assert lsmerge.list_tables(tmp_path) == []


def test_a_dropped_table_leaves_files_of_others(tmp_path):
    lsmerge.sql("CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED)", warehouse=tmp_path)
    (tmp_path / "t" / "link").symlink_to("/nowhere")
    lsmerge.drop_table(tmp_path / "t")
    assert [path.name for path in tmp_path.rglob("*")] == ["t", "link"]


def test_comments_of_tables(session, rows):
    def described():
        return [row[4] for row in rows("DESCRIBE t") if row[0] == "# table"]

    assert described() == []
    session.sql("ALTER TABLE t COMMENT 'orders, it''s said'")
    assert described() == ["orders, it's said"]
    [[text]] = session.sql("SHOW CREATE TABLE t").to_arrow().to_pydict().values()
    session.sql("DROP TABLE t; " + text)
    assert described() == ["orders, it's said"]
    session.sql("ALTER TABLE t SET ('comment' = 'b')")
    assert described() == ["b"]
    session.sql("ALTER TABLE t RESET ('comment')")
    assert described() == []
    session.sql("COMMENT ON TABLE t IS 'c'")
    assert described() == ["c"]
    session.sql("COMMENT ON TABLE t IS NULL")
    assert described() == []
    session.sql(
        "CREATE TABLE u (k INT PRIMARY KEY NOT ENFORCED) COMMENT 'new' WITH ('bucket' = '2')"
    )
    assert lsmerge.open_table(f"{session.catalog.uri}/u").describe()["comment"] == "new"


def test_a_drop_that_was_interrupted_can_be_repeated(tmp_path):
    lsmerge.sql(
        "CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED); INSERT INTO t VALUES (1)",
        warehouse=tmp_path,
    )
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.name != "schema-0.json":
            path.unlink()
    assert lsmerge.list_tables(tmp_path) == ["t"]
    lsmerge.drop_table(tmp_path / "t")
    assert lsmerge.list_tables(tmp_path) == []
    with pytest.raises(TableNotFoundError):
        lsmerge.drop_table(tmp_path / "t")


def test_settings(session, rows):
    session.sql(
        "SET 'table.exec.sink.upsert-materialize' = 'NONE'; SET execution.checkpointing.interval = '10 s'"
    )
    session.sql("SET 'table.local-time-zone' = 'Asia/Tokyo'")
    assert rows("SET") == [
        ("execution.checkpointing.interval", "10 s"),
        ("table.exec.sink.upsert-materialize", "NONE"),
        ("table.local-time-zone", "Asia/Tokyo"),
    ]
    assert rows(
        "SELECT CAST(TIMESTAMP '2024-01-01 09:00:00' AS TIMESTAMP_LTZ(3)) = '2024-01-01 00:00:00Z'"
    ) == [(True,)]
    session.sql("RESET execution.checkpointing.interval; RESET 'table.local-time-zone'")
    assert rows("SET") == [
        ("table.exec.sink.upsert-materialize", "NONE"),
        ("table.local-time-zone", "UTC"),
    ]
    session.sql("RESET")
    assert rows("SET") == [("table.local-time-zone", "UTC")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "SET 'table.local-time-zon' = 'UTC'",
            "column 5: unknown setting 'table.local-time-zon'; did you mean",
        ),
        ("SET 'table.local-time-zone' = 'Mars'", "'Mars' is no time zone"),
        ("SET 'table.exec.sink.upsert-materialize' = 'AUTO'", "here it is always NONE"),
        ("SET a", "expected =, the statement ends"),
    ],
)
def test_settings_that_are_none(session, text, message):
    with pytest.raises(InvalidStatementError) as refusal:
        session.sql(text)
    assert message in str(refusal.value)
