"""Spark's types as those of a table.

The columns of a new table may all be null, whatever the plan says of them: that a value is never null in one DataFrame
is no promise about the next one.
"""

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    TimeType,
)

from lsmerge import SchemaMismatchError

ROW_KIND = "_row_kind"
BINARY_COLLATION = "UTF8_BINARY"
# Plain types whose Arrow form is that of a table.
_PLAIN = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp_ntz": pa.timestamp("us"),
}


def table_schema(schema: StructType) -> pa.Schema:
    """The columns that a table made for rows of `schema` has."""
    columns = [field for field in schema.fields if field.name != ROW_KIND]
    return pa.schema([_field(field.name, field) for field in columns])


def _field(place: str, field: StructField) -> pa.Field:
    return pa.field(field.name, _arrow(place, field.dataType))


def _arrow(place: str, given: DataType) -> pa.DataType:
    """The type of a column, or of a part of it that `place` names."""
    if given.typeName() in _PLAIN:
        return _PLAIN[given.typeName()]
    if given.typeName() == "decimal":
        return pa.decimal128(given.precision, given.scale)  # type: ignore[attr-defined]
    if isinstance(given, StringType) and given.collation == BINARY_COLLATION:
        return pa.string()
    if isinstance(given, TimestampType):
        return pa.timestamp("us", "UTC")
    if isinstance(given, TimeType):
        return pa.time64("us")
    if isinstance(given, ArrayType):
        return pa.list_(_arrow(f"{place}.element", given.elementType))
    if isinstance(given, MapType):
        key = _arrow(f"{place}.key", given.keyType)
        return pa.map_(key, _arrow(f"{place}.value", given.valueType))
    if isinstance(given, StructType):
        return pa.struct([_field(f"{place}.{field.name}", field) for field in given.fields])
    raise SchemaMismatchError(
        f"column {place!r}: a table has no type for Spark's {given.simpleString()}; cast it to another type, "
        "such as STRING, DECIMAL or BIGINT"
    )
