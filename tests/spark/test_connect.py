"""Everything works behind Spark Connect as well."""

import json
import os
import subprocess
import sys

import pytest

from tests.spark.conftest import ROOT


def test_reads_writes_streams_and_jobs_behind_spark_connect(tmp_path):
    pytest.importorskip("grpc", reason="pyspark[connect] is not installed")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-W", "ignore", "-m", "tests.spark.connect_job", str(tmp_path)]
    job = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=ROOT, env=environment
    )
    assert job.returncode == 0, job.stderr[-3000:]
    assert json.loads(job.stdout.splitlines()[-1]) == {
        "session": "pyspark.sql.connect.session",
        "rows": 10,
        "some": [0, 1, 2],
        "told": {"+I": 10, "-U": 1, "+U": 1},
        "changes": 2,
        "compacted": 10,
        "by spark": 10,
    }
