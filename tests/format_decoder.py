"""An independent reader of run files, written from docs/format.md alone: pyarrow and the standard
library, nothing of lsmerge. It shows that the format is described well enough, and it is slow.
"""

import functools
import io
import struct
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq

HEADER = struct.Struct("<4sHBBQQQQQqqIIIIII")
NAMES = [
    "magic",
    "version",
    "format",
    "flags",
    "index_length",
    "head_length",
    "filter_length",
    "num_rows",
    "num_retracts",
    "sequence_min",
    "sequence_max",
    "stripe_bytes",
    "num_stripes",
    "num_blocks",
    "key_bytes",
    "schema_length",
    "stats_length",
]


def _crc_table():
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        yield crc


CRC_TABLE = list(_crc_table())


@functools.lru_cache(maxsize=1024)
def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def decode_run(name, data, index_offset, tail_crc):
    """Check every byte of a run file; return its index (a dict) and its rows (a table)."""
    check(name, index_offset, data[index_offset:], tail_crc)
    index = decode_index(data[index_offset:])
    check_stripes(name, data, index)
    if index["format"] == 1:
        rows = pa.ipc.open_file(pa.BufferReader(data)).read_all()
    else:
        rows = pq.read_table(io.BytesIO(data), page_checksum_verification=True)
    assert rows.num_rows == index["num_rows"] == sum(index["rows"])
    return index, rows


def decode_index(tail):
    index = dict(zip(NAMES, HEADER.unpack_from(tail), strict=True))
    assert index["magic"] == b"LSMX"
    assert index["version"] == 1
    assert index["flags"] in (0, 1)
    blocks = index["num_blocks"]
    sizes = {
        "checksums": 4 * index["num_stripes"],
        "lengths": 8 * blocks,
        "decoded": 8 * blocks,
        "rows": 4 * blocks,
        "key_ends": 8 * blocks,
        "keys": index["key_bytes"],
        "schema": index["schema_length"],
        "stats": index["stats_length"],
    }
    offset = HEADER.size
    for part, size in sizes.items():
        index[part] = tail[offset : offset + size]
        offset += -(-size // 8) * 8
    assert offset == index["index_length"]
    for part, code in (("lengths", "Q"), ("decoded", "Q"), ("rows", "I"), ("key_ends", "I")):
        index[part] = memoryview(index[part]).cast(code).tolist()
    index["checksums"] = memoryview(index["checksums"]).cast("I").tolist()
    ends = [0, *index["key_ends"]]
    keys = [index["keys"][a:b] for a, b in pairwise(ends)]
    index["first_keys"], index["last_keys"] = keys[::2], keys[1::2]
    index["schema"] = pa.ipc.read_schema(pa.py_buffer(index["schema"]))
    index["stats"] = decode_stats(index["schema"], index["stats"])
    return index


def decode_stats(schema, message):
    """{column name: [(min, max, null count) of each block]}"""
    measured = [field for field in schema if not pa.types.is_nested(field.type)]
    fields = [
        pa.field(f"{side}-{field.name}", type_)
        for field in measured
        for side, type_ in (("min", field.type), ("max", field.type), ("nulls", pa.int64()))
    ]
    batch = pa.ipc.read_record_batch(pa.py_buffer(message), pa.schema(fields))
    columns = [column.to_pylist() for column in batch.columns]
    triples = zip(columns[::3], columns[1::3], columns[2::3], strict=True)
    return {
        field.name: list(zip(*triple, strict=True))
        for field, triple in zip(measured, triples, strict=True)
    }


def check_stripes(name, data, index):
    checksums = iter(index["checksums"])
    start = 0
    for length in (index["head_length"], *index["lengths"], index["filter_length"]):
        for offset in range(start, start + length, index["stripe_bytes"]):
            stop = min(offset + index["stripe_bytes"], start + length)
            check(name, offset, data[offset:stop], next(checksums))
        start += length
    assert next(checksums, None) is None


def check(name, offset, stripe, expected):
    if crc32c(name.encode() + offset.to_bytes(8, "little") + stripe) != expected:
        raise ValueError(f"{name}: damage at or after byte {offset}")
