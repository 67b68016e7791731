"""X7: many micro-batches through Spark, out of one table and into another; both are then what the model says.

The test is that of tests/spark, which has fewer of them. Then a driver that is killed before and after the commit of
each micro-batch, and started again: between the commit and Spark's note of it a batch is there and not known.
"""

import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import lsmerge
from tests.long.figures import Tally
from tests.long.stages import scratch

ROOT = Path(__file__).parent.parent.parent
TEST = "tests/spark/test_stream_read.py::test_batches_out_of_a_table_and_into_another"


def batches(count: int) -> Tally:
    """So many micro-batches, each of one snapshot."""
    tally = Tally(tried=count)
    if not _has_java():
        return Tally(skipped="no Java is found")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", TEST],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "LSMERGE_SPARK_BATCHES": str(count)},
    )
    if done.returncode != 0:
        tally.violations.append(done.stdout[-3000:])
    return tally


def _has_java() -> bool:
    return shutil.which("java") is not None or "JAVA_HOME" in os.environ


def kill_drivers(batches: int) -> Tally:
    """A stream whose driver dies before and after the commit of each of so many micro-batches."""
    tally = Tally()
    if not _has_java():
        return Tally(skipped="no Java is found")
    from tests.spark.test_stream_write import Feed

    with scratch() as root:
        feed = Feed(None, root)
        for number in range(batches):
            feed.add()
            for when in ("before", "after"):
                tally.attempt((when, number), partial(_killed_driver, root, f"{when} {number}"))
        tally.attempt("the end", partial(_check_stream, root, feed.path, batches * feed.rows))
    return tally


def _killed_driver(root: Path, dies: str) -> None:
    from tests.spark.stream_job import run_driver

    ended = run_driver(root, dies)
    if ended != -signal.SIGKILL:
        raise AssertionError(f"the driver ended with {ended}")


def _check_stream(root: Path, table_path: Path, rows: int) -> None:
    from tests.spark.stream_job import run_driver

    run_driver(root)
    with lsmerge.open_table(table_path) as table:
        found = table.scan().to_arrow().sort_by("k").to_pylist()
        numbers = [s.commit_id for s in table.snapshots() if s.commit_id is not None]
    if found != [{"k": key, "n": 1} for key in range(rows)]:
        raise AssertionError(f"rows are lost or doubled: {found}")
    if numbers != sorted(set(numbers)):
        raise AssertionError(f"batches were committed as {numbers}")
