"""Spark's types as those of a table.

The columns of a new table may all be null, whatever the plan says of them: that a value is never null in one DataFrame
is no promise about the next one.
"""

from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VarcharType,
)

from lsmerge import SchemaMismatchError

ROW_KIND = "_row_kind"
BINARY_COLLATION = "UTF8_BINARY"
_PLAIN = {
    NullType: pa.null(),
    BooleanType: pa.bool_(),
    ByteType: pa.int8(),
    ShortType: pa.int16(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    StringType: pa.string(),
    CharType: pa.string(),
    VarcharType: pa.string(),
    BinaryType: pa.binary(),
    DateType: pa.date32(),
    TimeType: pa.time64("us"),
    TimestampType: pa.timestamp("us", "UTC"),
    TimestampNTZType: pa.timestamp("us"),
}
Scalar: TypeAlias = Callable[[DataType], pa.DataType | None]


def table_schema(schema: StructType) -> pa.Schema:
    """The columns that a table made for rows of `schema` has."""
    columns = [field for field in schema.fields if field.name.lower() != ROW_KIND]
    return pa.schema([_field(field.name, field, _new_type) for field in columns])


def arriving_schema(schema: StructType) -> pa.Schema:
    """The columns of a DataFrame as a writer gets them; refused if a table can have no such values."""
    return pa.schema([_field(field.name, field, _arriving_type) for field in schema.fields])


def _field(place: str, field: StructField, scalar: Scalar) -> pa.Field:
    return pa.field(field.name, _arrow(place, field.dataType, scalar))


def _arrow(place: str, given: DataType, scalar: Scalar) -> pa.DataType:
    """The type of a column, or of a part of it that `place` names."""
    if isinstance(given, ArrayType):
        return pa.list_(_arrow(f"{place}.element", given.elementType, scalar))
    if isinstance(given, MapType):
        key = _arrow(f"{place}.key", given.keyType, scalar)
        return pa.map_(key, _arrow(f"{place}.value", given.valueType, scalar))
    if isinstance(given, StructType):
        return pa.struct([_field(f"{place}.{field.name}", field, scalar) for field in given.fields])
    found = scalar(given)
    if found is None:
        raise SchemaMismatchError(
            f"column {place!r}: a table has no type for Spark's {given.simpleString()}; cast it to another type, "
            "such as STRING, DECIMAL or BIGINT"
        )
    return found


def _new_type(given: DataType) -> pa.DataType | None:
    """A type for values to come: equal texts must have equal bytes, and nothing but nulls says nothing."""
    if isinstance(given, NullType):
        return None
    if isinstance(given, StringType) and given.collation != BINARY_COLLATION:
        return None
    return _arriving_type(given)


def _arriving_type(given: DataType) -> pa.DataType | None:
    if isinstance(given, DecimalType):
        return pa.decimal128(given.precision, given.scale)
    return _PLAIN.get(type(given))
