"""Sizes of pages as their headers tell them, compared with what pyarrow's footer says; and bytes that are no pages."""

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsmerge_native.pages import chunk_sizes

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
        found, values, has_dictionary = chunk_sizes(chunk)
        assert 0 < found < column.total_uncompressed_size
        assert values == column.num_values
        assert has_dictionary == column.has_dictionary_page
        if compression == "none":
            pages = found
            assert pages < chunk.size, "the headers are there too"


def test_nothing_is_no_page():
    assert chunk_sizes(b"") == (0, 0, False)


@pytest.mark.parametrize(
    "fields",
    [
        [0x2C, 0x15, 0x0E, 0x00, 0x3C, 0x15, 0x00, 0x00],  # of a data page, and of one of version 2
        [0x2C, 0x15, 0x0E, 0x00, 0x0C, 0x0A, 0x15, 0x00, 0x00],  # of a data page, twice
        [0x4C, 0x15, 0x0E, 0x00],  # a dictionary of seven values in no bytes
    ],
)
def test_headers_that_readers_may_take_for_more_than_they_tell_are_refused(fields):
    with pytest.raises(ValueError, match="does not consist of pages"):
        chunk_sizes(page([*EMPTY, *fields]))


def test_a_size_below_zero_is_refused():
    header = bytes([0x15, 0x00, 0x15, 0x01, 0x15, 0x00, 0x00])
    with pytest.raises(ValueError, match="does not consist of pages"):
        chunk_sizes(header)


def page(head, data=b""):
    """A page: its header without the end of the struct, and its bytes."""
    return bytes([*head, 0x00]) + data


EMPTY = (0x15, 0x00, 0x15, 0x00, 0x15, 0x00)  # type = 0, unpacked = 0, packed = 0


@pytest.mark.parametrize("field", [5, 8])
def test_values_are_counted_in_either_kind_of_header(field):
    header = [*EMPTY, (field - 3) << 4 | 0x0C, 0x15, 0x0E, 0x15, 0x00, 0x00]
    assert chunk_sizes(page(header) * 3) == (0, 21, False)


def test_numbers_of_values_below_zero_or_beyond_32_bits_are_refused():
    for number in ([0x01], [0x80, 0x80, 0x80, 0x80, 0x10]):
        with pytest.raises(ValueError, match="does not consist of pages"):
            chunk_sizes(page([*EMPTY, 0x2C, 0x15, *number, 0x00]))


def test_a_field_whose_number_wraps_around_is_the_one_that_other_readers_take_it_for():
    # Field 65541 is field 5 in 16 bits: its zigzag is 131082.
    header = [*EMPTY, 0x0C, 0x8A, 0x80, 0x08, 0x15, 0x0E, 0x00]
    assert chunk_sizes(page(header)) == (0, 7, False)


def test_a_page_is_a_dictionary_by_its_type():
    assert chunk_sizes(page([0x15, 0x04, 0x15, 0x00, 0x15, 0x00])) == (0, 0, True)


def test_sizes_add_up():
    # type = 0, unpacked = 2**30, packed = 3, then the end of the struct and three bytes.
    large = page([0x15, 0x00, 0x15, 0x80, 0x80, 0x80, 0x80, 0x08, 0x15, 0x06], b"abc")
    assert chunk_sizes(large)[0] == 2**30
    assert chunk_sizes(large * 3)[0] == 3 * 2**30
    with pytest.raises(ValueError, match="does not consist of pages"):
        chunk_sizes(large[:-1])


@given(st.binary(max_size=200))
def test_any_bytes_give_a_number_or_a_refusal(data):
    try:
        assert min(chunk_sizes(data)) >= 0
    except ValueError:
        return


def test_changed_pages_give_a_number_or_a_refusal():
    draw = random.Random(5)
    for chunk, _ in chunks():
        for _ in range(300):
            data = bytearray(chunk)[:200]
            data[draw.randrange(len(data))] = draw.randrange(256)
            try:
                chunk_sizes(data)
            except ValueError:
                continue
