"""From what a filter says of the key columns to a range of encoded keys."""

from typing import Any

import pyarrow as pa

from lsmerge.engine.sections import KeyRange
from lsmerge.predicate import Predicate
from lsmerge.schema import TableSchema
from lsmerge_native.keys import encode_keys


def key_range(schema: TableSchema, predicate: Predicate) -> KeyRange:
    """A range that holds every key satisfying `predicate`; it may hold others.

    Columns pinned to one value extend the prefix; the first column with an open range ends it.
    """
    low: list[Any] = []
    high: list[Any] = []
    for bounds in predicate.key_range(schema.trimmed_key):
        if bounds.low is not None and len(low) == len(high):
            low.append(bounds.low)
        if bounds.high is not None:
            high.append(bounds.high)
        if bounds.low is None or bounds.low != bounds.high:
            break
    return KeyRange(_prefix(schema, low), _successor(_prefix(schema, high)))


def _prefix(schema: TableSchema, values: list[Any]) -> bytes | None:
    """The common beginning of all keys whose leading columns have these values."""
    if not values:
        return None
    fields = [schema.row_schema.field(name) for name in schema.trimmed_key[: len(values)]]
    arrays = [pa.array([value], field.type) for value, field in zip(values, fields, strict=True)]
    if len(values) == len(schema.trimmed_key):
        return encode_keys(arrays).bytes_at(0)
    # A further column makes the last one end as it does in the middle of a key; its one byte is cut off.
    return encode_keys([*arrays, pa.array([False])]).bytes_at(0)[:-1]


def _successor(prefix: bytes | None) -> bytes | None:
    """The smallest byte string above all that begin with `prefix`; None if there is none."""
    if prefix is None:
        return None
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None
