"""DataFrames of tables where options would be a mouthful: rows, changes, and streams of changes.

They mean what `format("lsmerge")` has options for, so what is written there holds here, and do what a data source
cannot: rows and changes are read as a map over parts, and `read` can hand the files of a fully compacted table to
Spark's own Parquet reader.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lsmerge import InvalidOptionError, LsmergeError, open_table
from lsmerge.spark import read_options as names
from lsmerge.spark.mapped_read import mapped
from lsmerge.spark.options import STORAGE_PREFIX, cores, is_connected, location, spelled
from lsmerge.spark.types import spark_schema

FORMAT = "lsmerge"
GLOB_SYMBOLS = "*?[]{}\\"


def read(
    spark: SparkSession,
    path: str,
    columns: Sequence[str] | None = None,
    filter: str | None = None,  # noqa: A002 - the name that Table.scan has
    *,
    snapshot: int | None = None,
    tag: str | None = None,
    timestamp: Any = None,
    mode: str | None = None,
    split_size: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The rows of a table, now or at a snapshot, tag or time; only `columns` and only what `filter` cannot rule out.

    `mode="compacted"` reads the files of a fully compacted table with Spark's own Parquet reader, about twice as
    fast; where their rows are not those of the table (rows came since, deletes, altered columns) it reads as usual.
    """
    if mode not in (None, names.COMPACTED):
        raise InvalidOptionError(f"mode = {mode!r}: accepted: None, 'compacted'")
    if mode is not None and filter is None:
        frame = _compacted(spark, path, columns, (snapshot, tag, timestamp), storage_options)
        if frame is not None:
            return frame
    options = {
        names.COLUMNS: None if columns is None else ",".join(columns),
        names.FILTER: filter,
        names.SNAPSHOT: snapshot,
        names.TAG: tag,
        names.TIMESTAMP: timestamp.isoformat() if isinstance(timestamp, datetime) else timestamp,
        names.SPLIT_SIZE: split_size,
        names.PARALLELISM: cores(spark),
    }
    return _frame(spark, _given(path, options, storage_options))


def changelog(
    spark: SparkSession,
    path: str,
    start: Any = None,
    end: int | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The changes of snapshots `start` to `end`, both inclusive, as a DataFrame.

    `start` is what `Table.changelog` takes: a snapshot's number, a time with its zone, or "earliest", which is the
    default; "latest-full" gives all rows as inserts. Rows have no order: `_snapshot_id` has.
    """
    options = {**_start(names.EARLIEST if start is None else start), names.END: end}
    return _frame(spark, _given(path, options, storage_options))


def read_stream(
    spark: SparkSession,
    path: str,
    start: Any = names.LATEST_FULL,
    *,
    max_snapshots: int | None = None,
    max_rows: int | None = None,
    max_bytes: int | None = None,
    consumer: str | None = None,
    consumer_ttl: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The changes of a table as they come. The limits are for one trigger; a snapshot is never divided.

    What a `consumer` has not committed does not expire before `consumer_ttl`, a week by default, has passed since
    the query was last seen.
    """
    options = {
        **_start(start),
        names.MAX_SNAPSHOTS: max_snapshots,
        names.MAX_ROWS: max_rows,
        names.MAX_BYTES: max_bytes,
        names.CONSUMER: consumer,
        names.CONSUMER_TTL: consumer_ttl,
    }
    given = _given(path, options, storage_options)
    return spark.readStream.format(FORMAT).options(**given).load()


def _frame(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """What `format("lsmerge")` reads with these options, faster. The client of Spark Connect may not see the table."""
    if is_connected(spark):
        return spark.read.format(FORMAT).options(**options).load()
    return mapped(spark, options)


def _start(start: Any) -> dict[str, Any]:
    if isinstance(start, bool) or not isinstance(start, int | str | datetime):
        raise InvalidOptionError(
            f"start = {start!r}: give a snapshot's number, a time with its zone, or one of "
            f"{names.LATEST_FULL}, {names.LATEST}, {names.EARLIEST}"
        )
    if isinstance(start, int):
        return {names.MODE: names.FROM_SNAPSHOT, names.SNAPSHOT: start}
    if isinstance(start, datetime):
        return {names.MODE: names.FROM_TIMESTAMP, names.TIMESTAMP: start.isoformat()}
    return {names.MODE: start}


def _given(
    path: str, options: Mapping[str, Any], storage_options: Mapping[str, str] | None
) -> dict[str, Any]:
    storage = {f"{STORAGE_PREFIX}{n}": v for n, v in (storage_options or {}).items()}
    given = {name: str(value) for name, value in options.items() if value is not None}
    return {"path": location(path), **given, **storage}


def _compacted(
    spark: SparkSession,
    path: str,
    columns: Sequence[str] | None,
    at: tuple[Any, Any, Any],
    storage_options: Mapping[str, str] | None,
) -> DataFrame | None:
    """The rows by Spark's own reader; None where its answer would be another one, or it cannot reach the files."""
    if "://" in location(path) and not path.startswith("file://"):
        return None
    if any(symbol in path for symbol in GLOB_SYMBOLS):
        return None  # Spark would take the path for a pattern
    snapshot, tag, timestamp = at
    with open_table(path, storage_options=storage_options) as table:
        wanted = None if columns is None else spelled(columns, table.schema.names)
        scan = table.scan(wanted, snapshot=snapshot, tag=tag, timestamp=timestamp)
        schema = spark_schema(scan.schema)
        try:
            files = scan.plain_files()
        except LsmergeError as error:
            if error.code != "NOT_PLAIN":
                raise
            return None
        if not files:
            return None
        uri = table.uri if table.uri.startswith("file://") else f"file://{table.uri}"
    # Spark would take the directories of partitions for columns of its own.
    reader = spark.read.schema(schema).option("recursiveFileLookup", "true")
    return reader.parquet(*(f"{uri}/{file}" for file in files))
