"""A program that is the driver of a stream, with a session of its own, and dies when it is told to:

LSMERGE_TEST_DRIVER_DIES="after 1" python -m tests.spark.stream_job <the directory of a Feed>
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.spark.conftest import ROOT, start_session
from tests.spark.failing import DRIVER_DIES, DriverKilledSource


def run_driver(root: Path, dies: str = "") -> int:
    """Run it as far as it comes; how it ended."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.stream_job", str(root)],
        env={**os.environ, "PYTHONPATH": str(ROOT), DRIVER_DIES: dies},
        cwd=ROOT,
        start_new_session=True,
        capture_output=True,
        timeout=600,
        check=False,
    )
    if done.returncode > 0:
        raise AssertionError(done.stderr.decode()[-3000:])
    return done.returncode


def main(root: Path) -> None:
    from tests.spark.test_stream_write import Feed

    spark = start_session("local[2]")
    spark.dataSource.register(DriverKilledSource)
    Feed(spark, root, source=DriverKilledSource.name()).run()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
