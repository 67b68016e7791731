"""What Spark's processes keep open between tasks: nothing that another snapshot, or another table, would be read by."""

import sys
from types import SimpleNamespace

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.spark import batch_read, kept_tables, read_options
from lsmerge.spark.types import spark_schema

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string()})


@pytest.fixture
def process_of_spark(monkeypatch):
    daemon = SimpleNamespace(__spec__=SimpleNamespace(name="pyspark.daemon"))
    monkeypatch.setitem(sys.modules, "__main__", daemon)
    monkeypatch.setattr(batch_read, "keep_for_good", lambda: None)
    monkeypatch.setattr(kept_tables, "_of_this_process", kept_tables.KeptTables())


@pytest.fixture
def opened(monkeypatch):
    """The tables that were opened since the last look."""
    tables = []

    def open_table(*arguments, **options):
        tables.append(lsmerge.open_table(*arguments, **options))
        return tables[-1]

    monkeypatch.setattr(read_options, "open_table", open_table)

    def look():
        found = tables[:]
        tables.clear()
        return found

    return look


def make(path, schema=SCHEMA, keys=range(10)):
    table = lsmerge.create_table(str(path), schema, "k", options={"bucket": 3})
    table.upsert(pa.table({"k": keys, **{n: [None] * len(keys) for n in schema.names[1:]}}))
    return table


def plan(table):
    source = batch_read.reader({"path": table.uri}, spark_schema(table.schema))
    splits = table.scan().splits(target_size=1)
    return [lambda split=split: read(source, split) for split in splits]


def read(source, split):
    part = batch_read.InputPartition(split)
    return [row["k"] for batch in source.read(part) for row in batch.to_pylist()]


def test_tasks_of_one_read_open_the_table_once(process_of_spark, opened, tmp_path):
    tasks = plan(make(tmp_path / "t"))
    assert len(tasks) == 3
    assert sorted(k for task in tasks for k in task()) == list(range(10))
    assert len(opened()) == 1


def test_a_process_of_a_user_keeps_no_table(opened, tmp_path):
    for task in plan(make(tmp_path / "t")):
        task()
    assert [repr(table) for table in opened()] == ["Table(closed)"] * 3


def test_another_snapshot_is_read_by_a_table_opened_for_it(process_of_spark, opened, tmp_path):
    table = make(tmp_path / "t")
    before = plan(table)
    before[0]()
    table.upsert(pa.table({"k": [10], "v": ["x"]}))
    assert sorted(k for task in plan(table) for k in task()) == list(range(11))
    first, second = opened()
    assert (repr(first), repr(second)) == ("Table(closed)", repr(table))
    assert sorted(k for task in before for k in task()) == list(range(10))


def test_a_table_in_the_place_of_another_is_read_as_it_is(process_of_spark, tmp_path):
    old = plan(make(tmp_path / "t"))
    assert len(old[0]()) > 0
    lsmerge.drop_table(str(tmp_path / "t"))
    other = pa.schema({"k": pa.string(), "n": pa.int8()})
    new = make(tmp_path / "t", other, ["a", "b"])
    assert sorted(k for task in plan(new) for k in task()) == ["a", "b"]
    with pytest.raises(lsmerge.SnapshotNotFoundError, match="not the one that was planned"):
        old[0]()


def test_a_snapshot_that_expired_is_refused_although_its_files_are_open(process_of_spark, tmp_path):
    table = make(tmp_path / "t")
    tasks = plan(table)
    tasks[0]()
    table.upsert(pa.table({"k": [1], "v": ["x"]}))
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    with pytest.raises(lsmerge.SnapshotExpiredError):
        tasks[0]()


def test_few_tables_are_kept_and_those_used_last(process_of_spark, opened, tmp_path):
    reads = [plan(make(tmp_path / str(n)))[0] for n in range(kept_tables.MOST_TABLES + 1)]
    for task in reads:
        task()
    states = [repr(table) == "Table(closed)" for table in opened()]
    assert states == [True] + [False] * kept_tables.MOST_TABLES
    reads[-1]()
    assert opened() == []
