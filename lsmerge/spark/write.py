"""Writing a DataFrame in one commit.

    driver: open or make the table, check the columns -> tasks: runs -> driver: commit, or abort

Every attempt of a task writes files of its own, and only the messages that reach the commit count: what is retried is
neither lost nor doubled.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from lsmerge import InvalidOptionError, Table, open_table
from lsmerge.spark.arrow_memory import choose_allocator
from lsmerge.spark.heap import keep_for_good
from lsmerge.spark.options import SourceOptions, names_in, source_options, whole_number
from lsmerge.spark.partitions import partitions_in
from lsmerge.spark.target import Definition, as_in_table, check_rows, open_or_create

PRIMARY_KEY = "primary-key"
PARTITION_BY = "partition-by"
COLUMNS = "columns"
OVERWRITE_PARTITION = "overwrite.partition"
OVERWRITE_MODE = "overwrite.mode"
SPARK_OVERWRITE_MODE = "partitionoverwritemode"
COMMIT_USER = "commit-user"
COMMIT_ID = "commit-id"
SHARES = "shares"
OWN_OPTIONS = frozenset(
    {
        PRIMARY_KEY,
        PARTITION_BY,
        COLUMNS,
        OVERWRITE_PARTITION,
        OVERWRITE_MODE,
        SPARK_OVERWRITE_MODE,
        COMMIT_USER,
        COMMIT_ID,
        SHARES,
    }
)


@dataclass(frozen=True)
class TaskMessage(WriterCommitMessage):
    """What a task wrote; `query` names the stream that it belongs to."""

    content: bytes
    query: str | None = None


@dataclass(frozen=True, slots=True)
class TableWrite:
    """Where and how the rows of one write go: all that a task or a commit in any process must know.

    `shares` is set if the rows come shuffled such that task i of so many has all rows of its keys.
    """

    uri: str
    storage_options: dict[str, str] = field(repr=False)
    columns: list[str] | None
    overwrite: dict[str, Any]
    shares: int | None

    def open(self) -> Table:
        choose_allocator()
        return open_table(self.uri, storage_options=self.storage_options)

    def run_task(self, batches: Iterator[pa.RecordBatch]) -> bytes:
        """Write the rows of one task."""
        with self.open() as table:
            columns = as_in_table(table, self.columns)
            with table.task_writer(columns, share=self._share(), **self.overwrite) as task:
                for batch in batches:
                    task.write(batch.rename_columns(as_in_table(table, batch.schema.names)))
                message = task.finish()
        keep_for_good()
        return message

    def _share(self) -> tuple[int, int] | None:
        if self.shares is None:
            return None
        context = TaskContext.get()
        assert context is not None, "tasks run in Spark"
        return context.partitionId(), self.shares

    def abort(self, messages: Sequence[TaskMessage | None]) -> None:
        """Delete what tasks wrote, unless it is published.

        A message is missing if a task failed; then no commit was tried.
        """
        contents = [message.content for message in messages if message is not None]
        with self.open() as table:
            table.discard_tasks(contents, was_committing=None not in messages)


class LsmergeWriter(DataSourceArrowWriter):
    """One batch write."""

    def __init__(self, target: TableWrite, identity: dict[str, Any]) -> None:
        self._target = target
        self._identity = identity

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        return TaskMessage(self._target.run_task(iterator))

    def commit(self, messages: list[TaskMessage | None]) -> None:  # type: ignore[override]
        contents = [message.content for message in messages if message is not None]
        with self._target.open() as table:
            table.commit_tasks(contents, **self._target.overwrite, **self._identity)
        keep_for_good()

    def abort(self, messages: list[TaskMessage | None]) -> None:  # type: ignore[override]
        self._target.abort(messages)


def writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> DataSourceWriter:
    """What writes rows of `schema`, once the table and the options have been checked."""
    given = source_options(options, OWN_OPTIONS)
    target = prepared(given, schema, overwrite=overwrite)
    return LsmergeWriter(target, _identity(given))


def prepared(given: SourceOptions, schema: StructType, *, overwrite: bool) -> TableWrite:
    """The write that options ask for: its table is there, and takes rows of `schema`."""
    target = TableWrite(
        given.uri,
        given.storage_options,
        names_in(given.own[COLUMNS]) if COLUMNS in given.own else None,
        _overwrite(given.own) if overwrite else _no_overwrite(given.own),
        whole_number(SHARES, given.own[SHARES]) if SHARES in given.own else None,
    )
    definition = Definition(
        names_in(given.own[PRIMARY_KEY]) if PRIMARY_KEY in given.own else None,
        names_in(given.own[PARTITION_BY]) if PARTITION_BY in given.own else None,
        given.table,
    )
    with open_or_create(given.uri, given.storage_options, schema, definition) as table:
        check_rows(table, schema, columns=target.columns, **target.overwrite)
    keep_for_good()
    return target


def _overwrite(own: Mapping[str, str]) -> dict[str, Any]:
    how: dict[str, Any] = {"overwrite": True}
    mode = own.get(OVERWRITE_MODE) or own.get(SPARK_OVERWRITE_MODE)
    if mode is not None:
        how["mode"] = mode.lower()
    if OVERWRITE_PARTITION in own:
        how["partition"] = partitions_in(OVERWRITE_PARTITION, own[OVERWRITE_PARTITION])
    return how


def _no_overwrite(own: Mapping[str, str]) -> dict[str, Any]:
    for name in (OVERWRITE_MODE, OVERWRITE_PARTITION):
        if name in own:
            raise InvalidOptionError(
                f"option {name!r} = {own[name]!r}: this write appends; say .mode('overwrite')"
            )
    return {}


def _identity(given: SourceOptions) -> dict[str, Any]:
    user, number = given.own.get(COMMIT_USER), given.own.get(COMMIT_ID)
    if (user is None) != (number is None):
        raise InvalidOptionError(
            f"{COMMIT_USER} = {user!r}, {COMMIT_ID} = {number!r}: give both, or none"
        )
    if user is None or number is None:
        return {}
    return {"commit_user": user, "commit_id": whole_number(COMMIT_ID, number)}
