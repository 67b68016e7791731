"""Reading a table as a map over its parts, for which Spark's Java takes half as long as for a data source.

What a Python data source gives, Java copies into rows twice, and after every hundred of them it adds up the metrics of
the source. What a function from Arrow batches to Arrow batches gives it copies once. So the parts are planned here, on
the driver, and Spark maps the number of each to the rows that are in it; they are read as the data source reads them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.serializers import CPickleSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader, InputPartition

from lsmerge.spark.batch_read import columns, reader_of
from lsmerge.spark.read_options import ReadOptions

NUMBER_BYTES = 8  # of a row of a range
LEAST_VALUE_BYTES = 8
IN_TRANSIT: Any = CPickleSerializer()  # in which Spark sends the parts of a data source


def mapped(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """The rows, or changes, that `format("lsmerge")` reads with these options; which snapshot is settled here."""
    read = ReadOptions.of(options)
    with read.open() as table:
        schema = columns(read, table)
        reader = reader_of(read, schema)
        splits = reader.splits(table)
    # A table without rows is read as one part without a value.
    parts = tuple(IN_TRANSIT.dumps(InputPartition(split)) for split in splits or [None])
    each = max(1, _size_bytes(splits, len(schema)) // (len(parts) * NUMBER_BYTES))
    numbers = spark.range(0, len(parts) * each, 1, len(parts)).where(f"id % {each} = 0")
    return numbers.mapInArrow(_Parts(read.uri, reader, parts, each), schema)


def _size_bytes(splits: Sequence[Any], num_columns: int) -> int:
    """How large the range must be that is mapped, of whose numbers only the first of each part counts.

    Spark takes a map to give as much as it is given, and broadcasts in a join what it thinks is small. So the range is
    as large as the files, as Spark takes files of its own, and as their values would be at least, since compressed
    files may be nothing beside their rows. To run through it takes a hundredth of the time that reading takes.
    """
    of_files: int = sum(split.size_bytes for split in splits)
    values: int = num_columns * sum(split.num_rows for split in splits)
    return max(of_files, values * LEAST_VALUE_BYTES)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The function that Spark maps. Parts stay as they were sent: a task has all of them, and needs its own."""

    uri: str
    reader: DataSourceReader
    parts: tuple[bytes, ...]
    numbers_a_part: int

    @property
    def __name__(self) -> str:
        """What Spark's plans call it."""
        return f"lsmerge {self.uri}"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                part = self.parts[number // self.numbers_a_part]
                yield from self.reader.read(IN_TRANSIT.loads(part))
