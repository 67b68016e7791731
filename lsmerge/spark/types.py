"""Columns and rows as Spark wants them.

Spark compares the batches of a source with the declared columns and takes no other: names, order, types and null flags
must be equal, timestamps in microseconds of UTC, times in nanoseconds. `fitted` is the one place that makes them so.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StructField, StructType

from lsmerge import SchemaMismatchError

# Fewer rows cost more calls; of more, Java reads what is in no cache any more, and begins later. Between these it
# makes no difference, and none are copied.
BATCH_ROWS = 25_000
MOST_ROWS = 50_000
BATCH_BYTES = 64 << 20

_PLAIN: dict[pa.DataType, DataType] = {
    pa.bool_(): spark_types.BooleanType(),
    pa.int8(): spark_types.ByteType(),
    pa.int16(): spark_types.ShortType(),
    pa.int32(): spark_types.IntegerType(),
    pa.int64(): spark_types.LongType(),
    pa.float32(): spark_types.FloatType(),
    pa.float64(): spark_types.DoubleType(),
    pa.string(): spark_types.StringType(),
    pa.binary(): spark_types.BinaryType(),
    pa.date32(): spark_types.DateType(),
}
_TIME_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 6}


def spark_schema(schema: pa.Schema) -> StructType:
    """The columns of a table, scan or changelog as Spark declares them."""
    return StructType([_field(field) for field in schema])


def spark_type(arrow: pa.DataType) -> DataType:
    """The Spark type of a table's Arrow type; there is one for each."""
    if arrow in _PLAIN:
        return _PLAIN[arrow]
    if pa.types.is_decimal(arrow):
        return spark_types.DecimalType(arrow.precision, arrow.scale)
    if pa.types.is_timestamp(arrow):
        with_zone = arrow.tz is not None
        return spark_types.TimestampType() if with_zone else spark_types.TimestampNTZType()
    if pa.types.is_time(arrow):
        return spark_types.TimeType(_TIME_DIGITS[arrow.unit])
    if pa.types.is_fixed_size_binary(arrow):
        return spark_types.BinaryType()
    return _nested_type(arrow)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark compares batches with."""
    return to_arrow_schema(schema, timezone="UTC")


def fitted(batches: Iterable[pa.RecordBatch], schema: StructType) -> Iterator[pa.RecordBatch]:
    """The columns of `schema`, by name and in order, in batches of the size that Spark likes."""
    target = arrow_schema(schema)
    for batch in _resized(batches):
        columns = [_column(batch, field) for field in target]
        yield pa.RecordBatch.from_arrays(columns, schema=target)


def check_declared(declared: StructType, there: StructType) -> list[str]:
    """The table's names of the columns that a user declared; types and null flags must be those of the table."""
    by_name = {field.name.lower(): field for field in there}
    by_name |= {field.name: field for field in there}
    names = []
    for field in declared:
        found = by_name.get(field.name) or by_name.get(field.name.lower())
        if found is None:
            raise SchemaMismatchError(
                f"column {field.name!r} of the schema given is none of the table's; it has {', '.join(there.names)}"
            )
        if not _is_same(field.dataType, found.dataType):
            raise SchemaMismatchError(
                f"column {field.name!r}: the schema given says {field.dataType.simpleString()}, the table has "
                f"{found.dataType.simpleString()}; read it as that and cast it afterwards"
            )
        if found.nullable and not field.nullable:
            raise SchemaMismatchError(
                f"column {field.name!r}: the schema given says NOT NULL, but the table allows nulls there"
            )
        names.append(found.name)
    return names


def _field(field: pa.Field) -> StructField:
    return StructField(field.name, spark_type(field.type), field.nullable)


def _nested_type(arrow: pa.DataType) -> DataType:
    if pa.types.is_list(arrow):
        return spark_types.ArrayType(spark_type(arrow.value_type), arrow.value_field.nullable)
    if pa.types.is_map(arrow):
        key, item = spark_type(arrow.key_type), spark_type(arrow.item_type)
        return spark_types.MapType(key, item, arrow.item_field.nullable)
    if pa.types.is_struct(arrow):
        return StructType([_field(field) for field in arrow])
    raise SchemaMismatchError(f"Arrow type {arrow} has no type in Spark")


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    position = _position(batch.schema, field.name)
    column = batch.column(position)
    try:
        for type_ in (_in_micros(column.type), field.type):
            # To its own type Arrow does not cast a null whose fields are declared NOT NULL.
            column = column if column.type.equals(type_) else column.cast(type_)
        return column
    except pa.ArrowInvalid as error:
        raise SchemaMismatchError(
            f"column {field.name!r} ({column.type}) holds values that Spark's {field.type} cannot: "
            f"{' '.join(str(error).split())}; leave the column out with .option('columns', ...)"
        ) from error


def _in_micros(arrow: pa.DataType) -> pa.DataType:
    """The type that holds what Spark's can. Its times have nanoseconds in Arrow only, and are declared without."""
    if arrow.equals(pa.time64("ns")):
        return pa.time64("us")
    if pa.types.is_list(arrow):
        return pa.list_(arrow.value_field.with_type(_in_micros(arrow.value_type)))
    if pa.types.is_map(arrow):
        item = arrow.item_field.with_type(_in_micros(arrow.item_type))
        return pa.map_(arrow.key_field.with_type(_in_micros(arrow.key_type)), item)
    if pa.types.is_struct(arrow):
        return pa.struct([field.with_type(_in_micros(field.type)) for field in arrow])
    return arrow


def _position(schema: pa.Schema, name: str) -> int:
    names: list[str] = schema.names
    if name in names:
        return names.index(name)
    lower = [other.lower() for other in names]
    if name.lower() in lower:
        return lower.index(name.lower())
    raise SchemaMismatchError(
        f"column {name!r} is not in the table any more, which has {', '.join(schema.names)}; start the query anew"
    )


def _is_same(left: DataType, right: DataType) -> bool:
    """Whether two types differ in null flags at most."""
    return _nullable(left) == _nullable(right)


def _nullable(type_: DataType) -> DataType:
    if isinstance(type_, StructType):
        return StructType([StructField(f.name, _nullable(f.dataType)) for f in type_])
    if isinstance(type_, spark_types.ArrayType):
        return spark_types.ArrayType(_nullable(type_.elementType))
    if isinstance(type_, spark_types.MapType):
        return spark_types.MapType(_nullable(type_.keyType), _nullable(type_.valueType))
    return type_


def _resized(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of BATCH_ROWS to MOST_ROWS rows, or fewer where rows are large or end."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= BATCH_ROWS or size >= BATCH_BYTES:
            yield from _joined(waiting)
            waiting, rows, size = [], 0, 0
    if rows:
        yield from _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    whole = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    rows = whole.num_rows
    # Equal ones: none is so small that it costs more than it brings.
    count = -(-rows // MOST_ROWS)
    for number in range(count):
        first = number * rows // count
        yield whole.slice(first, (number + 1) * rows // count - first)
