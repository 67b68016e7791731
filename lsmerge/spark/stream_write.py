"""Writing the micro-batches of a stream, each in one commit."""

from collections.abc import Mapping

from pyspark.sql.datasource import DataSourceStreamWriter
from pyspark.sql.types import StructType

from lsmerge.spark.options import not_available


def writer(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> DataSourceStreamWriter:
    """What writes the micro-batches of a stream."""
    raise not_available("streaming writes from Spark")
