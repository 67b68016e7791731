"""lsmerge from Spark: the data source `format("lsmerge")`, and helpers where a data source cannot say what is meant.

Spark finds the source by itself. Where it does not (a package installed in editable mode is not looked at):

    spark.dataSource.register(lsmerge.spark.LsmergeDataSource)
"""

from lsmerge.spark.frames import changelog, read, read_stream
from lsmerge.spark.source import LsmergeDataSource
from lsmerge.spark.upkeep import compact, expire, rescale, verify
from lsmerge.spark.upserting import upsert

__all__ = [
    "LsmergeDataSource",
    "changelog",
    "compact",
    "expire",
    "read",
    "read_stream",
    "rescale",
    "upsert",
    "verify",
]
