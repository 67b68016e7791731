"""Parquet blocks that hold far more than their index says, refused before that takes memory.

Headers of pages do not say it of all of them: a dictionary repeats a long text as often as it likes, and a run of equal
lengths makes a long list of a few bytes.
"""

from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lsmerge
from lsmerge.errors import CorruptFileError
from lsmerge.storage.parquet_footer import Allowance, unfolded_bytes
from lsmerge.storage.parquet_run import ParquetBlockWriter, _BlockData
from lsmerge.storage.run_file import RunFormat
from tests.test_run_file import SYSTEM, ByteStore, column, read_all, write

PARQUET = RunFormat("parquet", "zstd", 1, block_size_bytes=1 << 27)
LONG = "x" * 100_000
TEXTS = pa.map_(pa.string(), pa.struct([("t", pa.list_(pa.string()))]))


def packed(monkeypatch, type_, values, decoded_bytes, fmt=PARQUET):
    """A run with one block of a column, said to be so large; its summary, schema and store."""
    schema = pa.schema([*SYSTEM, column("k", pa.int64(), 1, nullable=False), column("v", type_, 2)])
    rows = len(values)
    numbers = pa.array(range(rows), pa.int64())
    kinds = pa.array([0] * rows, pa.int8())
    batch = pa.RecordBatch.from_arrays(
        [numbers, kinds, numbers, pa.array(values, type_)], schema=schema
    )
    store = ByteStore()
    with monkeypatch.context() as forging:
        if decoded_bytes is not None:
            name = "lsmerge.storage.run_writer._decoded_bytes"
            forging.setattr(name, lambda *_: decoded_bytes)
        # Everything that can have a dictionary has one.
        name = "lsmerge.storage.parquet_run.choose_encodings"
        forging.setattr(name, lambda _: (True, None))
        summary = write(store, [batch], fmt, schema=schema)
    return store, summary, schema


@contextmanager
def little_memory():
    """Arrow takes next to none meanwhile."""
    ordinary = pa.default_memory_pool()
    watched = pa.proxy_memory_pool(ordinary)
    pa.set_memory_pool(watched)
    try:
        yield
    finally:
        pa.set_memory_pool(ordinary)
    assert watched.max_memory() < 2 << 20


@pytest.mark.parametrize("compression", ["zstd", "lz4"])  # decoded by a kernel, and by pyarrow
@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (pa.string(), [LONG] * 1000),
        (pa.binary(), [LONG.encode()] * 1000),
        (pa.list_(pa.string()), [[LONG] * 100] * 10),
        (TEXTS, [[("a", {"t": [LONG] * 100})]] * 10),
    ],
    ids=["text", "binary", "list", "nested"],
)
def test_a_dictionary_that_repeats_a_long_text_is_not_unfolded(
    monkeypatch, type_, values, compression
):
    fmt = replace(PARQUET, compression=compression)
    store, summary, schema = packed(monkeypatch, type_, values, 300_000, fmt)
    assert summary.size_bytes < 50_000
    with (
        little_memory(),
        pytest.raises(CorruptFileError, match=r"the block unpacks to \d{8,} bytes"),
    ):
        read_all(store, summary, schema)


def test_values_of_one_long_length_that_a_dictionary_repeats_are_not_unfolded(monkeypatch):
    """Texts of the table that the file stores as values of a length of their own."""
    fixed = pa.binary(len(LONG))
    write_block, begin = ParquetBlockWriter.write, ParquetBlockWriter._open

    def write_fixed(writer, sink, block):
        place = block.schema.get_field_index("v")
        field = block.schema.field(place).with_type(fixed)
        write_block(writer, sink, block.set_column(place, field, block.column(place).cast(fixed)))

    def begin_fixed(writer, sink, sample):
        writer._schema = sample.schema
        return begin(writer, sink, sample)

    with monkeypatch.context() as forging:
        forging.setattr(ParquetBlockWriter, "write", write_fixed)
        forging.setattr(ParquetBlockWriter, "_open", begin_fixed)
        store, summary, schema = packed(forging, pa.binary(), [LONG.encode()] * 1000, 300_000)
    with (
        little_memory(),
        pytest.raises(CorruptFileError, match=r"a block would unpack to \d{8,} bytes"),
    ):
        read_all(store, summary, schema)


def test_long_values_of_one_length_inside_lists_have_no_dictionary(monkeypatch, tmp_path):
    type_ = pa.list_(pa.binary(100))
    rows = [[b"x" * 100] * 5] * 20
    store, summary, schema = packed(monkeypatch, type_, rows, None)
    with pytest.raises(CorruptFileError, match="inside a list have a dictionary"):
        read_all(store, summary, schema)
    options = {"file.format": "parquet", "bucket": "1"}
    fields = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", type_)])
    table = lsmerge.create_table(tmp_path / "t", fields, "k", options=options)
    table.upsert(pa.table({"k": range(20), "v": pa.array(rows, type_)}, schema=fields))
    assert table.scan().to_arrow()["v"].to_pylist() == rows


