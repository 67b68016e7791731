"""Changes of a table as a stream: every change once, in order within a key, whatever is stopped and begun again.

Most of it is tried by a stand-in for the driver, which keeps offsets as Spark does: it asks where to start until the
first batch is committed, and runs a batch that was planned and not committed again, from its end alone.
"""

import datetime as dt
import json
import os
import pickle
import random

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.streaming.datasource import ReadAllAvailable

import lsmerge
import lsmerge.spark
from lsmerge.spark.batch_read import schema as declared_schema
from lsmerge.spark.stream_read import reader
from tests.changelog_replay import Replay, rows_of

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.int64()})
OPTIONS = {"bucket": "2", "changelog-producer": "lookup", "write-only": "true"}
BATCHES = int(os.environ.get("LSMERGE_SPARK_BATCHES", "24"))


@pytest.fixture
def table(tmp_path):
    return lsmerge.create_table(str(tmp_path / "t"), SCHEMA, "k", options=OPTIONS)


def change(table, draw, value):
    if draw.random() < 0.2:
        table.delete([draw.randrange(20)])
    else:
        table.upsert([{"k": draw.randrange(20), "v": value} for _ in range(draw.randint(1, 5))])


class Driver:
    """Keeps the offsets of one query, as Spark's checkpoint does; a new reader is a restart."""

    def __init__(self, table, **options):
        self.options = {"path": table.uri, "scan.mode": "latest-full", **options}
        self.offsets = []
        self.committed = 0
        self.restart()

    def restart(self):
        self.reader = reader(self.options, declared_schema(self.options))
        self.start = None

    def plan(self):
        """Write the end of the next batch down; False if there is nothing to read."""
        begin = json.loads(json.dumps(self._begin()))
        end = self.reader.latestOffset(begin, self.reader.getDefaultReadLimit())
        if end == begin:
            return False
        self.offsets.append(json.loads(json.dumps(end)))
        return True

    def run(self):
        """The batches of the batch that was planned last."""
        begin = self.offsets[-2] if len(self.offsets) > 1 else self._initial()
        parts = self.reader.partitions(begin, self.offsets[-1])
        sent = [pickle.loads(pickle.dumps((self.reader, part))) for part in parts]
        return [list(reader_.read(part)) for reader_, part in sent]

    def commit(self):
        self.committed = len(self.offsets)
        if self.committed > 1:
            self.reader.commit(self.offsets[-2])  # one batch late, as Spark does

    def drain(self):
        """Everything there is, batch by batch."""
        while self.plan():
            yield self.run()
            self.commit()

    def _begin(self):
        return self.offsets[-1] if self.offsets else self._initial()

    def _initial(self):
        if self.start is None:
            self.start = self.reader.initialOffset()
        return self.start


def apply(replay, batches):
    for parts in batches:
        for part in parts:
            replay.apply(part)


def test_two_hundred_batches_with_restarts_give_the_table(table):
    draw, replay = random.Random(1), Replay(["k"])
    change(table, draw, -1)
    driver = Driver(table, **{"read.stream.max-snapshots-per-trigger": "1"})
    done = 0
    for value in range(200):
        change(table, draw, value)
        if draw.random() < 0.1:
            table.compact(full=draw.random() < 0.5)
        if not driver.plan():
            continue
        if (
            draw.random() < 0.2
        ):  # it died after the plan was written down, and the rows are gone with it
            driver.restart()
        apply(replay, [driver.run()])
        driver.commit()
        done += 1
    apply(replay, driver.drain())
    assert done > 150
    assert replay.rows == rows_of(table)


def test_the_first_batch_has_the_same_rows_when_it_is_run_again(table):
    """Spark asks for the start anew; the newest snapshot is another one by then."""
    table.upsert([{"k": 1, "v": 1}])
    driver = Driver(table)
    driver.plan()
    first = driver.run()
    table.upsert([{"k": 1, "v": 2}])
    driver.restart()
    assert driver.run() == first
    driver.commit()
    replay = Replay(["k"])
    apply(replay, [first, *driver.drain()])
    assert replay.rows == rows_of(table)


def kinds(driver):
    return [
        (row["_snapshot_id"], row["_row_kind"], row["k"])
        for parts in driver.drain()
        for part in parts
        for batch in part
        for row in batch.to_pylist()
    ]


