"""Runs that follow each other in age are merged without sequence numbers, and without kinds where all rows are adds."""

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.engine.merging import resolved_batches
from lsmerge.engine.sections import Section, split_into_sections
from lsmerge.rowkind import KIND_COLUMN, SEQUENCE_COLUMN
from lsmerge.storage.run_file import RunReader

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])
ROWS = 3000
NEWEST = [ROWS * 2 + k if k % 3 == 0 else ROWS + k if k % 2 == 0 else k for k in range(ROWS)]


@pytest.fixture
def columns_read(monkeypatch):
    """The columns of every block that was read."""
    read_columns, seen = RunReader._read_columns, []

    def spy(reader, block, fields):
        seen.append(fields.names)
        return read_columns(reader, block, fields)

    monkeypatch.setattr(RunReader, "_read_columns", spy)
    return seen


def three_runs(uri, **options):
    table = lsmerge.create_table(uri, SCHEMA, "k", options={"write-only": True, **options})
    for number, step in enumerate([1, 2, 3]):
        keys = list(range(0, ROWS, step))
        table.upsert({"k": keys, "v": [ROWS * number + k for k in keys]})
    return table


def the_section(table):
    context = table._context
    version = context.versions.load(context.snapshots.latest())
    [place] = version.places()
    [section] = split_into_sections(version.runs(place))
    return section


def values(table, section):
    batches = resolved_batches(table._context, [section], ["k", "v"])
    return pa.Table.from_batches(batches)["v"].to_pylist()


def test_the_order_of_runs_is_enough(memory_uri, columns_read):
    table = three_runs(memory_uri)
    assert table.scan().to_arrow()["v"].to_pylist() == NEWEST
    assert columns_read
    assert all({SEQUENCE_COLUMN, KIND_COLUMN}.isdisjoint(names) for names in columns_read)


def test_rows_that_were_deleted_stay_hidden(memory_uri, columns_read):
    table = three_runs(memory_uri)
    table.delete({"k": list(range(0, ROWS, 5))})
    columns_read.clear()
    expected = [value for k, value in enumerate(NEWEST) if k % 5]
    assert table.scan().to_arrow()["v"].to_pylist() == expected
    assert columns_read
    assert all(KIND_COLUMN in names for names in columns_read)


def test_runs_in_another_order_go_by_sequence_numbers(memory_uri, columns_read):
    table = three_runs(memory_uri)
    section = the_section(table)
    assert values(table, Section(section.runs[::-1])) == values(table, section) == NEWEST
    assert [SEQUENCE_COLUMN in names for names in columns_read] == [True] * 3 + [False] * 3
    assert all(KIND_COLUMN not in names for names in columns_read)


def test_an_engine_that_asks_for_more_than_the_newest_row(memory_uri, columns_read):
    table = three_runs(memory_uri, **{"merge-engine": "aggregation"})
    table.scan().to_arrow()
    assert columns_read
    assert all({SEQUENCE_COLUMN, KIND_COLUMN}.issubset(names) for names in columns_read)
