"""X5: processes that end or fork while a table is open: nobody hangs or aborts, and what was acknowledged is there."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import lsmerge

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
BACKGROUND = {"compaction.mode": "background", "num-sorted-run.compaction-trigger": "2"}
TIMEOUT_S = 60
LEAVES = """
import sys
import lsmerge
table = lsmerge.open_table(sys.argv[1])
for turn in range(6):
    table.upsert([{"k": key, "v": str(turn)} for key in range(2000)])
rows = table.scan().to_batches()
next(rows)
changes = table.changelog()
next(changes)
writer = table.writer()
writer.write([{"k": 5000, "v": "never committed"}])
print("done", flush=True)
"""


@pytest.mark.parametrize("file_format", ["arrow", "parquet"])
def test_an_interpreter_ends_with_everything_open(tmp_path, file_format):
    uri = str(tmp_path / "table")
    lsmerge.create_table(uri, SCHEMA, "k", options=BACKGROUND | {"file.format": file_format})
    ended = subprocess.run(
        [sys.executable, "-c", LEAVES, uri],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        cwd=Path(__file__).parent.parent,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")
    table = lsmerge.open_table(uri)
    assert table.scan().to_arrow()["v"].unique().to_pylist() == ["5"]
    assert table.scan().count() == 2000
    assert table.verify().ok


def in_fork(work):
    """The exit code of a forked process that does it; one that hangs is ended by an alarm."""
    child = os.fork()
    if child == 0:
        signal.alarm(TIMEOUT_S)
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_process_forked_while_another_thread_compacts_goes_on_with_the_table(tmp_path):
    uri = str(tmp_path / "table")
    table = lsmerge.create_table(uri, SCHEMA, "k", options=BACKGROUND)
    for turn in range(3):
        table.upsert([{"k": 1, "v": f"before {turn}"}])

    def work():
        for turn in range(4):
            table.upsert([{"k": 2, "v": f"child {turn}"}])
        assert table.get(1) == {"k": 1, "v": "before 2"}
        table.close()

    # As if the thread of the background were in the middle of it.
    upkeep = table._context.upkeep
    with upkeep.turn, upkeep._lock:
        assert in_fork(work) == 0
    for turn in range(4):
        table.upsert([{"k": 3, "v": f"parent {turn}"}])
    table.close()
    table = lsmerge.open_table(uri)
    found = table.scan().to_arrow().sort_by("k")["v"].to_pylist()
    assert found == ["before 2", "child 3", "parent 3"]
    assert table.verify().ok