def test_where_to_start(table):
    table.upsert([{"k": 1, "v": 1}])
    table.upsert([{"k": 2, "v": 1}])
    between = dt.datetime.fromtimestamp(table.latest_snapshot().timestamp_ms / 1000, dt.UTC)
    drivers = {
        "latest-full": Driver(table),
        "latest": Driver(table, **{"scan.mode": "latest"}),
        "earliest": Driver(table, **{"scan.mode": "earliest"}),
        "snapshot": Driver(table, **{"scan.mode": "from-snapshot", "scan.snapshot-id": "2"}),
        "time": Driver(
            table, **{"scan.mode": "from-timestamp", "scan.timestamp": between.isoformat()}
        ),
    }
    for driver in drivers.values():
        driver.plan()
        driver.offsets.clear()
    table.upsert([{"k": 3, "v": 1}])
    found = {name: kinds(driver) for name, driver in drivers.items()}
    assert found["latest"] == [(3, "+I", 3)]
    assert sorted(found["latest-full"]) == [(2, "+I", 1), (2, "+I", 2), (3, "+I", 3)]
    assert sorted(found["earliest"]) == [(1, "+I", 1), (2, "+I", 2), (3, "+I", 3)]
    assert found["snapshot"] == [(2, "+I", 2), (3, "+I", 3)]
    assert found["time"][-2:] == [(2, "+I", 2), (3, "+I", 3)]


def test_an_empty_table_is_followed_from_its_first_snapshot(table):
    driver = Driver(table)
    assert kinds(driver) == []
    table.upsert([{"k": 1, "v": 1}])
    assert kinds(driver) == [(1, "+I", 1)]


@pytest.mark.parametrize(
    ("limit", "sizes"),
    [
        ({}, [40]),
        ({"read.stream.max-snapshots-per-trigger": "3"}, [30, 10]),
        ({"read.stream.max-rows-per-trigger": "25"}, [20, 20]),
        ({"read.stream.max-bytes-per-trigger": "1"}, [10, 10, 10, 10]),
    ],
)
def test_limits_are_for_one_batch(table, limit, sizes):
    for first in range(4):
        table.upsert([{"k": 10 * first + k, "v": 0} for k in range(10)])
    driver = Driver(table, **{"scan.mode": "earliest", **limit})
    counts = [sum(b.num_rows for part in parts for b in part) for parts in driver.drain()]
    assert counts == sizes
    again = Driver(table, **{"scan.mode": "earliest", **limit})
    begin = again.reader.initialOffset()
    assert again.reader.latestOffset(begin, ReadAllAvailable())["snapshot"] == 5


def test_available_now_ends_with_what_is_there(table):
    table.upsert([{"k": 1, "v": 1}])
    driver = Driver(table, **{"read.stream.max-snapshots-per-trigger": "1"})
    driver.reader.prepareForTriggerAvailableNow()
    driver.plan()
    driver.offsets.clear()
    table.upsert([{"k": 2, "v": 1}])
    assert kinds(driver) == [(1, "+I", 1)]
    driver.restart()
    assert kinds(driver) == [(2, "+I", 2)]


def test_a_consumer_keeps_what_it_has_not_committed(table):
    table.upsert([{"k": 1, "v": 1}])
    driver = Driver(table, **{"consumer-id": "me", "scan.mode": "earliest"})
    list(driver.drain())
    for value in range(5):
        table.upsert([{"k": 1, "v": value}])
    assert table.expire_snapshots(retain_max=1).snapshots == ()
    assert len(list(driver.drain())) == 1
    # Spark says one batch late that one is done, and of the last one never.
    assert table.consumers() == {"me": 2}
    assert table.expire_snapshots(retain_max=1).snapshots == (1,)
    table.delete_consumer("me")
    assert table.expire_snapshots(retain_max=1).snapshots == (2, 3, 4, 5)


def test_what_has_expired_is_named_with_what_is_left(table):
    table.upsert([{"k": 1, "v": 1}])
    driver = Driver(table)
    list(driver.drain())
    for value in range(5):
        table.upsert([{"k": 1, "v": value}])
    table.compact(full=True)
    table.expire_snapshots(retain_max=2)
    driver.restart()
    with pytest.raises(lsmerge.SnapshotExpiredError, match="the earliest one left is 6") as caught:
        driver.plan()
    assert str(caught.value).startswith("[SNAPSHOT_EXPIRED]")
    assert "\n" not in str(caught.value)


def test_a_column_that_came_later_is_not_in_a_stream_that_runs(table):
    table.upsert([{"k": 1, "v": 1}])
    driver = Driver(table)
    list(driver.drain())
    table.alter(add={"x": pa.int8()})
    table.upsert([{"k": 2, "v": 2, "x": 3}])
    ((part,),) = driver.drain()
    assert part[0].schema.names == ["_row_kind", "k", "v", "_snapshot_id", "_commit_timestamp"]


def test_a_column_that_went_is_named(table):
    table.upsert([{"k": 1, "v": 1}])
    driver = Driver(table)
    list(driver.drain())
    table.alter(rename={"v": "w"})
    table.upsert([{"k": 2, "w": 2}])
    with pytest.raises(
        lsmerge.SchemaMismatchError, match="column 'v' is not in the table any more"
    ):
        list(driver.drain())


