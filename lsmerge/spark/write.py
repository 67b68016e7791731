"""Writing a DataFrame in one commit."""

from collections.abc import Mapping

from pyspark.sql.datasource import DataSourceWriter
from pyspark.sql.types import StructType

from lsmerge.spark.options import not_available, source_options


def writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> DataSourceWriter:
    """What writes rows of `schema`, once the table and the options have been checked."""
    source_options(options, ())
    raise not_available("writing from Spark")
