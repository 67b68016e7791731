"""Whatever fails, is retried or answered twice: nothing is lost or doubled, and nothing published is deleted."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import lsmerge
from tests.spark import failing
from tests.spark.conftest import ROOT
from tests.spark.tables import files_in, orphans, rows_of, write

COUNTING = {
    "primary-key": "k",
    "bucket": "2",
    "merge-engine": "aggregation",
    "fields.n.aggregate-function": "sum",
}


@pytest.fixture
def counted(tmp_path):
    """A table that shows how often a key was written."""
    options = {name: value for name, value in COUNTING.items() if name != "primary-key"}
    schema = pa.schema({"k": pa.int64(), "n": pa.int32()})
    lsmerge.create_table(tmp_path / "t", schema, "k", options=options)
    return tmp_path / "t"


def ones(spark, count=60):
    return spark.range(0, count, 1, 3).selectExpr("id AS k", "1 AS n")


def write_with(source, df, path):
    df.sparkSession.dataSource.register(source)
    df.write.format(source.name()).mode("append").save(str(path))


def once(count=60):
    return sorted([(k, 1) for k in range(count)], key=repr)


def test_a_task_that_fails_is_retried(counted, spark):
    write_with(failing.retried, ones(spark), counted)
    assert rows_of(counted) == once()
    assert orphans(counted) == ()


def test_a_task_whose_process_is_killed_is_retried(counted, spark):
    write_with(failing.killed, ones(spark), counted)
    assert rows_of(counted) == once()
    # What the killed process had finished, nobody knew of.
    assert len(orphans(counted)) == 2


def test_a_job_that_fails_leaves_nothing(counted, spark):
    with pytest.raises(Exception, match="try again"):
        write_with(failing.hopeless, ones(spark), counted)
    assert lsmerge.open_table(counted).latest_snapshot() is None
    # Spark stops tasks that are still running, and what one of them had just finished nobody knew of.
    left = files_in(counted)
    assert {name.rpartition("/")[2] for name in orphans(counted)} == left
    assert len({name.rpartition("-")[0] for name in left}) <= 1


def test_a_commit_whose_answer_is_lost_stays(counted, spark):
    with pytest.raises(Exception, match="the answer was lost"):
        write_with(failing.unanswered, ones(spark), counted)
    assert rows_of(counted) == once()
    assert lsmerge.open_table(counted).verify().ok


def test_a_commit_that_was_not_made_leaves_nothing(counted, spark):
    with pytest.raises(Exception, match="no connection"):
        write_with(failing.refused, ones(spark), counted)
    assert files_in(counted) == set()


def test_two_first_writes_make_one_table(tmp_path, spark):
    def first_write(_):
        # Spark looks for Python sources in the session of the thread, which this call makes known to it.
        df = spark.createDataFrame([(k, 1) for k in range(20)], "k bigint, n int")
        write(df, tmp_path / "t", **COUNTING)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(first_write, range(2)))
    assert {n for _, n in rows_of(tmp_path / "t")} == {2}


def test_a_cluster_that_speculates_and_loses_an_executor(tmp_path):
    # A cluster is a session of its own, and there can be only one in a process.
    job = Path(__file__).with_name("cluster_job.py")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(job), str(tmp_path)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["executors"] >= 2
    assert report["rows"] == [[k, 1] for k in range(60)]
    assert report["told"] == [["+I", 200]]
    assert rows_of(tmp_path / "shuffled") == once(200)
    assert rows_of(tmp_path / "killed") == once(60)
    assert rows_of(tmp_path / "speculated") == once(60)
    # Both attempts had written a run a bucket; one of them counts, and what the other wrote is nobody's.
    assert len(orphans(tmp_path / "speculated")) == 2
    assert rows_of(tmp_path / "speculated") == once(60)
