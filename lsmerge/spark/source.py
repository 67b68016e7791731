"""The data source `lsmerge` as Spark sees it: each method hands over to the file that does the work.

Spark makes an object of this class wherever it needs one, and pickles it: it holds the options and nothing else.
"""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from lsmerge.spark import batch_read, stream_read, stream_write, write


class LsmergeDataSource(DataSource):
    """`format("lsmerge")`."""

    @classmethod
    def name(cls) -> str:
        return "lsmerge"

    def schema(self) -> StructType:
        return batch_read.schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        return batch_read.reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return stream_read.reader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return write.writer(self.options, schema, overwrite=overwrite)

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        return stream_write.writer(self.options, schema, overwrite=overwrite)
