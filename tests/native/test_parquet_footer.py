"""Row groups and column chunks as a footer tells of them, compared with what pyarrow says; and bytes that are none."""

import random
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lsmerge.storage.block_index import Block
from lsmerge.storage.parquet_footer import Chunk, Footer
from lsmerge_native.parquet_footer import read_footer
from tests.native.test_column_chunk import varint, zigzag

ROWS = 500
TABLE = pa.table(
    {
        "number": pa.array(range(ROWS), pa.int64()),
        "text": [f"value {row % 7}" for row in range(ROWS)],
        "list": [[row] * (row % 3) for row in range(ROWS)],
        "truth": [row % 2 == 0 for row in range(ROWS)],
    }
)
CODECS = {"none": 0, "snappy": 1, "gzip": 2, "zstd": 6}


def file_of(**options):
    sink = pa.BufferOutputStream()
    pq.write_table(TABLE, sink, **options)
    return sink.getvalue()


def footer_of(file):
    length = int.from_bytes(file.to_pybytes()[-8:-4], "little")
    return file.slice(file.size - 8 - length, length)


def as_lists(buffer, each):
    numbers = memoryview(buffer).cast("q").tolist()
    return [numbers[i : i + each] for i in range(0, len(numbers), each)]


@pytest.mark.parametrize("compression", CODECS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"row_group_size": 7},
        {"use_dictionary": False, "write_statistics": False},
        {"write_page_index": True, "store_schema": False, "write_page_checksum": True},
        {"sorting_columns": [pq.SortingColumn(0)], "version": "1.0", "data_page_version": "2.0"},
    ],
    ids=str,
)
def test_a_footer_is_read_as_pyarrow_reads_it(compression, options):
    file = file_of(compression=compression, **options)
    told = pq.read_metadata(pa.BufferReader(file))
    groups, chunks = read_footer(footer_of(file))
    expected_groups, expected_chunks = [], []
    for number in range(told.num_row_groups):
        group = told.row_group(number)
        expected_groups.append([group.num_rows, group.total_byte_size, group.num_columns])
        for leaf in range(group.num_columns):
            chunk = group.column(leaf)
            dictionary = chunk.dictionary_page_offset if chunk.has_dictionary_page else -1
            packed, codec = chunk.total_compressed_size, CODECS[compression]
            expected_chunks.append([codec, packed, chunk.data_page_offset, dictionary])
    assert as_lists(groups, 3) == expected_groups
    assert as_lists(chunks, 4) == expected_chunks


def number(field, value, kind=5):
    return bytes([kind]) + zigzag(field) + zigzag(value)


def group_of(*chunks, rows=1):
    columns = b"\x19" + bytes([len(chunks) << 4 | 12]) + b"".join(chunks)
    return columns + number(2, 8, 6) + number(3, rows, 6) + b"\0"


def chunk_of(*, codec=6, data=4, size=9, dictionary=None):
    told = number(4, codec) + number(7, size, 6) + number(9, data, 6)
    if dictionary is not None:
        told += number(11, dictionary, 6)
    return b"\x3c" + told + b"\0\0"


def footer_with(*groups):
    return b"\x49" + bytes([len(groups) << 4 | 12]) + b"".join(groups) + b"\0"


def test_fields_come_in_any_order_and_others_are_passed_over():
    truths = b"\x19\x21\1\2"  # a list of two
    texts = b"\x19\x28" + varint(1) + b"a" + varint(0)
    nested = b"\x1c" + b"\x19\x1c" + b"\x11\0" + b"\0"
    for other in (truths, texts, nested, b"\x17" + bytes(8), b"\x13\1", b"\x11", b"\x12"):
        footer = other + b"\x39\x1c" + group_of(chunk_of(codec=22)) + b"\0"
        groups, chunks = read_footer(footer)
        assert (as_lists(groups, 3), as_lists(chunks, 4)) == ([[1, 8, 1]], [[22, 9, 4, -1]])


