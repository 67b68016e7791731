"""Heads of record batch messages: what pyarrow writes is found, and damage is a ValueError, never anything else."""

import random

import pyarrow as pa
import pytest

from lsmerge_native.arrow_head import head_length, read_head

BATCH = pa.record_batch(
    {
        "number": pa.array([1, None, 3], pa.int64()),
        "text": pa.array(["a", "", "ccc"]),
        "list": pa.array([[1, 2], None, []], pa.list_(pa.int32())),
    }
)


def message(compression=None):
    """The record batch of a stream: between its schema and the 8 bytes at its end."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, BATCH.schema, options=options) as writer:
        writer.write_batch(BATCH)
    stream, start = sink.getvalue(), BATCH.schema.serialize().size
    return stream.slice(start, stream.size - start - 8)


@pytest.mark.parametrize(("compression", "number"), [(None, None), ("lz4", 0), ("zstd", 1)])
def test_the_head_of_a_message(compression, number):
    data = message(compression)
    rows, nodes, buffers, codec, body_start = read_head(data, data.size)
    assert (rows, codec, body_start) == (3, number, head_length(data))
    assert nodes == (3, 1, 3, 0, 3, 1, 2, 0)  # number, text, list, and the items of the lists
    assert len(buffers) == 2 * (2 + 3 + 2 + 2)


def test_buffers_lie_where_the_head_says():
    data = message()
    _, _, buffers, _, body_start = read_head(data, data.size)
    start, length = body_start + buffers[2], buffers[3]
    assert data.slice(start, length).to_pybytes()[:8] == (1).to_bytes(8, "little")


def test_the_head_alone_is_enough():
    data = message()
    head = data.slice(0, head_length(data))
    assert read_head(head, data.size) == read_head(data, data.size)


@pytest.mark.parametrize("size", range(8))
def test_a_prefix_that_is_too_short(size):
    with pytest.raises(ValueError, match="points to byte"):
        head_length(message().slice(0, size))


def test_what_is_no_message():
    with pytest.raises(ValueError, match="does not begin here"):
        head_length(bytes(8))
    with pytest.raises(ValueError, match="does not begin here"):
        head_length(b"\xff" * 8)


def test_another_length_than_the_message_has():
    data = message()
    with pytest.raises(ValueError, match="another length"):
        read_head(data, data.size + 8)
    with pytest.raises(ValueError, match="longer than the message"):
        read_head(data.slice(0, head_length(data) - 1), data.size)


def test_another_kind_of_message():
    schema = BATCH.schema.serialize()
    with pytest.raises(ValueError, match="not a record batch"):
        read_head(schema, schema.size)


def test_buffers_outside_the_body():
    data = bytearray(message())
    _, _, buffers, _, _ = read_head(data, len(data))
    entry = b"".join(number.to_bytes(8, "little") for number in buffers[2:4])
    place = data.index(entry)
    data[place : place + 8] = (1 << 62).to_bytes(8, "little")
    with pytest.raises(ValueError, match="outside the message body"):
        read_head(data, len(data))


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_every_changed_byte_gives_numbers_or_a_value_error(compression):
    whole = bytes(message(compression))
    rng = random.Random(7)
    for place in range(head_length(whole)):
        for value in (0, 0x7F, 0x80, 0xFF, rng.randrange(256)):
            data = bytearray(whole)
            data[place] = value
            try:
                _, _, buffers, _, body_start = read_head(data, len(data))
            except ValueError:
                continue
            for start, length in zip(buffers[::2], buffers[1::2], strict=True):
                assert 0 <= start <= start + length <= len(data) - body_start
