"""Writing the micro-batches of a stream, each in one commit, exactly once.

A commit is known by its query, which outlives restarts, and the number of its batch. Batches are committed in order,
so a number that is not above the last one has been committed before: Spark repeats it because it stopped before it
could note that.
"""

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, DataSourceStreamWriter
from pyspark.sql.types import StructType

from lsmerge import InvalidOptionError, Table
from lsmerge.spark.heap import keep_for_good
from lsmerge.spark.options import source_options
from lsmerge.spark.write import (
    COMMIT_ID,
    COMMIT_USER,
    OWN_OPTIONS,
    TableWrite,
    TaskMessage,
    prepared,
)

QUERY_PROPERTY = "sql.streaming.queryId"


class LsmergeStreamWriter(DataSourceStreamArrowWriter):
    """All micro-batches of a stream. The one that commits is another object than those that write."""

    def __init__(self, target: TableWrite) -> None:
        self._target = target

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        return TaskMessage(self._target.run_task(iterator), _query())

    def commit(self, messages: list[TaskMessage | None], batchId: int) -> None:  # type: ignore[override]  # noqa: N803 - Spark's name
        tasks = [message for message in messages if message is not None]
        contents = [task.content for task in tasks]
        user = f"spark-{tasks[0].query}" if tasks else None
        with self._target.open() as table:
            if user is None:
                self._commit_nothing(table)
            elif _last_batch(table, user) >= batchId:
                table.discard_tasks(contents)
            else:
                how = self._target.overwrite
                table.commit_tasks(contents, commit_user=user, commit_id=batchId, **how)
        keep_for_good()

    def abort(self, messages: list[TaskMessage | None], batchId: int) -> None:  # type: ignore[override]  # noqa: ARG002, N803
        self._target.abort(messages)

    def _commit_nothing(self, table: Table) -> None:
        """A batch without tasks has no rows; where a batch is the whole result, the table has none then."""
        if self._target.overwrite:
            table.commit_tasks([], **self._target.overwrite)


def writer(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> DataSourceStreamWriter:
    """What writes the micro-batches of a stream; with `overwrite` each replaces all before it."""
    given = source_options(options, OWN_OPTIONS)
    for name in (COMMIT_USER, COMMIT_ID):
        if name in given.own:
            raise InvalidOptionError(
                f"option {name!r} = {given.own[name]!r}: a stream has the identity of its checkpoint; leave it out"
            )
    return LsmergeStreamWriter(prepared(given, schema, overwrite=overwrite))


def _query() -> str:
    context = TaskContext.get()
    assert context is not None, "tasks run in Spark"
    query = context.getLocalProperty(QUERY_PROPERTY)
    assert query is not None, "tasks of a stream know their query"
    return query


def _last_batch(table: Table, user: str) -> int:
    latest = table.latest_snapshot()
    progress = latest.users.get(user) if latest else None
    return -1 if progress is None else progress.max_identifier
