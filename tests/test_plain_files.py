"""Which files other readers may read by themselves: only those whose rows are the rows of the table."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lsmerge
from lsmerge.errors import NotPlainError

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string(), "n": pa.int32()})
ROWS = [{"k": k, "v": f"v{k}", "n": k} for k in range(100)]


def made(path, schema=SCHEMA, rows=ROWS, **options):
    table = lsmerge.create_table(path, schema, "k", options={"bucket": 2, **options})
    table.upsert(rows)
    return table


def obstacle(scan):
    with pytest.raises(NotPlainError) as caught:
        scan.plain_files()
    return str(caught.value)


def test_after_a_full_compaction_the_files_are_the_table(tmp_path):
    table = made(tmp_path)
    table.upsert([{"k": 1, "v": "new", "n": 0}])
    table.compact(full=True)
    parts = [pq.read_table(tmp_path / path) for path in table.scan().plain_files()]
    found = pa.concat_tables(parts).select(SCHEMA.names).sort_by("k")
    assert found.to_pylist() == table.scan().to_arrow().sort_by("k").to_pylist()


def test_an_empty_table_has_no_files(tmp_path):
    assert lsmerge.create_table(tmp_path, SCHEMA, "k").scan().plain_files() == []


def test_rows_that_came_later_are_in_the_way(tmp_path):
    table = made(tmp_path)
    assert "not a Parquet file" in obstacle(table.scan())
    table.compact(full=True)
    table.upsert(ROWS[:1])
    assert "not a Parquet file" in obstacle(table.scan())
    assert table.scan(snapshot=2).plain_files()


def test_runs_that_overlap_are_in_the_way(tmp_path):
    table = made(tmp_path, **{"file.format": "parquet"})
    table.upsert(ROWS)
    assert "must be merged" in obstacle(table.scan())


def test_deletes_that_are_kept_are_in_the_way(tmp_path):
    table = made(tmp_path, **{"sequence.field": "n"})
    table.delete([{"k": 3, "n": 1000}])
    table.compact(full=True)
    assert "holds deletes" in obstacle(table.scan())


def test_rows_that_are_still_operands_are_in_the_way(tmp_path):
    table = made(
        tmp_path,
        **{
            "merge-engine": "partial-update",
            "fields.n.sequence-group": "v",
            "file.format": "parquet",
        },
    )
    table.write([{"k": 1, "n": 7}], columns=["k", "n"])
    assert "merged" in obstacle(table.scan())


@pytest.mark.parametrize("change", [{"add": {"x": pa.int8()}}, {"rename": {"v": "w"}}])
def test_altered_columns_are_in_the_way(tmp_path, change):
    table = made(tmp_path)
    table.compact(full=True)
    table.alter(**change)
    assert "before the table was altered" in obstacle(table.scan())


def test_defaults_are_in_the_way(tmp_path):
    table = made(tmp_path, **{"fields.v.default-value": "none"})
    table.compact(full=True)
    assert "defaults" in obstacle(table.scan())


@pytest.mark.parametrize("arguments", [{"filter": "k = 1"}, {"limit": 1}])
def test_a_scan_of_some_rows_has_none(tmp_path, arguments):
    table = made(tmp_path)
    table.compact(full=True)
    assert "filter or limit" in obstacle(table.scan(**arguments))


@pytest.mark.parametrize("type_", [pa.time32("s"), pa.timestamp("ns"), pa.list_(pa.time64("us"))])
def test_types_that_others_do_not_know_are_in_the_way(tmp_path, type_):
    schema = pa.schema({"k": pa.int64(), "t": type_})
    table = made(tmp_path, schema, [{"k": 1, "t": None}])
    table.compact(full=True)
    assert "no type" in obstacle(table.scan())
    assert table.scan(columns=["k"]).plain_files()