def test_a_chunk_that_is_read_again_counts_again():
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"v": [1, 2, 3]}), sink, use_dictionary=False)
    file = sink.getvalue()
    chunk = pq.read_metadata(pa.BufferReader(file)).row_group(0).column(0)
    place = (chunk.data_page_offset, chunk.total_compressed_size)
    source = SimpleNamespace(read=file.slice)
    data = _BlockData(source, Allowance(1000, 6, frozenset()))
    data.keep(place[0], data.read(*place))
    assert data.read(*place).equals(data.read(*place)), "what is kept, and the second time"
    with pytest.raises(ValueError, match="would have 3 values, at most 0 fit"):
        data.read(*place)


@pytest.mark.parametrize("columns", [5, 8])
def test_offsets_of_texts_count(monkeypatch, columns):
    """Each column fits what a block may take, and all of them do not."""
    rows = 1000
    names = [f"v{number}" for number in range(columns)]
    more = [column(name, pa.string(), 2 + place) for place, name in enumerate(names)]
    schema = pa.schema([*SYSTEM, column("k", pa.int64(), 1, nullable=False), *more])
    numbers, kinds = pa.array(range(rows), pa.int64()), pa.array([0] * rows, pa.int8())
    texts = [pa.array([""] * rows)] * (columns - 1) + [pa.array(["x"] * rows)]
    batch = pa.RecordBatch.from_arrays([numbers, kinds, numbers, *texts], schema=schema)
    store = ByteStore()
    with monkeypatch.context() as forging:
        forging.setattr("lsmerge.storage.run_writer._decoded_bytes", lambda *_: 17 * rows)
        summary = write(store, [batch], PARQUET, schema=schema)
    with pytest.raises(CorruptFileError, match=r"unpacks to \d+ bytes.*, at most \d+ fit it"):
        read_all(store, summary, schema)


@pytest.mark.parametrize(
    ("type_", "element"),
    [(pa.int64(), 7), (pa.bool_(), True), (pa.string(), ""), (pa.int8(), 1)],
    ids=str,
)
def test_a_list_longer_than_its_block_is_not_decoded(monkeypatch, type_, element):
    values = [[element] * 2_000_000]
    store, summary, schema = packed(monkeypatch, pa.list_(type_), values, 20_000)
    with pytest.raises(CorruptFileError, match=r"a block would (have 2000000 values|unpack to)"):
        read_all(store, summary, schema)


@pytest.mark.parametrize("values", [[LONG, "y"] * 20 + [None], ["ab", "", None] * 50, [None] * 9])
@pytest.mark.parametrize("shape", ["text", "list", "nested"])
def test_dictionaries_of_any_shape_are_unfolded(monkeypatch, values, shape):
    shapes = {
        "text": (pa.string(), values),
        "list": (pa.list_(pa.string()), [values, [], None]),
        "nested": (TEXTS, [[(t or "", {"t": [t, t]})] for t in values]),
    }
    type_, column_values = shapes[shape]
    store, summary, schema = packed(monkeypatch, type_, column_values, None)
    found = read_all(store, summary, schema)["v"]
    assert found.type == type_
    assert found.to_pylist() == pa.array(column_values, type_).to_pylist()


def test_texts_are_counted_once_for_every_row():
    folded = pa.array(["aa", "b", None, "aa"]).dictionary_encode()
    assert unfolded_bytes(folded) == 5
    assert unfolded_bytes(folded.slice(1)) == 3
    assert unfolded_bytes(pa.array(["aa"])) == 0
    assert unfolded_bytes(pa.array([None], pa.string()).dictionary_encode()) == 0


def test_a_dictionary_that_the_footer_does_not_tell_of_is_refused():
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"v": ["a", "b", "a"]}), sink)
    data = sink.getvalue()
    told = pq.read_metadata(pa.BufferReader(data)).row_group(0).column(0)
    start = told.dictionary_page_offset
    chunk = data.slice(start, told.total_compressed_size)
    left = Allowance(1000, 4, frozenset({start + 1})).after(start, chunk)
    assert (left.bytes < 1000, left.values) == (True, 1)
    with pytest.raises(ValueError, match="a dictionary that the footer does not know of"):
        Allowance(1000, 4, frozenset({start})).after(start, chunk)
    with pytest.raises(ValueError, match="would have 3 values, at most 1 fit"):
        left.after(start, chunk)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (pa.list_(pa.int8()), list(range(-50, 50))),
        (pa.list_(pa.int16()), list(range(-50, 50))),
        (pa.map_(pa.int8(), pa.int8()), [(k, -k) for k in range(50)]),
        (pa.list_(pa.bool_()), [True, None, False] * 30),
    ],
    ids=["int8", "int16", "map", "bool"],
)
def test_lists_of_small_values_are_no_bombs(type_, value):
    """Parquet stores them in several times the bytes."""
    schema = pa.schema([*SYSTEM, column("k", pa.int64(), 1, nullable=False), column("v", type_, 2)])
    rows = 5000
    numbers, kinds = pa.array(range(rows), pa.int64()), pa.array([0] * rows, pa.int8())
    values = pa.array([value] * rows, type_)
    batch = pa.RecordBatch.from_arrays([numbers, kinds, numbers, values], schema=schema)
    store = ByteStore()
    summary = write(store, [batch], PARQUET, schema=schema)
    assert read_all(store, summary, schema).column("v").to_pylist() == values.to_pylist()
