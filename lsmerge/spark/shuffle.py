"""Sending rows to the task that has all rows of their keys, by Spark's own functions.

The task of a row is what `Table.task_writer` calls its share, computed from Spark's `hash`, which is the hash that
buckets are chosen by. Every task checks that its rows are its own, so a difference between the two could not pass
unnoticed.
"""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DataType

from lsmerge import Table

ORDER_COLUMN = "_lsmerge_order"
# Table types whose values Spark holds and hashes as lsmerge does.
_HASHED = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_date32,
)


def bucket_count(table: Table) -> int:
    """How many buckets a partition has; -1 if they are dynamic."""
    return int(table.options.get("bucket", "1"))


def bucket_columns(table: Table) -> list[str]:
    """The columns by which rows are sent to buckets."""
    named = table.options.get("bucket-key")
    if named is not None:
        return [name.strip() for name in named.split(",")]
    return [name for name in table.primary_key if name not in table.partition_by]


def can_shuffle(table: Table) -> bool:
    """Whether Spark can compute the hash of the key, and of the partition columns."""
    names = {*bucket_columns(table), *table.partition_by}
    return all(_is_hashed(table.schema.field(name).type) for name in names)


def shuffled(df: DataFrame, table: Table, total: int, *, keeps_order: bool) -> DataFrame:
    """The rows in `total` partitions, each with all rows of its keys; in their order, if that is to be kept."""
    if keeps_order:
        df = df.withColumn(ORDER_COLUMN, f.monotonically_increasing_id())
    sent = df.repartitionById(total, share_column(table, total))
    return sent.sortWithinPartitions(ORDER_COLUMN).drop(ORDER_COLUMN) if keeps_order else sent


def share_column(table: Table, total: int) -> Column:
    """The number of a row's task."""
    buckets, key = bucket_count(table), _typed(table, bucket_columns(table))
    if buckets == -1:
        return _modulo(key, total)
    if table.partition_by:
        return _modulo([*_typed(table, table.partition_by), _modulo(key, buckets)], total)
    if total > buckets:
        return _modulo(key, total)
    return _modulo(key, buckets) % f.lit(total)


def _modulo(columns: Sequence[Column], count: int) -> Column:
    return f.abs(f.hash(*columns) % f.lit(count))


def _typed(table: Table, names: Sequence[str]) -> list[Column]:
    """Columns as the table holds them: a hash depends on the type."""
    return [
        f.col(f"`{name.replace('`', '``')}`").cast(_spark_type(table.schema.field(name).type))
        for name in names
    ]


def _is_hashed(arrow: pa.DataType) -> bool:
    is_micros = pa.types.is_timestamp(arrow) and arrow.unit == "us"
    return is_micros or any(test(arrow) for test in _HASHED)


def _spark_type(arrow: pa.DataType) -> DataType:
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(arrow, prefer_timestamp_ntz=True)
