"""How many threads lsmerge starts: no more than the process may use, and than libraries are told to."""

import os
import subprocess
import sys

import pytest

COUNT = "import lsmerge.env; print(lsmerge.env.CORES)"


def cores(**environment: str) -> int:
    without = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    command = [sys.executable, "-c", COUNT]
    done = subprocess.run(
        command, env={**without, **environment}, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.parametrize("said", ["1", "1,4"])
def test_what_libraries_are_told_limits_threads(said):
    assert cores(OMP_NUM_THREADS=said) == 1


@pytest.mark.parametrize("said", ["64", "", "many", "-1", "0"])
def test_what_says_nothing_or_more_than_there_is_does_not(said):
    assert cores(OMP_NUM_THREADS=said) == cores()


FOREIGN_THREADS = """
import os, sys, threading
import pyarrow as pa
import lsmerge

def foreign():
    known = {str(thread.native_id) for thread in threading.enumerate()}
    return set(os.listdir("/proc/self/task")) - known

schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
options = {"file.format": sys.argv[1]}
table = lsmerge.create_table("memory://t", schema, "k", options=options)
before = foreign()
for _ in range(4):
    table.upsert(pa.table({"k": range(20_000), "v": ["x"] * 20_000}))
table.compact(full=True)
table.get(3), table.partitions(), table.stats(), table.scan().to_arrow()
print(len(foreign() - before))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts in /proc")
@pytest.mark.parametrize("file_format", ["arrow", "parquet"])
def test_no_thread_of_arrow_is_left_with_what_it_needs_the_interpreter_to_free(file_format):
    command = [sys.executable, "-c", FOREIGN_THREADS, file_format]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) == 0
