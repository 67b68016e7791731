"""From what a filter says of the key columns to ranges of encoded keys."""

from collections.abc import Sequence

import pyarrow as pa

from lsmerge.engine.sections import NOTHING, KeyRange
from lsmerge.predicate import Predicate
from lsmerge.schema import TableSchema
from lsmerge_native.keys import encode_keys

Values = tuple[pa.Scalar, ...]


def key_range(schema: TableSchema, predicate: Predicate) -> KeyRange:
    """A range, or several, that hold every key satisfying `predicate`; they may hold others.

    Columns pinned to one value extend the prefix; the first column with an open range ends it.
    """
    boxes = predicate.key_boxes(schema.trimmed_key)
    if not boxes:
        return NOTHING
    lows = _prefixes(schema, [_limits([b.low for b in box]) for box in boxes])
    highs = _prefixes(schema, [_limits([b.high for b in box]) for box in boxes])
    ranges = [KeyRange(low, _successor(high)) for low, high in zip(lows, highs, strict=True)]
    return _joined(sorted(ranges, key=lambda r: (r.low is not None, r.low or b"")))


def _limits(limits: Sequence[pa.Scalar | None]) -> Values:
    """The leading values; the last column may have none on this side."""
    return tuple(limit for limit in limits if limit is not None)


def _joined(ranges: Sequence[KeyRange]) -> KeyRange:
    """Ranges in ascending order as one, whose parts lie apart."""
    parts: list[KeyRange] = []
    for one in ranges:
        last = parts[-1] if parts else None
        if last is not None and (last.high is None or (one.low or b"") <= last.high):
            is_open = last.high is None or one.high is None
            high = None if is_open else max(last.high or b"", one.high or b"")
            parts[-1] = KeyRange(last.low, high)
        else:
            parts.append(one)
    if len(parts) == 1:
        return parts[0]
    return KeyRange(parts[0].low, parts[-1].high, tuple(parts))


def _prefixes(schema: TableSchema, values: Sequence[Values]) -> list[bytes | None]:
    """The common beginning of all keys whose leading columns have these values; those of one length at once."""
    found: list[bytes | None] = [None] * len(values)
    for length in {len(given) for given in values} - {0}:
        places = [place for place, given in enumerate(values) if len(given) == length]
        encoded = _encoded(schema, [values[place] for place in places], length)
        for place, prefix in zip(places, encoded, strict=True):
            found[place] = prefix
    return found


def _encoded(schema: TableSchema, rows: Sequence[Values], length: int) -> list[bytes]:
    fields = [schema.row_schema.field(name) for name in schema.trimmed_key[:length]]
    arrays = [
        pa.array([row[position] for row in rows], field.type)
        for position, field in enumerate(fields)
    ]
    if length == len(schema.trimmed_key):
        whole = encode_keys(arrays)
        return [whole.bytes_at(number) for number in range(len(rows))]
    # A further column makes the last one end as it does in the middle of a key; its one byte is cut off.
    longer = encode_keys([*arrays, pa.array([False] * len(rows))])
    return [longer.bytes_at(number)[:-1] for number in range(len(rows))]


def _successor(prefix: bytes | None) -> bytes | None:
    """The smallest byte string above all that begin with `prefix`; None if there is none."""
    if prefix is None:
        return None
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None
