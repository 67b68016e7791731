"""Sizes of pages as their headers tell them, compared with what pyarrow's footer says; and bytes that are no pages."""

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsmerge_native.pages import unpacked_bytes

ROWS = 5000
TABLE = pa.table(
    {
        "number": pa.array(range(ROWS), pa.int64()),
        "text": [f"value {row % 7}" for row in range(ROWS)],
        "empty": pa.nulls(ROWS, pa.float64()),
        "list": [[row] * (row % 3) for row in range(ROWS)],
    }
)


def chunks(**options):
    """(the bytes of a column chunk, what the footer says of it) of every column."""
    sink = pa.BufferOutputStream()
    pq.write_table(TABLE, sink, **options)
    data = sink.getvalue()
    group = pq.read_metadata(pa.BufferReader(data)).row_group(0)
    for number in range(group.num_columns):
        column = group.column(number)
        start = column.data_page_offset
        if column.has_dictionary_page:
            start = min(start, column.dictionary_page_offset)
        yield data.slice(start, column.total_compressed_size), column


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("page_bytes", [1 << 20, 512])
def test_sizes_are_those_of_the_footer_but_for_headers(version, compression, page_bytes):
    options = {"data_page_version": version, "compression": compression}
    for chunk, column in chunks(data_page_size=page_bytes, write_batch_size=64, **options):
        found = unpacked_bytes(chunk)
        assert 0 < found < column.total_uncompressed_size
        if compression == "none":
            pages = found
            assert pages < chunk.size, "the headers are there too"


def test_nothing_is_no_page():
    assert unpacked_bytes(b"") == 0


def test_a_size_below_zero_is_refused():
    header = bytes([0x15, 0x00, 0x15, 0x01, 0x15, 0x00, 0x00])
    with pytest.raises(ValueError, match="does not consist of pages"):
        unpacked_bytes(header)


def test_sizes_add_up():
    # type = 0, unpacked = 2**30, packed = 3, then the end of the struct and three bytes.
    page = bytes([0x15, 0x00, 0x15, 0x80, 0x80, 0x80, 0x80, 0x08, 0x15, 0x06, 0x00]) + b"abc"
    assert unpacked_bytes(page) == 2**30
    assert unpacked_bytes(page * 3) == 3 * 2**30
    with pytest.raises(ValueError, match="does not consist of pages"):
        unpacked_bytes(page[:-1])


@given(st.binary(max_size=200))
def test_any_bytes_give_a_number_or_a_refusal(data):
    try:
        assert unpacked_bytes(data) >= 0
    except ValueError:
        return


def test_changed_pages_give_a_number_or_a_refusal():
    draw = random.Random(5)
    for chunk, _ in chunks():
        for _ in range(300):
            data = bytearray(chunk)[:200]
            data[draw.randrange(len(data))] = draw.randrange(256)
            try:
                unpacked_bytes(data)
            except ValueError:
                continue
