"""The cast policy: which Arrow data each kind of column takes, and how it is converted.

The table `_SOURCES` is the policy. A column takes what it can hold without loss of value or
meaning. Widths, units and scales may differ while every value fits exactly. Meaning may not: no
text to number, no float to decimal, no zone-less time to instant.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from lsmerge.types import BYTES_KINDS, INTEGER_KINDS, TEXT_KINDS, LogicalType

Convert = Callable[[pa.Array, pa.DataType], pa.Array]


def _safe(array: pa.Array, target: pa.DataType) -> pa.Array:
    import pyarrow.compute as pc

    return pc.cast(array, target, safe=True)


def _exact_float(array: pa.Array, target: pa.DataType) -> pa.Array:
    import pyarrow.compute as pc

    narrow = pc.cast(array, target, safe=False)
    same = pc.or_(pc.equal(pc.cast(narrow, array.type), array), pc.is_nan(array))
    if pc.all(same, min_count=0).as_py():
        return narrow
    raise pa.ArrowInvalid("not exactly representable")


def _through_decimal(array: pa.Array, target: pa.DataType) -> pa.Array:
    return _safe(_safe(array, pa.decimal128(20, 0)), target)


def _is_text(arrow: pa.DataType) -> bool:
    return arrow in (pa.string(), pa.large_string(), pa.string_view())


def _is_bytes(arrow: pa.DataType) -> bool:
    variable = arrow in (pa.binary(), pa.large_binary(), pa.binary_view())
    return variable or pa.types.is_fixed_size_binary(arrow)


def _is_local_time(arrow: pa.DataType) -> bool:
    return pa.types.is_timestamp(arrow) and arrow.tz is None


def is_instant(arrow: pa.DataType) -> bool:
    """Whether the type is a timestamp with a time zone."""
    return pa.types.is_timestamp(arrow) and arrow.tz is not None


@dataclass(frozen=True)
class _Sources:
    """What one kind of column takes: words for messages, and how each family is converted."""

    accepted: str
    conversions: tuple[tuple[Callable[[pa.DataType], bool], Convert], ...]


_INTEGERS = (pa.types.is_integer, _safe)
_SOURCES: dict[str, _Sources] = {
    "BOOLEAN": _Sources("booleans", ((pa.types.is_boolean, _safe),)),
    **dict.fromkeys(INTEGER_KINDS, _Sources("integers in range", (_INTEGERS,))),
    "FLOAT": _Sources(
        "floats and integers that 32 bits hold exactly",
        (_INTEGERS, (pa.types.is_float64, _exact_float), (pa.types.is_floating, _safe)),
    ),
    "DOUBLE": _Sources(
        "floats, and integers that 64-bit floats hold exactly",
        (_INTEGERS, (pa.types.is_floating, _safe)),
    ),
    "DECIMAL": _Sources(
        "decimals and integers that fit precision and scale exactly",
        ((pa.types.is_integer, _through_decimal), (pa.types.is_decimal, _safe)),
    ),
    **dict.fromkeys(TEXT_KINDS, _Sources("text", ((_is_text, _safe),))),
    **dict.fromkeys(BYTES_KINDS, _Sources("binary of the declared length", ((_is_bytes, _safe),))),
    "DATE": _Sources("dates", ((pa.types.is_date, _safe),)),
    "TIME": _Sources("times the precision can hold", ((pa.types.is_time, _safe),)),
    "TIMESTAMP": _Sources(
        "timestamps without time zone, within range and precision", ((_is_local_time, _safe),)
    ),
    "TIMESTAMP_LTZ": _Sources(
        "timestamps with a time zone, within range and precision", ((is_instant, _safe),)
    ),
}


def conversion(source: pa.DataType, logical: LogicalType) -> Convert | None:
    """How data of an Arrow type becomes a scalar type; None if it is not accepted."""
    for is_source, convert in _SOURCES[logical.kind].conversions:
        if is_source(source):
            return convert
    return None


def accepted_for(logical: LogicalType) -> str:
    """What a column takes, in words."""
    if logical.kind == "ARRAY":
        return "lists"
    if logical.kind == "MAP":
        return "maps"
    return "structs" if logical.kind == "ROW" else _SOURCES[logical.kind].accepted
