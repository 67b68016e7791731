"""Blocks as batches: what pyarrow wrote comes back, and whatever does not fit its memory is a ValueError."""

import gc
import random

import pyarrow as pa
import pytest

from lsmerge_native.arrow_head import read_head
from lsmerge_native.block import BlockShape

COLUMNS = {
    "number": pa.array([1, None, 3, 4], pa.int64()),
    "flag": pa.array([True, False, None, True]),
    "text": pa.array(["a", "", None, "ccc"]),
    "bytes": pa.array([b"", b"", b"", b""]),
    "price": pa.array([1, 2, None, 4], pa.decimal128(20, 2)),
    "nothing": pa.array([b"", b"", b"", b""], pa.binary(0)),
    "small": pa.array([1, 2, 3, 4], pa.int8()),
}
BATCH = pa.record_batch(COLUMNS)
NUM_BUFFERS = [3 if pa.types.is_string(t) or t == pa.binary() else 2 for t in BATCH.schema.types]
FIRST_BUFFERS = [sum(NUM_BUFFERS[:place]) for place in range(len(NUM_BUFFERS))]


def message(batch=BATCH):
    return batch.serialize()


def shape(names=BATCH.schema.names):
    places = [BATCH.schema.names.index(name) for name in names]
    fields = pa.schema([BATCH.schema.field(place) for place in places])
    return shape_of(fields, places, [FIRST_BUFFERS[place] for place in places])


def shape_of(fields, nodes=(0,), buffers=(0,)):
    return BlockShape(fields, list(nodes), list(buffers), pa.RecordBatch._import_from_c)


def imported(view):
    view.batch.validate(full=True)
    return view.batch


def read(names=BATCH.schema.names, data=None, pieces=None, batch=BATCH):
    data = message(batch) if data is None else data
    num_rows, nodes, buffers, _, body_start = read_head(data, data.size)
    return imported(shape(names).read(num_rows, nodes, buffers, body_start, pieces or [(0, data)]))


@pytest.mark.parametrize("names", [BATCH.schema.names, ["text"], ["small", "number"], []])
def test_columns_come_back_as_they_were_written(names):
    assert read(names).to_pydict() == BATCH.select(names).to_pydict()


def test_rows_without_nulls_and_no_rows_at_all():
    filled = BATCH.slice(0, 1)
    assert read(batch=filled).to_pydict() == filled.to_pydict()
    assert read(batch=BATCH.slice(0, 0)).num_rows == 0


def test_a_message_that_was_read_in_pieces():
    data = message()
    cut = read_head(data, data.size)[4] + 64
    pieces = [(0, data.slice(0, cut)), (cut, data.slice(cut))]
    names = BATCH.schema.names
    assert read(names, pieces=pieces).to_pydict() == BATCH.to_pydict()
    with pytest.raises(ValueError, match="not in what was read"):
        read(names, pieces=pieces[:1])


@pytest.mark.parametrize("shift", range(1, 8))
def test_memory_that_is_not_aligned_is_copied(shift):
    data = message()
    moved = pa.py_buffer(bytes(shift) + data.to_pybytes()).slice(shift)
    assert read(pieces=[(0, moved)]).to_pydict() == BATCH.to_pydict()


def test_buffers_that_were_unpacked():
    made = shape(["text", "number"])
    nodes = read_head(message(), message().size)[1]
    text, number = COLUMNS["text"].buffers(), COLUMNS["number"].buffers()
    batch = imported(made.joined(4, nodes, [*text, *number]))
    assert batch.to_pydict() == BATCH.select(["text", "number"]).to_pydict()


def test_a_slice_of_a_block_is_one_of_its_batch():
    data = message()
    num_rows, nodes, buffers, _, body_start = read_head(data, data.size)
    part = shape().read(num_rows, nodes, buffers, body_start, [(0, data)]).slice(1, 3)
    assert [part.has_nulls(place) for place in (0, 6)] == [True, False]
    assert imported(part).to_pydict() == BATCH.slice(1, 2).to_pydict()


def test_the_memory_lives_as_long_as_a_column_of_it():
    column = read()["text"]
    gc.collect()
    assert column.to_pylist() == ["a", "", None, "ccc"]


def test_a_batch_that_nobody_imports_lets_go_of_its_memory():
    data = message()
    made = shape()
    num_rows, nodes, buffers, _, body_start = read_head(data, data.size)
    held = bytearray(data.to_pybytes())
    view = made.read(num_rows, nodes, buffers, body_start, [(0, held)])
    with pytest.raises(BufferError):
        held.clear()
    del view
    held.clear()


def test_too_few_buffers_are_refused():
    made = shape(["text"])
    with pytest.raises(ValueError, match="2 buffers of 3"):
        made.joined(4, read_head(message(), message().size)[1], [None, None])


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ((3, 1), "3 rows of 4"),
        ((4, 5), "5 nulls in 4 rows"),
        ((4, -1), "-1 nulls"),
        ((4, 2), "other than 2 nulls"),
        ((4,), "no column 0"),
    ],
)
def test_counts_that_are_not_so(nodes, message):
    fields = pa.schema([BATCH.schema.field("number")])
    made = shape_of(fields)
    with pytest.raises(ValueError, match=message):
        made.joined(4, nodes, COLUMNS["number"].buffers())


@pytest.mark.parametrize("rows", [-1, 2**32, 2**62])
def test_numbers_of_rows_that_no_block_has(rows):
    fields = pa.schema([BATCH.schema.field("number")])
    with pytest.raises(ValueError, match=f"{rows} rows"):
        shape_of(fields).joined(rows, (rows, 0), [None, b""])


@pytest.mark.parametrize(
    ("name", "buffers", "message"),
    [
        ("number", [b"\x0d", bytes(31)], "31 bytes where 32 are needed"),
        ("number", [b"", bytes(32)], "0 bytes where 1 are needed"),
        ("number", [None, bytes(32)], "1 nulls in 4 rows"),
        ("flag", [b"\x0b", b""], "0 bytes where 1 are needed"),
        ("text", [b"\x0b", bytes(19), b""], "19 bytes where 20 are needed"),
        ("text", [b"\x0b", pa.array([0, 1, 0, 2, 2], pa.int32()).buffers()[1], b"ab"], "decrease"),
        ("text", [b"\x0b", pa.array([-1, 0, 1, 2, 2], pa.int32()).buffers()[1], b"ab"], "decrease"),
        ("text", [b"\x0b", pa.array([0, 0, 1, 2, 3], pa.int32()).buffers()[1], b"ab"], "leave"),
        ("number", [b"\x0d", pa.py_buffer(bytes(64)).slice(4, 32)], "no multiple of 8"),
    ],
)
def test_memory_that_does_not_hold_the_rows(name, buffers, message):
    fields = pa.schema([BATCH.schema.field(name)])
    with pytest.raises(ValueError, match=message):
        shape_of(fields).joined(4, (4, 1), buffers)


@pytest.mark.parametrize(
    "type_",
    [pa.list_(pa.int8()), pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.null()],
)
def test_types_that_are_not_flat_are_refused(type_):
    with pytest.raises(ValueError, match="column 0"):
        shape_of(pa.schema({"c": type_}))


def test_damaged_messages_give_batches_or_a_value_error():
    rng, data = random.Random(9), message().to_pybytes()
    refused = 0
    for _ in range(3_000):
        damaged = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        try:
            read(data=pa.py_buffer(bytes(damaged)))
        except ValueError:
            refused += 1
    assert 100 < refused < 3_000
