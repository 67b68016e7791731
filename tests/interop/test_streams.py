"""Any Arrow consumer reads tables and scans, each time afresh and with the same rows."""

import datafusion
import duckdb
import pandas
import polars
import pyarrow as pa
import pytest

from tests.interop import tables


@pytest.fixture(scope="module")
def table():
    return tables.create("memory://interop-streams")


@pytest.fixture(params=["table", "scan"])
def source(request, table):
    return table if request.param == "table" else table.scan()


@pytest.fixture(scope="module")
def keys(table) -> list[int]:
    return sorted(table.scan().to_arrow()["k"].to_pylist())


def test_pyarrow(source, table):
    found, expected = pa.table(source), table.scan().to_arrow()
    assert tables.without_nan(found) == tables.without_nan(expected)
    assert pa.schema(source) == table.scan().schema
    assert pa.RecordBatchReader.from_stream(source).read_all().num_rows == table.scan().count()


def test_polars(source, keys):
    frame = polars.DataFrame(source)
    assert sorted(frame["k"].to_list()) == keys
    assert frame.schema["z"] == polars.Datetime("us", "UTC")


def test_duckdb(source, keys):
    assert source is not None  # found by name
    for _ in range(2):
        found = duckdb.sql("select k from source where k is not null order by k").fetchall()
        assert [k for (k,) in found] == keys


def test_pandas(source, keys):
    assert sorted(pandas.DataFrame.from_arrow(source)["k"].tolist()) == keys


def test_datafusion(source, keys):
    frame = datafusion.SessionContext().from_arrow(source)
    assert sorted(frame.to_arrow_table()["k"].to_pylist()) == keys


def test_frames(table, keys):
    assert sorted(table.scan().to_pandas()["k"].tolist()) == keys
    assert sorted(table.scan().to_polars()["k"].to_list()) == keys


def test_a_scan_has_the_schema_it_gives(table):
    scan = table.scan(columns=["s", "k"], filter="k < 10", limit=3)
    assert pa.schema(scan).names == ["s", "k"]
    assert pa.table(scan).num_rows == 3


def test_a_consumer_may_ask_for_another_schema(table):
    wanted = pa.schema({"k": pa.int32()})
    stream = table.scan(columns=["k"]).__arrow_c_stream__(wanted.__arrow_c_schema__())
    assert pa.RecordBatchReader._import_from_c_capsule(stream).schema.field("k").type == pa.int32()
