"""Following the changelog of a table as a stream."""

from collections.abc import Mapping

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.types import StructType

from lsmerge.spark.options import not_available


def reader(options: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    """What follows the changes, with the columns of `schema`."""
    raise not_available("streaming reads from Spark")
