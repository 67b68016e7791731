"""Budgets hold whatever the size of the table: each path runs in a process that may not take more.

The process warms up on a small table, so that code and thread stacks are there, and then limits its own address
space. The limit is exact only where freed memory goes back at once, so the process uses the C allocator and maps
large blocks; Arrow's default allocator keeps more for later (docs/performance.md has figures).
"""

import os
import subprocess
import sys

import pytest

from tests.memory_paths import (
    ALLOWED,
    BUDGET_MB,
    CLUSTERED_ROWS,
    EXACT_ALLOCATOR,
    OVERLAPPING_RUNS,
    ROWS,
)


def limited(uri, *paths):
    """Walk paths of `tests.memory_paths` on a table in a limited process."""
    limit = int(BUDGET_MB * ALLOWED * 2**20)
    command = [sys.executable, "-m", "tests.memory_paths", str(uri), str(limit), *paths]
    done = subprocess.run(
        command, env=os.environ | EXACT_ALLOCATOR, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [int(line) for line in done.stdout.splitlines()]


def test_writes_scans_exports_and_compactions_of_many_overlapping_runs_keep_their_budget(tmp_path):
    table = tmp_path / "table"
    assert limited(table, "write", "scan", "export") == [ROWS] * 3
    made, scanned, compacted, scanned_again = limited(table, "runs", "scan", "compact", "scan")
    assert made == OVERLAPPING_RUNS
    assert scanned == compacted == scanned_again
    with pytest.raises(AssertionError, match=r"MemoryError|malloc"):
        limited(table, "hold")


def test_clustering_keeps_its_budget(tmp_path):
    assert limited(tmp_path / "table", "clustered-write", "cluster") == [CLUSTERED_ROWS] * 2


def test_a_lookup_of_many_keys_keeps_its_budget(tmp_path):
    assert limited(tmp_path / "table", "lookup-write", "lookup-commit") == [ROWS, 2 * ROWS // 4]
