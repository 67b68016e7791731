"""Encoded keys back to values, for whoever looks at a tree: the inverse of what `lsmerge_native.keys` encodes.

Zeros of floating point come back as 0.0 and every NaN as one, since they are one key.
"""

from collections.abc import Sequence

import pyarrow as pa

DECIMAL_BYTES = 16
SHORT_DECIMAL_BYTES = 8
SHORT_DECIMAL_DIGITS = 18


def key_columns(keys: Sequence[bytes], types: Sequence[pa.DataType]) -> list[pa.Array]:
    """The key columns of encoded keys, first column most significant."""
    arrays, rest = [], list(keys)
    for position, arrow in enumerate(types):
        is_last = position == len(types) - 1
        parts = [_cut(key, arrow, is_last=is_last) for key in rest]
        arrays.append(_array([value for value, _ in parts], arrow))
        rest = [remaining for _, remaining in parts]
    return arrays


def _cut(key: bytes, arrow: pa.DataType, *, is_last: bool) -> tuple[bytes, bytes]:
    """The bytes of the first column, and what follows them."""
    if not _is_variable(arrow):
        width = _encoded_width(arrow)
        return key[:width], key[width:]
    if is_last:
        return key, b""
    end = _terminator(key)
    return key[:end].replace(b"\x00\xff", b"\x00"), key[end + 2 :]


def _terminator(key: bytes) -> int:
    """Where the 00 00 is that ends a variable column; a 00 of its value is followed by FF."""
    end = key.index(b"\x00")
    while key[end + 1] == 0xFF:
        end = key.index(b"\x00", end + 2)
    return end


def _array(values: Sequence[bytes], arrow: pa.DataType) -> pa.Array:
    if _is_variable(arrow):
        return pa.array(values, pa.binary()).cast(arrow)
    if pa.types.is_boolean(arrow):
        return pa.array([value != b"\x00" for value in values])
    stored = b"".join(_stored(value, arrow) for value in values)
    return pa.Array.from_buffers(arrow, len(values), [None, pa.py_buffer(stored)])


def _stored(value: bytes, arrow: pa.DataType) -> bytes:
    """One value of fixed width as Arrow stores it, little-endian."""
    if pa.types.is_fixed_size_binary(arrow):
        return value
    if pa.types.is_floating(arrow) and not value[0] & 0x80:
        return bytes(byte ^ 0xFF for byte in value)[::-1]
    flipped = bytes([value[0] ^ 0x80]) + value[1:]
    if not pa.types.is_decimal(arrow):
        return flipped[::-1]
    number = int.from_bytes(flipped, "big", signed=True)
    return number.to_bytes(DECIMAL_BYTES, "little", signed=True)


def _encoded_width(arrow: pa.DataType) -> int:
    if pa.types.is_boolean(arrow):
        return 1
    if pa.types.is_decimal(arrow):
        is_short = arrow.precision <= SHORT_DECIMAL_DIGITS
        return SHORT_DECIMAL_BYTES if is_short else DECIMAL_BYTES
    width: int = arrow.bit_width // 8
    return width


def _is_variable(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow) or pa.types.is_binary(arrow))
