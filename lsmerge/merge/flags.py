"""Flags: a byte per row or group of a plan, 0 or 1, as the kernels of lsmerge_native.regroup take and give them."""

from typing import TypeAlias

import pyarrow as pa

from lsmerge_native.buffers import NativeBuffer

Flags: TypeAlias = NativeBuffer | pa.Buffer | bytes


def as_flags(booleans: pa.Array) -> pa.Buffer:
    """A byte per boolean. Requires: no nulls."""
    return booleans.cast(pa.uint8()).buffers()[1] if len(booleans) else pa.py_buffer(b"")


def as_booleans(flags: Flags) -> pa.BooleanArray:
    """The inverse of `as_flags`."""
    return as_bytes(flags).cast(pa.bool_())


def as_bytes(flags: Flags) -> pa.UInt8Array:
    """The flags as an array, without a copy."""
    buffer = pa.py_buffer(flags)
    return pa.Array.from_buffers(pa.uint8(), buffer.size, [None, buffer])