def test_a_stream_without_kinds_is_refused(table):
    plain = {"path": table.uri}
    with pytest.raises(
        lsmerge.InvalidOptionError, match=r"readStream.*\.option\('scan.mode', 'latest-full'\)"
    ):
        reader(plain, declared_schema(plain))


# ------------------------------------------------------------------------------------- with Spark


def started(frame, tmp_path, name):
    sink = frame.writeStream.format("memory").queryName(name)
    sink = sink.option("checkpointLocation", str(tmp_path / name))
    return sink.trigger(availableNow=True).start()


def told(spark, name, replay):
    """Apply what the stream has told, snapshot by snapshot, a retract of a key before what takes its place."""
    rows = spark.table(name).toArrow().sort_by([("_snapshot_id", "ascending"), ("k", "ascending")])
    kinds_ = rows["_row_kind"].to_pylist()
    assert set(kinds_) <= {"+I", "-U", "+U", "-D"}
    order = sorted(
        range(rows.num_rows),
        key=lambda i: (rows["_snapshot_id"][i].as_py(), rows["k"][i].as_py(), kinds_[i] == "+U"),
    )
    replay.apply(rows.take(order).to_batches())


def test_a_stream_through_spark_gives_the_table(spark, table, tmp_path):
    draw, commits = random.Random(7), 12
    for value in range(commits):
        change(table, draw, value)
    stream = lsmerge.spark.read_stream(spark, table.uri, "earliest", max_snapshots=1)
    query = started(stream, tmp_path, "changes")
    query.awaitTermination()
    replay = Replay(["k"])
    told(spark, "changes", replay)
    assert replay.rows == rows_of(table)
    # Deletes of keys that are not there tell nothing, and make no batch.
    telling = spark.table("changes").select("_snapshot_id").distinct().count()
    assert query.lastProgress["batchId"] + 1 == telling > commits / 2


def test_batches_out_of_a_table_and_into_another(spark, table, tmp_path):
    """Each snapshot is a micro-batch, and each micro-batch a snapshot; both tables are what the model says."""
    draw, model = random.Random(11), {}
    for value in range(BATCHES):
        if value % 10 == 9:  # a key that is there, so that each commit tells something
            gone = draw.choice(sorted(model))
            table.delete([gone])
            del model[gone]
            continue
        rows = [{"k": draw.randrange(20), "v": value} for _ in range(draw.randint(1, 5))]
        model |= {row["k"]: value for row in rows}
        table.upsert(rows)
    copy = lsmerge.create_table(str(tmp_path / "copy"), SCHEMA, "k", options={"bucket": "1"})
    changes = lsmerge.spark.read_stream(spark, table.uri, "earliest", max_snapshots=1)
    sink = changes.drop("_snapshot_id", "_commit_timestamp").writeStream.format("lsmerge")
    sink = sink.option("checkpointLocation", str(tmp_path / "copying"))
    sink.trigger(availableNow=True).start(copy.uri).awaitTermination()
    for one in (table, copy):
        assert {row["k"]: row["v"] for row in one.scan().to_arrow().to_pylist()} == model
    committed = [s.commit_id for s in copy.snapshots() if s.commit_id is not None]
    assert committed == list(range(BATCHES))


def test_a_batch_that_failed_in_spark_is_run_again(spark, table, tmp_path):
    """Also the first one, although the newest snapshot is another by then."""
    table.upsert([{"k": 1, "v": 1}])
    seen = []

    def run(fail):
        def work(frame, number):
            rows = [(r._snapshot_id, r._row_kind, r.k, r.v) for r in frame.collect()]
            if fail:
                raise ValueError("on purpose")
            seen.append((number, sorted(rows)))

        stream = lsmerge.spark.read_stream(spark, table.uri, consumer="spark")
        writer = stream.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        return writer.foreachBatch(work).trigger(availableNow=True).start()

    with pytest.raises(PySparkException):
        run(fail=True).awaitTermination()
    table.upsert([{"k": 1, "v": 2}])
    run(fail=False).awaitTermination()
    assert seen == [(0, [(1, "+I", 1, 1)]), (1, [(2, "+U", 1, 2), (2, "-U", 1, 1)])]
    assert set(table.consumers()) == {"spark"}


def test_the_reason_reaches_the_user_of_a_stream(spark, table, tmp_path):
    table.upsert([{"k": 1, "v": 1}])
    query = started(lsmerge.spark.read_stream(spark, table.uri, 9), tmp_path, "late")
    query.awaitTermination()  # still to come
    for value in range(4):
        table.upsert([{"k": 1, "v": value}])
    table.expire_snapshots(retain_max=1)
    with pytest.raises(PySparkException, match=r"\[SNAPSHOT_EXPIRED\] .*earliest one left is 5"):
        started(lsmerge.spark.read_stream(spark, table.uri, 2), tmp_path, "gone").awaitTermination()
