"""Rows as key and value bytes, for stores that know no columns. Never timed."""

import struct
from collections.abc import Iterable

import pyarrow as pa

_HEAD = struct.Struct("<qdHH")
_KEY = struct.Struct(">Q")
# Flipping the sign bit makes unsigned byte order the order of signed integers.
_SIGN = 1 << 63


def pack_key(key: int) -> bytes:
    return _KEY.pack((key + _SIGN) & ((1 << 64) - 1))


def pack_rows(rows: pa.Table) -> list[tuple[bytes, bytes]]:
    """Rows of the workload's schema as pairs, in input order."""
    columns = [column.to_pylist() for column in rows.columns]
    return [(pack_key(row[0]), _pack_value(*row[1:])) for row in zip(*columns, strict=True)]


def unpack_rows(pairs: Iterable[tuple[bytes, bytes]], schema: pa.Schema) -> pa.Table:
    """What `pack_rows` packed."""
    rows = [(_KEY.unpack(key)[0] - _SIGN, *unpack_value(value)) for key, value in pairs]
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=schema)


def _pack_value(amount: int, price: float, name: str, note: str) -> bytes:
    name_bytes, note_bytes = name.encode(), note.encode()
    return _HEAD.pack(amount, price, len(name_bytes), len(note_bytes)) + name_bytes + note_bytes


def unpack_value(value: bytes) -> tuple[int, float, str, str]:
    """The columns after the key."""
    amount, price, name_bytes, note_bytes = _HEAD.unpack_from(value)
    name_end = _HEAD.size + name_bytes
    name, note = value[_HEAD.size : name_end], value[name_end : name_end + note_bytes]
    return amount, price, name.decode(), note.decode()
