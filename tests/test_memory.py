"""Budgets hold whatever the size of the table: each path runs in a process that may not take more.

The process warms up on a small table, so that code and thread stacks are there, and then limits its own address
space. The limit is exact only where freed memory goes back at once, so the process uses the C allocator and maps
large blocks; Arrow's default allocator keeps more for later (docs/performance.md has figures).
"""

import os
import subprocess
import sys

import pytest

BUDGET_MB = 16
ALLOWED = 1.25
OVERLAPPING_RUNS = 24
EXACT_ALLOCATOR = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
}


def limited(path, uri):
    """Run one path of `tests.memory_paths` on a table in a limited process."""
    limit = int(BUDGET_MB * ALLOWED * 2**20)
    command = [sys.executable, "-m", "tests.memory_paths", path, str(uri), str(limit)]
    done = subprocess.run(
        command, env=os.environ | EXACT_ALLOCATOR, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    """A table of many times the budget, in runs that all overlap."""
    uri = tmp_path_factory.mktemp("memory") / "table"
    written = limited("write", uri)
    assert written == 300_000
    return uri


def test_a_scan_keeps_its_budget(uri):
    assert limited("scan", uri) == 300_000


def test_an_export_keeps_its_budget(uri):
    assert limited("export", uri) == 300_000


def test_a_compaction_of_many_overlapping_runs_keeps_its_budget(uri):
    assert limited("runs", uri) == OVERLAPPING_RUNS
    rows = limited("scan", uri)
    assert limited("compact", uri) == rows
    assert limited("scan", uri) == rows


def test_clustering_keeps_its_budget(tmp_path):
    assert limited("clustered-write", tmp_path / "table") == 300_000
    assert limited("cluster", tmp_path / "table") == 300_000


def test_a_lookup_of_many_keys_keeps_its_budget(tmp_path):
    assert limited("lookup-write", tmp_path / "table") == 300_000
    assert limited("lookup-commit", tmp_path / "table") == 2 * 75_000


def test_the_limit_is_felt(uri):
    with pytest.raises(AssertionError, match=r"MemoryError|malloc"):
        limited("hold", uri)
