"""Every type that Spark can send arrives as it is: nested, null, from sessions in any time zone."""

import decimal
from datetime import UTC, date, datetime, time

import pytest

import lsmerge
from lsmerge.spark import LsmergeDataSource
from tests.spark.tables import write

COLUMNS = {
    "boolean": (True, True),
    "tinyint": (-7, -7),
    "smallint": (-300, -300),
    "int": (2**31 - 1, 2**31 - 1),
    "bigint": (-(2**63), -(2**63)),
    "float": (1.5, 1.5),
    "double": (-0.1, -0.1),
    "decimal(38,18)": (decimal.Decimal("1." + "3" * 18),) * 2,
    "decimal(5,0)": (decimal.Decimal("-99999"),) * 2,
    "string": ("ÄÖ\x00💧", "ÄÖ\x00💧"),
    "binary": (bytearray(b"\x00\xff"), b"\x00\xff"),
    "date": (date(1582, 10, 4), date(1582, 10, 4)),
    "timestamp": (datetime(2024, 3, 31, 1, 30, 0, 5, tzinfo=UTC),) * 2,
    "timestamp_ntz": (datetime(2024, 3, 31, 2, 30, 0, 5),) * 2,
    "time": (time(23, 59, 59, 999999),) * 2,
    "array<int>": ([1, None, 3], [1, None, 3]),
    "array<array<string>>": ([["a", None], None, []], [["a", None], None, []]),
    "map<string,double>": ({"a": 1.0, "b": None}, [("a", 1.0), ("b", None)]),
    "struct<x:int,Y:struct<z:timestamp>>": (
        (1, (datetime(2024, 1, 1, tzinfo=UTC),)),
        {"x": 1, "Y": {"z": datetime(2024, 1, 1, tzinfo=UTC)}},
    ),
    "array<struct<a:date,m:map<int,decimal(4,2)>>>": (
        [(date(2024, 1, 1), {1: decimal.Decimal("1.25")}), None],
        [{"a": date(2024, 1, 1), "m": [(1, decimal.Decimal("1.25"))]}, None],
    ),
}
NAMES = [f"c{number}" for number in range(len(COLUMNS))]
SCHEMA = "k int, " + ", ".join(
    f"{name} {type_}" for name, type_ in zip(NAMES, COLUMNS, strict=True)
)


@pytest.mark.parametrize(
    "settings",
    [
        {"spark.sql.session.timeZone": "America/St_Johns"},
        {"spark.sql.execution.arrow.useLargeVarTypes": "true"},
    ],
    ids=["another time zone", "large types"],
)
def test_values_arrive_as_they_are(tmp_path, spark, settings):
    given = [value for value, _ in COLUMNS.values()]
    nulls = [None] * len(COLUMNS)
    df = spark.createDataFrame(
        [(1, *given), *((k, *nulls) for k in range(2, 20)), (20, *given)], SCHEMA
    )
    kept = {name: spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        write(df, tmp_path / "t", primary_key="k")
    finally:
        for name, value in kept.items():
            spark.conf.set(name, value)
    expected = dict(zip(NAMES, (value for _, value in COLUMNS.values()), strict=True))
    with lsmerge.open_table(tmp_path / "t") as table:
        assert table.get(1) == {"k": 1, **expected}
        assert table.get(20) == {"k": 20, **expected}
        assert table.get(7) == {"k": 7, **dict.fromkeys(NAMES)}


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("parse_json('{}')", "variant"),
        ("make_ym_interval(1, 2)", "interval year to month"),
        ("array(make_dt_interval(1))", "interval day to second"),
        ("'a' COLLATE UNICODE_CI", "string collate UNICODE_CI"),
        ("NULL", "void"),
    ],
)
def test_types_that_a_table_does_not_have_are_refused(tmp_path, spark, expression, shown):
    df = spark.sql(f"SELECT 1 AS k, {expression} AS v")
    source = LsmergeDataSource({"path": str(tmp_path / "t"), "primary-key": "k"})
    reason = rf"SCHEMA_MISMATCH\] column 'v.*no type for Spark's {shown}"
    with pytest.raises(lsmerge.SchemaMismatchError, match=reason):
        source.writer(df.schema, overwrite=False)
    assert not (tmp_path / "t").exists()


def test_a_column_of_nulls_is_taken_where_the_table_has_a_type_for_it(tmp_path, spark):
    write(spark.sql("SELECT 1 AS k, 'a' AS v"), tmp_path / "t", primary_key="k")
    write(spark.sql("SELECT 1 AS k, NULL AS v"), tmp_path / "t")
    assert lsmerge.open_table(tmp_path / "t").get(1) == {"k": 1, "v": None}
