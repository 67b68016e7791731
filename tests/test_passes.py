"""Merges of more runs than the budget has room for: which go together, and that nothing stays behind."""

import tempfile

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.engine.passes import _SizedRun, neighbours
from lsmerge.meta.version import SortedRun

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])


@pytest.mark.parametrize(
    ("sizes", "at_least", "groups"),
    [
        ([1, 1, 1, 1], 1, [[1, 1, 1, 1]]),
        ([2, 2, 2, 2, 2], 1, [[2, 2], [2, 2], [2]]),
        ([9, 9, 9], 1, [[9], [9], [9]]),
        ([9, 9, 9], 2, [[9, 9], [9]]),
        ([1, 1, 9, 1], 1, [[1, 1], [9], [1]]),
        ([1, 1, 9, 1], 2, [[1, 1], [9, 1]]),
    ],
)
def test_neighbours_share_the_room(sizes, at_least, groups):
    runs = [_SizedRun(SortedRun(0, ()), size) for size in sizes]
    found = [[run.block_bytes for run in group] for group in neighbours(runs, 4, at_least)]
    assert found == groups


@pytest.fixture
def scratch_root(tmp_path, monkeypatch):
    root = tmp_path / "scratch"
    root.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(root))
    return root


def table_of_overlapping_runs(uri):
    """Forty commits of the same hundred keys."""
    options = {"scan.memory-budget": "8 kb", "write-only": True}
    table = lsmerge.create_table(uri, SCHEMA, "k", options=options)
    for value in range(40):
        table.upsert({"k": list(range(100)), "v": [value] * 100})
    return table


def test_what_was_put_aside_goes_with_the_scan(memory_uri, scratch_root):
    table = table_of_overlapping_runs(memory_uri)
    batches = table.scan().to_batches()
    next(batches)
    assert list(scratch_root.iterdir())
    del batches
    assert not list(scratch_root.iterdir())


def test_passes_change_no_answer(memory_uri, scratch_root):
    table = table_of_overlapping_runs(memory_uri)
    assert table.scan().to_arrow()["v"].to_pylist() == [39] * 100
    table.compact(full=True)
    assert table.scan().to_arrow()["v"].to_pylist() == [39] * 100
    assert not list(scratch_root.iterdir())
