"""Lets Spark find the data source `lsmerge` by itself: it looks for packages named `pyspark_…`.

Nothing of lsmerge is imported before the source is used: a package of that name that cannot be imported would hide all
others from Spark.
"""

from collections.abc import Mapping

from pyspark.sql.datasource import DataSource


class DefaultSource(DataSource):
    """The data source `lsmerge`, in the form in which Spark looks for one."""

    def __new__(cls, options: Mapping[str, str]) -> DataSource:  # type: ignore[misc]
        from lsmerge.spark.source import LsmergeDataSource

        return LsmergeDataSource(dict(options))

    @classmethod
    def name(cls) -> str:
        return "lsmerge"
