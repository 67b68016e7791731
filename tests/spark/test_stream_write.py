"""Streams into a table: each micro-batch once, whatever is repeated."""

import shutil
import signal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lsmerge
from tests.spark.stream_job import run_driver
from tests.spark.tables import orphans, rows_of


class Feed:
    """A stream of files, two in a micro-batch, into a table that counts how often a key came."""

    def __init__(self, spark, root, rows_a_batch=10, source="lsmerge"):
        self.spark, self.root, self.rows, self.source = spark, root, rows_a_batch, source
        self.path = root / "t"
        self.count = 0

    def add(self):
        first, half = self.count * self.rows, self.rows // 2
        (self.root / "in").mkdir(exist_ok=True)
        for start in (first, first + half):
            keys = pa.array(range(start, start + half), pa.int64())
            rows = pa.table({"k": keys, "n": pa.array([1] * half, pa.int32())})
            pq.write_table(rows, self.root / "in" / f"{start}.parquet")
        self.count += 1

    def run(self, mode="append", change=lambda df: df, **options):
        source = self.spark.readStream.schema("k bigint, n int")
        df = source.option("maxFilesPerTrigger", 2).parquet(str(self.root / "in"))
        named = {
            "primary-key": "k",
            "merge-engine": "aggregation",
            "fields.n.aggregate-function": "sum",
            "checkpointLocation": str(self.root / "check"),
            **options,
        }
        writer = change(df).writeStream.format(self.source).outputMode(mode).options(**named)
        query = writer.trigger(availableNow=True).start(str(self.path))
        query.awaitTermination()
        assert query.exception() is None

    def forget_last_checkpoint(self):
        """As if Spark had stopped between the commit and its note of it."""
        commits = self.root / "check" / "commits"
        last = max(
            (file for file in commits.iterdir() if file.name.isdigit()), key=lambda f: int(f.name)
        )
        last.unlink()
        (commits / f".{last.name}.crc").unlink(missing_ok=True)


@pytest.fixture
def feed(spark, tmp_path):
    return Feed(spark, tmp_path)


def test_a_stream_goes_on_where_it_stopped(feed):
    for _ in range(2):
        feed.add()
        feed.run()
    assert rows_of(feed.path) == sorted([(k, 1) for k in range(20)], key=repr)
    with lsmerge.open_table(feed.path) as table:
        identities = [(s.commit_user, s.commit_id) for s in table.snapshots()]
    assert [number for _, number in identities] == [0, 1]
    assert len({user for user, _ in identities}) == 1


def test_a_repeated_batch_is_recognised(feed):
    feed.add()
    feed.run()
    feed.forget_last_checkpoint()
    feed.run()
    feed.add()
    feed.run()
    assert rows_of(feed.path) == sorted([(k, 1) for k in range(20)], key=repr)
    assert orphans(feed.path) == ()


def test_a_repeated_batch_is_recognised_after_its_snapshot_has_expired(feed):
    feed.add()
    feed.run()
    with lsmerge.open_table(feed.path) as table:
        for _ in range(3):
            table.write([{"k": 1000, "n": 1}])
        table.expire_snapshots(retain_max=1)
    feed.forget_last_checkpoint()
    feed.run()
    assert rows_of(feed.path) == sorted([*((k, 1) for k in range(10)), (1000, 3)], key=repr)


def test_a_driver_that_is_killed_after_a_commit_repeats_nothing(tmp_path):
    """Before it too, and at more batches: tests/long/spark_stream.py."""
    feed = Feed(None, tmp_path)
    feed.add()
    assert run_driver(tmp_path, "after 0") == -signal.SIGKILL
    assert rows_of(feed.path) == sorted([(k, 1) for k in range(10)], key=repr)
    feed.add()
    assert run_driver(tmp_path) == 0
    assert rows_of(feed.path) == sorted([(k, 1) for k in range(20)], key=repr)


def test_a_new_checkpoint_is_another_stream(feed):
    feed.add()
    feed.run()
    shutil.rmtree(feed.root / "check")
    feed.run()
    assert {n for _, n in rows_of(feed.path)} == {2}


def test_complete_mode_replaces_the_table(feed):
    def change(df):
        return df.groupBy((df.k % 5).alias("k")).agg({"n": "sum"}).selectExpr("k", "`sum(n)` AS n")

    for _ in range(2):
        feed.add()
        feed.run("complete", change)
    assert rows_of(feed.path) == [(k, 4) for k in range(5)]


def test_a_stream_has_no_other_identity(feed):
    feed.add()
    with pytest.raises(Exception, match=r"INVALID_OPTION.*the identity of its checkpoint"):
        feed.run(**{"commit-user": "me", "commit-id": "1"})
