"""lsmerge from Spark: the data source `format("lsmerge")`, and helpers where a data source cannot say what is meant.

Spark finds the source by itself. Where it does not (a package installed in editable mode is not looked at):

    spark.dataSource.register(lsmerge.spark.LsmergeDataSource)
"""

from lsmerge.spark.source import LsmergeDataSource
from lsmerge.spark.upserting import upsert

__all__ = ["LsmergeDataSource", "upsert"]
