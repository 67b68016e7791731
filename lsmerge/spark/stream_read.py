"""Following the changelog of a table as a stream.

An offset is where a batch ends, and where it begins (`from`). Spark asks anew where a query starts until its first
batch has been committed, and by then the newest snapshot may be another one: the end alone says what a batch holds, so
a batch that is run again has the same rows, also the first.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from lsmerge.spark.batch_read import check_is_of_changes, read_part
from lsmerge.spark.read_options import (
    CONSUMER,
    CONSUMER_TTL,
    DEFAULT_CONSUMER_TTL,
    MAX_BYTES,
    MAX_ROWS,
    MAX_SNAPSHOTS,
    ReadOptions,
)
from lsmerge.spark.types import check_declared, spark_schema

FROM = "from"


def reader(options: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    """What follows the changes, with the columns of `schema`."""
    check_is_of_changes(schema)
    return ChangesStreamReader(ReadOptions.of(options, schema), schema)


class ChangesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in the driver, and reads their parts in other processes."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._open_feed: Any = None
        self._target: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a query begins that has no checkpoint."""
        begin: dict[str, Any] = dict(self._feed.start(self._options.start()))
        if self._target is not None and begin["whole"]:
            # All rows of a snapshot that came since the trigger was prepared are rows that are there now.
            last = max(self._target["snapshot"], begin["snapshot"] + 1)
            self._target = {"snapshot": last, "whole": False}
        return begin

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """That there are limits; what they are, the options say."""
        limits = self._limits()
        if all(limit is None for limit in limits.values()):
            return ReadAllAvailable()
        return ReadMaxRows(limits["max_rows"] or 2**62)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next batch ends; `start` itself if there is nothing to read."""
        begin = _position(start)
        limits = {} if isinstance(limit, ReadAllAvailable) else self._limits()
        end = self._feed.advance(begin, self._target, **limits)
        return start if end == begin else {**end, FROM: begin}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """What is there now is all that is read."""
        self._target = self._feed.latest()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """How far there is something to read."""
        return dict(self._feed.latest())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The parts of one batch; the changes of a key are in one of them, in order."""
        begin = end.get(FROM) or _position(start)
        splits = self._feed.splits(begin, _position(end), self._options.split_size)
        return [InputPartition(split) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The changes of one part, in another process."""
        return read_part(self._options, self._schema, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing before `end` is needed any more."""
        self._feed.commit(_position(end))

    def stop(self) -> None:
        """Nothing: that a consumer has gone, its lease tells."""

    @property
    def _feed(self) -> Any:
        if self._open_feed is None:
            consumer = self._options.own.get(CONSUMER)
            ttl = self._options.own.get(CONSUMER_TTL, DEFAULT_CONSUMER_TTL)
            feed = self._options.open().feed(consumer, ttl if consumer else None)
            check_declared(self._schema, spark_schema(feed.schema))
            self._open_feed = feed
        return self._open_feed

    def _limits(self) -> dict[str, int | None]:
        return {
            "max_snapshots": self._options.number(MAX_SNAPSHOTS),
            "max_rows": self._options.number(MAX_ROWS),
            "max_bytes": self._options.number(MAX_BYTES),
        }

    def __getstate__(self) -> dict[str, Any]:
        """Other processes open the table themselves."""
        return {**self.__dict__, "_open_feed": None}


def _position(offset: Mapping[str, Any]) -> dict[str, Any]:
    return {"snapshot": offset["snapshot"], "whole": offset["whole"]}
