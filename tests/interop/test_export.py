"""Snapshots as Parquet files and Delta tables: all rows, and nothing half done."""

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lsmerge
from lsmerge.errors import (
    CorruptFileError,
    InvalidOptionError,
    SchemaMismatchError,
    TableExistsError,
)
from tests.interop import tables


@pytest.fixture(scope="module")
def table():
    return tables.create("memory://interop-export")


def plain(rows: pa.Table) -> pa.Table:
    """Without field metadata and NaN, sorted, since the order of files is not that of rows everywhere."""
    rows = tables.without_nan(rows)
    fields = [field.remove_metadata().with_nullable(True) for field in rows.schema]
    return rows.cast(pa.schema(fields)).sort_by([("day", "ascending"), ("k", "ascending")])


def test_parquet(table, tmp_path):
    report = table.scan().write_parquet(tmp_path / "out")
    assert report.files == ("part-00000.parquet",)
    file = tmp_path / "out" / report.files[0]
    assert report.size_bytes == file.stat().st_size
    assert plain(pq.read_table(file)) == plain(table.scan().to_arrow())
    assert report.rows == table.scan().count()


def test_parquet_in_several_files(table, tmp_path, monkeypatch):
    monkeypatch.setattr("lsmerge.storage.parquet_export.ROW_GROUP_BYTES", 1 << 12)
    report = table.scan(columns=["k"], filter="k < 2500").write_parquet(
        tmp_path / "out", max_file_size="1 kb"
    )
    assert len(report.files) > 2
    assert pq.read_table(tmp_path / "out")["k"].to_pylist() == (
        table.scan(columns=["k"], filter="k < 2500").to_arrow()["k"].to_pylist()
    )


def test_an_empty_snapshot_gives_a_file_with_the_columns(tmp_path, memory_uri):
    table = lsmerge.create_table(memory_uri, pa.schema({"k": pa.int64()}), "k")
    report = table.scan().write_parquet(tmp_path / "out")
    assert report.rows == 0
    assert pq.read_table(tmp_path / "out").schema.names == ["k"]


def test_a_directory_with_files_is_refused(table, tmp_path):
    (tmp_path / "mine.txt").write_text("keep me")
    with pytest.raises(TableExistsError, match="new or empty"):
        table.scan().write_parquet(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def damaged(tmp_path) -> lsmerge.Table:
    """The second of two files has a flipped bit."""
    uri = str(tmp_path / "damaged")
    options = {"bucket": 2, "file.block-size": "64 kb"}
    lsmerge.create_table(uri, pa.schema({"k": pa.int64()}), "k", options=options).upsert(
        {"k": range(100_000)}
    )
    (file,) = (tmp_path / "damaged" / "bucket-1").iterdir()
    data = bytearray(file.read_bytes())
    data[100_000] ^= 1
    file.write_bytes(data)
    return lsmerge.open_table(uri)


def test_a_failed_export_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("lsmerge.storage.parquet_export.ROW_GROUP_BYTES", 1 << 15)
    with pytest.raises(CorruptFileError):
        damaged(tmp_path).scan().write_parquet(tmp_path / "out", max_file_size="1 kb")
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []


def test_delta(table, tmp_path):
    target = str(tmp_path / "delta")
    assert table.scan().write_delta(target) == 0
    found = pa.table(deltalake.DeltaTable(target).to_pyarrow_table())
    assert plain(found) == plain(table.scan().to_arrow())


def test_delta_modes(table, tmp_path):
    target = tmp_path / "delta"
    table.scan().write_delta(target)
    with pytest.raises(TableExistsError, match="overwrite"):
        table.scan().write_delta(target)
    assert table.scan(columns=["k"], limit=3).write_delta(target, mode="overwrite") == 1
    assert deltalake.DeltaTable(str(target)).to_pyarrow_table().shape == (3, 1)
    with pytest.raises(InvalidOptionError, match="append"):
        table.scan().write_delta(target, mode="append")


@pytest.mark.parametrize("type_", [pa.timestamp("ns"), pa.time32("ms"), pa.list_(pa.time64("us"))])
def test_delta_would_lose_some_types(tmp_path, memory_uri, type_):
    table = lsmerge.create_table(memory_uri, pa.schema({"k": pa.int64(), "v": type_}), "k")
    with pytest.raises(SchemaMismatchError, match="column 'v'"):
        table.scan().write_delta(tmp_path / "delta")
    assert table.scan(columns=["k"]).write_delta(tmp_path / "delta") == 0


def test_delta_tells_what_was_wrong_with_the_rows(tmp_path):
    with pytest.raises(CorruptFileError):
        damaged(tmp_path).scan().write_delta(tmp_path / "delta")
