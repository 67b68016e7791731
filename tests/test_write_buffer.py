"""What a writer holds, and which buckets leave when it is too much."""

import pyarrow as pa

from lsmerge.engine import write_buffer
from lsmerge.engine.write_buffer import Bucket, WriteBuffer
from lsmerge.meta.data_file import BucketId

SCHEMA = pa.schema([("_SEQUENCE_NUMBER", pa.int64()), ("k", pa.int64())])


def rows(count):
    return pa.record_batch([pa.repeat(pa.scalar(0, pa.int64()), count)] * 2, schema=SCHEMA)


def place(number):
    return BucketId((), number)


def filled(budget_bytes, *counts):
    buffer = WriteBuffer(budget_bytes)
    for number, count in enumerate(counts):
        buffer.append(place(number), rows(count))
    return buffer


def test_nothing_leaves_a_buffer_with_room():
    assert list(filled(1 << 20, 100, 200).overflowing()) == []


def test_the_fullest_buckets_leave_until_half_of_the_room_is_free():
    """100 rows are 1,600 bytes, and 512 more that their batch costs."""
    buffer = filled(16_000, 50, 300, 200, 10)
    assert list(buffer.overflowing()) == [place(1), place(2)]
    for full in list(buffer.overflowing()):
        buffer.take(full)
    assert buffer.places == [place(0), place(3)]
    assert list(buffer.overflowing()) == []


def test_a_bucket_that_would_be_too_large_a_run_leaves_alone(monkeypatch):
    monkeypatch.setattr(write_buffer, "MAX_RUN_BYTES", 5_000)
    buffer = filled(20_000, 100, 350)
    assert list(buffer.overflowing()) == [place(1)]


def test_rows_are_numbered_as_they_came_and_small_batches_joined():
    bucket = Bucket(portion_bytes=1 << 20)
    for _ in range(write_buffer.MAX_SMALL_BATCHES + 3):
        bucket.append(rows(2))
    batches = bucket.settle()
    assert len(batches) == 2
    assert pa.Table.from_batches(batches)[0].to_pylist() == list(range(bucket.num_rows))
    assert bucket.settle() == batches


def test_rows_that_are_moved_at_once_make_a_portion():
    bucket = Bucket(portion_bytes=16_000)
    bucket.append(rows(10_000))
    assert 900 < bucket.rows_at_once <= 1_000
    assert Bucket(portion_bytes=1).rows_at_once == 1
