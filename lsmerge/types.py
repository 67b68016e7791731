"""Logical column types and the one Arrow type each is stored as, its *normal form*.

Several logical types may share an Arrow type (`CHAR(3)`, `VARCHAR(9)` and `STRING` are all Arrow
strings), so the name, not the Arrow type, is what a schema file stores.

Invariants: `to_arrow` is total; `from_arrow` accepts every encoding of a normal-form type (large,
view, dictionary, run-end) and refuses by name what has no logical type.
"""

import pyarrow as pa

from lsmerge.errors import SchemaMismatchError
from lsmerge.logical_type import (
    BYTES_KINDS,
    FLOAT_KINDS,
    INTEGER_KINDS,
    NESTED_KINDS,
    TEXT_KINDS,
    TIMESTAMP_KINDS,
    LogicalType,
    TypeField,
    checked,
    is_key_type,
)
from lsmerge.type_parser import parse

__all__ = [
    "BYTES_KINDS",
    "FLOAT_KINDS",
    "INTEGER_KINDS",
    "NESTED_KINDS",
    "TEXT_KINDS",
    "TIMESTAMP_KINDS",
    "UNIT_DIGITS",
    "LogicalType",
    "TypeField",
    "from_arrow",
    "is_key_type",
    "is_list_like",
    "parse",
    "to_arrow",
    "unit_of",
]

_PLAIN_ARROW: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "CHAR": pa.string(),
    "VARCHAR": pa.string(),
    "STRING": pa.string(),
    "VARBINARY": pa.binary(),
    "BYTES": pa.binary(),
    "DATE": pa.date32(),
}
UNIT_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def unit_of(logical: LogicalType) -> str:
    """The Arrow unit that holds the fractional digits of a time or timestamp."""
    return next(unit for unit, digits in UNIT_DIGITS.items() if logical.params[0] <= digits)


def to_arrow(logical: LogicalType) -> pa.DataType:
    """The normal-form Arrow type."""
    if logical.kind in _PLAIN_ARROW:
        return _PLAIN_ARROW[logical.kind]
    if logical.kind == "DECIMAL":
        return pa.decimal128(*logical.params)
    if logical.kind == "BINARY":
        return pa.binary(logical.params[0])
    if logical.kind == "TIME":
        unit = unit_of(logical)
        return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    if logical.kind in TIMESTAMP_KINDS:
        return pa.timestamp(unit_of(logical), "UTC" if logical.kind == "TIMESTAMP_LTZ" else None)
    return _nested_to_arrow(logical)


def _nested_to_arrow(logical: LogicalType) -> pa.DataType:
    fields = [pa.field(c.name, to_arrow(c.type), c.nullable) for c in logical.children]
    if logical.kind == "ARRAY":
        return pa.list_(fields[0])
    if logical.kind == "MAP":
        return pa.map_(fields[0], fields[1])
    return pa.struct(fields)


_PLAIN_LOGICAL: dict[pa.DataType, LogicalType] = {
    pa.bool_(): LogicalType("BOOLEAN"),
    pa.int8(): LogicalType("TINYINT"),
    pa.int16(): LogicalType("SMALLINT"),
    pa.int32(): LogicalType("INT"),
    pa.int64(): LogicalType("BIGINT"),
    pa.float32(): LogicalType("FLOAT"),
    pa.float64(): LogicalType("DOUBLE"),
    pa.string(): LogicalType("STRING"),
    pa.large_string(): LogicalType("STRING"),
    pa.string_view(): LogicalType("STRING"),
    pa.binary(): LogicalType("BYTES"),
    pa.large_binary(): LogicalType("BYTES"),
    pa.binary_view(): LogicalType("BYTES"),
    pa.date32(): LogicalType("DATE"),
    pa.date64(): LogicalType("DATE"),
}
_TABLE_TYPES = (
    "bool, int8 to int64, float32, float64, decimal128, string, binary, date32, time, timestamp, "
    "list, map or struct"
)
_SUGGESTED: dict[pa.DataType, str] = {
    pa.uint8(): "int16",
    pa.uint16(): "int32",
    pa.uint32(): "int64",
    pa.uint64(): "decimal128(20, 0), or int64 if the values fit",
    pa.float16(): "float32",
    pa.null(): "the type that later values will have",
}


def from_arrow(arrow: pa.DataType) -> LogicalType:
    """The logical type of an Arrow type, whatever its encoding."""
    if arrow in _PLAIN_LOGICAL:
        return _PLAIN_LOGICAL[arrow]
    if pa.types.is_dictionary(arrow) or pa.types.is_run_end_encoded(arrow):
        return from_arrow(arrow.value_type)
    if pa.types.is_decimal(arrow):
        return checked(LogicalType("DECIMAL", (arrow.precision, arrow.scale)), str(arrow))
    if pa.types.is_fixed_size_binary(arrow):
        return checked(LogicalType("BINARY", (arrow.byte_width,)), str(arrow))
    if pa.types.is_time(arrow):
        return LogicalType("TIME", (UNIT_DIGITS[arrow.unit],))
    if pa.types.is_timestamp(arrow):
        kind = "TIMESTAMP" if arrow.tz is None else "TIMESTAMP_LTZ"
        return LogicalType(kind, (UNIT_DIGITS[arrow.unit],))
    return _nested_from_arrow(arrow)


def is_list_like(arrow: pa.DataType) -> bool:
    """Whether the Arrow type is one of the five list layouts."""
    return any(
        test(arrow)
        for test in (
            pa.types.is_list,
            pa.types.is_large_list,
            pa.types.is_fixed_size_list,
            pa.types.is_list_view,
            pa.types.is_large_list_view,
        )
    )


def _nested_from_arrow(arrow: pa.DataType) -> LogicalType:
    if is_list_like(arrow):
        return LogicalType("ARRAY", (), (_child(arrow.value_field, "element"),))
    if pa.types.is_map(arrow):
        key, value = _child(arrow.key_field, "key"), _child(arrow.item_field, "value")
        return LogicalType("MAP", (), (TypeField("key", key.type, False), value))
    if pa.types.is_struct(arrow):
        fields = tuple(_child(field, field.name) for field in arrow)
        return checked(LogicalType("ROW", (), fields), str(arrow))
    way_out = _SUGGESTED.get(arrow, _TABLE_TYPES)
    if isinstance(arrow, pa.BaseExtensionType):
        way_out = f"its storage type {arrow.storage_type}"
    raise SchemaMismatchError(f"Arrow type {arrow} has no table type; use {way_out}")


def _child(field: pa.Field, name: str) -> TypeField:
    return TypeField(name, from_arrow(field.type), field.nullable)
