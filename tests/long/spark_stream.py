"""X7: many micro-batches through Spark, out of one table and into another; both are then what the model says.

The test is that of tests/spark, which has fewer of them.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.long.figures import Tally

ROOT = Path(__file__).parent.parent.parent
TEST = "tests/spark/test_stream_read.py::test_batches_out_of_a_table_and_into_another"


def batches(count: int) -> Tally:
    """So many micro-batches, each of one snapshot."""
    tally = Tally(tried=count)
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
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
