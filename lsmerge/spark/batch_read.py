"""Reading a snapshot of a table, or the changes between two, as a DataFrame.

The snapshot is pinned when Spark plans the read, so a DataFrame shows the same rows however often it is used. Parts are
of about equal bytes. Only the columns of the declared schema are decoded. Filters come as an option: those that Spark
would push down stay with a source that several DataFrames share, and give wrong rows.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructField, StructType

from lsmerge import InvalidOptionError, Table
from lsmerge.spark.heap import keep_for_good
from lsmerge.spark.kept_tables import opened
from lsmerge.spark.options import spelled
from lsmerge.spark.read_options import END, REMEMBERED, ReadOptions
from lsmerge.spark.types import check_declared, fitted, spark_schema


def schema(options: Mapping[str, str]) -> StructType:
    """The columns that a DataFrame of the table, or of its changes, has."""
    read = ReadOptions.of(options)
    with read.open() as table:
        found = columns(read, table)
    keep_for_good()
    return _remembering(found, read)


def columns(read: ReadOptions, table: Table) -> StructType:
    """The columns that a read of the table gives."""
    if read.is_changes:
        return spark_schema(table.feed().schema)
    names = None if read.columns is None else spelled(read.columns, table.schema.names)
    return spark_schema(table.scan(columns=names, **read.scan_arguments()).schema)


def reader(options: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """What reads the columns of `schema`."""
    return reader_of(ReadOptions.of(options, schema), schema)


def reader_of(read: ReadOptions, schema: StructType) -> "TableReader":
    """The same, of options that are sorted already."""
    return ChangesReader(read, schema) if read.is_changes else SnapshotReader(read, schema)


class TableReader(DataSourceReader):
    """Reads what options ask for: parts are planned by one process and read by others."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Plan the read; what is read is settled by that."""
        with self._options.open() as table:
            splits = self.splits(table)
        keep_for_good()
        return [InputPartition(split) for split in splits]

    @abstractmethod
    def splits(self, table: Table) -> list[Any]:
        """The parts, as `Table.read_split` takes them."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """What is in one part, in another process."""
        return read_part(self._options, self._schema, partition)


class SnapshotReader(TableReader):
    """Reads the rows of one snapshot."""

    def splits(self, table: Table) -> list[Any]:
        """The snapshot is that of now, or the one asked for."""
        names = check_declared(self._schema, columns(self._options, table))
        scan = table.scan(columns=names, **self._options.scan_arguments())
        return scan.splits(**self._options.split_arguments())


class ChangesReader(TableReader):
    """Reads the changes between two snapshots."""

    def splits(self, table: Table) -> list[Any]:
        """They end at the newest snapshot of now, or at the one asked for."""
        feed = table.feed()
        check_declared(self._schema, spark_schema(feed.schema))
        begin, end = feed.start(self._options.start()), feed.latest()
        last = self._options.number(END)
        if last is not None:
            end["snapshot"] = min(end["snapshot"], last + 1)
        return feed.splits(begin, end, self._options.split_size, whole_buckets=False)


def read_part(
    options: ReadOptions, schema: StructType, partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    """The rows of one part, as Spark takes them."""
    # A read without parts comes as one part without a value.
    if partition.value is None:
        return
    with opened(options, partition.value) as table:
        yield from fitted(table.read_split(partition.value), schema)
    keep_for_good()


def check_is_of_changes(schema: StructType) -> None:
    """A stream without kinds could not tell a row that came from one that went."""
    if "_row_kind" not in (name.lower() for name in schema.names):
        raise InvalidOptionError(
            "a stream of format('lsmerge') is one of changes, with the column _row_kind, and must say where it begins: "
            "spark.readStream.format('lsmerge').option('scan.mode', 'latest-full').load(path), or latest, earliest, "
            "from-snapshot, from-timestamp"
        )


def _remembering(schema: StructType, read: ReadOptions) -> StructType:
    """The same columns, the first of which knows how they were asked for: Spark's catalog keeps that, and no option."""
    text = read.remembered()
    if text is None:
        return schema
    first, *others = schema.fields
    marked = StructField(first.name, first.dataType, first.nullable, {REMEMBERED: text})
    return StructType([marked, *others])