def test_a_footer_without_groups():
    assert [len(found) for found in read_footer(b"\0")] == [0, 0]


@pytest.mark.parametrize(
    "footer",
    [
        b"",
        footer_with(group_of(chunk_of()))[:-1],
        footer_with(group_of(b"\x3c\0\0")),
        footer_with(group_of(chunk_of(size=-1))),
        footer_with(group_of(chunk_of(data=-1))),
        footer_with(group_of(chunk_of(codec=-1))),
        footer_with(group_of(chunk_of())[:-1] + b"\x09\x02\x1c" + chunk_of() + b"\0"),
        b"\x49\x15\x02\0",  # groups that are numbers
        b"\x49\xfc\xff\xff\xff\x0f",  # more groups than bytes
        footer_with(group_of(chunk_of()))[:-1] + number(4, 0, 9) + b"\0",
        b"\x19" * 40,  # lists within lists
        b"\x1b\0\0",  # a map
    ],
)
def test_bytes_that_are_no_footer_are_refused(footer):
    with pytest.raises(ValueError, match="the footer of a Parquet file cannot be read"):
        read_footer(footer)


def test_changed_footers_are_numbers_or_an_error():
    footer, draw = footer_of(file_of(row_group_size=100)).to_pybytes(), random.Random(5)
    for _ in range(3000):
        data = bytearray(footer)
        for _ in range(draw.randint(1, 3)):
            data[draw.randrange(len(data))] = draw.getrandbits(8)
        try:
            groups, chunks = read_footer(data)
        except ValueError:
            continue
        assert len(chunks) <= 8 * len(data)
        assert sum(count for *_, count in as_lists(groups, 3)) == len(chunks) // 32


def of_blocks(file, rows):
    blocks = [Block(100, 1 << 20, count, b"", b"") for count in rows]
    return Footer(file, blocks)


def test_a_codec_that_nobody_has_is_told_and_not_asked_for():
    """pyarrow ends the process of who asks it for the name of one."""
    file = file_of(compression="zstd")
    assert of_blocks(file, [ROWS]).chunk(0, 0).codec == 6
    footer = footer_of(file).to_pybytes()
    # The codec comes after the path, as the next field: one byte for field and type, one for 6.
    at = footer.index(b"number\x15\x0c") + len("number") + 1
    assert footer[at] == 12
    changed = footer[:at] + b"\x2c" + footer[at + 1 :]
    forged = file.to_pybytes()[: -8 - len(footer)] + changed + file.to_pybytes()[-8:]
    assert of_blocks(pa.py_buffer(forged), [ROWS]).chunk(0, 0).codec == 22


def test_other_groups_than_the_blocks_are_refused():
    file = file_of(row_group_size=400)
    assert of_blocks(file, [400, 100]).chunk(1, 0).has_dictionary
    with pytest.raises(ValueError, match="other row groups than the block index"):
        of_blocks(file, [ROWS])


@pytest.mark.parametrize(
    ("group", "reason"),
    [((ROWS, 100, 3), "other columns than the schema"), ((ROWS, 1 << 40, 4), "would unpack to")],
)
def test_groups_that_do_not_fit_the_schema_or_the_block_are_refused(monkeypatch, group, reason):
    file = file_of()
    chunks = read_footer(footer_of(file))[1]
    forged = (struct.pack("<3q", *group), chunks)
    monkeypatch.setattr("lsmerge.storage.parquet_footer.read_footer", lambda _: forged)
    with pytest.raises(ValueError, match=reason):
        of_blocks(file, [ROWS])


@pytest.mark.parametrize(("dictionary", "begins"), [(-1, 40), (0, 40), (-9, 40), (40, 40), (4, 4)])
def test_a_dictionary_is_one_that_lies_before_the_data(dictionary, begins):
    chunk = Chunk(codec=6, length=9, data_offset=40, dictionary_offset=dictionary)
    assert (chunk.offset, chunk.has_dictionary) == (begins, begins == 4)
