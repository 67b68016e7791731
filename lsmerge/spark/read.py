"""Reading a snapshot of a table as a DataFrame."""

from collections.abc import Mapping

from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

from lsmerge.spark.options import not_available


def schema(options: Mapping[str, str]) -> StructType:
    """The columns that a DataFrame of the table has."""
    raise not_available("reading from Spark")


def reader(options: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """What reads the columns of `schema`."""
    raise not_available("reading from Spark")
