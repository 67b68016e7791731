"""One task's part of a commit that many processes write together.

    write rows -> level-0 runs, as any writer makes them -> finish: a message that names them -> (task_commit.py)

A task works as if it were alone. What it cannot know, since other tasks have rows of the same keys, it leaves to the
commit: the changelog of old and new values, combining the rows of the commit, and where a key lives whose partition is
open (its rows are then only staged). A task that has a share, which is all rows of some keys, leaves nothing.
"""

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.engine.overwrite import Replacement
from lsmerge.engine.placement import Placed, Placer, RebaseStep
from lsmerge.engine.pre_combine import Combine
from lsmerge.engine.rebase import placer_of
from lsmerge.engine.shares import check_share
from lsmerge.engine.task_message import Share, TaskResult, encode
from lsmerge.engine.write import TableWriter
from lsmerge.engine.write_buffer import Bucket
from lsmerge.errors import InvalidOptionError
from lsmerge.failpoints import failpoint
from lsmerge.merge.groups import Groups, sort_groups
from lsmerge.meta.data_file import BucketId, CommitKind, DataFile, Edit, Partition
from lsmerge_native.reduce import all_rows


class TaskWriter:
    """Collects the rows of one task; `finish` gives the message for `commit_tasks`.

    As a context manager it leaves nothing if the block raises, or ends without `finish`.
    """

    def __init__(
        self,
        context: TableContext,
        columns: Sequence[str] | None,
        share: tuple[int, int] | None,
        replaced: Replacement | None,
    ) -> None:
        self._rows = _TaskRows(context, columns, _checked_share(share), replaced)

    def write(self, data: Any) -> None:
        """Add rows. Their memory must stay as it is until the task is finished."""
        self._rows.take(data)

    def finish(self) -> bytes:
        """Make everything written durable, and name it; rows of a message that is never committed are never seen."""
        return encode(self._rows.finish())

    def abort(self) -> None:
        """Forget all rows and delete what was written; nothing after `finish`."""
        self._rows.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.abort()


class _TaskRows(TableWriter):
    """A writer that hands its runs over where others commit them."""

    def __init__(
        self,
        context: TableContext,
        columns: Sequence[str] | None,
        share: Share | None,
        replaced: Replacement | None,
    ) -> None:
        self._share = share
        self._replaced = replaced
        self._is_staged = share is None and needs_staging(context, replaced)
        latest = context.snapshots.latest()
        self._begun_after = 0 if latest is None else latest.id
        super().__init__(context, columns)

    def take(self, data: Any) -> None:
        self._check_open()
        with self._failing("an earlier write failed"):
            self.add(self._normalised(data), keeps_memory=False)

    def finish(self) -> TaskResult:
        self._check_open()
        with self._failing("finishing the task failed"):
            self._finish()
            placed = self._placer.hand_over()
            if self._looks_up:
                self._look_up()
            result = self._result(placed)
            failpoint("task.after-finish")
        self._closed_by = "it was finished"
        return result

    def _result(self, placed: Placed) -> TaskResult:
        return TaskResult(
            uri=self._context.store.uri,
            schema_id=self._context.schema.id,
            begun_after=self._begun_after,
            columns=self.columns,
            share=self._share,
            overwrites=self._replaced is not None,
            is_staged=self._is_staged,
            files=tuple(self._runs.files),
            changelog=tuple(self._changelog),
            told=tuple(self._lookup.made()),
            placed=placed,
        )

    def _look_up(self) -> None:
        """Compare with what is there now; the commit takes it over where nothing else has come."""
        edit = Edit(CommitKind.APPEND, self._context.schema.id, tuple(self._runs.files))
        self._lookup.added_to(edit, self._context.snapshots.latest())

    def _new_placer(self) -> Placer:
        if self._is_staged:
            return _StagingPlacer(self._context)
        sharers = 1 if self._share is None else self._share.total
        return placer_of(self._context, self._runs, self._spill_bucket, sharers)

    @property
    def _combiner(self) -> Combine | None:
        return None if self._share is None else super()._combiner

    @property
    def _tells_input(self) -> bool:
        return super()._tells_input and self._replaced is None and not self._is_staged

    @property
    def _looks_up(self) -> bool:
        """Others may have rows of the same keys, unless each task has a share of them."""
        return super()._looks_up and self._share is not None and self._replaced is None

    def _buffer(self, batch: pa.RecordBatch, *, keeps_memory: bool) -> None:
        if self._share is not None:
            check_share(self._context, *self._share, batch)
        super()._buffer(batch, keeps_memory=keeps_memory)
        if self._replaced is not None:
            self._replaced.check_inside([*self._buffered.places, *self._runs.places])

    def _sorted(self, bucket: Bucket) -> tuple[Groups, int]:
        groups, max_rows = super()._sorted(bucket)
        if self._is_staged and self._context.engine.order.columns:
            # Whoever places the rows needs those of a key as they came.
            batches = bucket.settle()
            groups = sort_groups(batches, self._context.keys(*batches))
        return groups, max_rows

    def _composed(self, groups: Groups) -> pa.RecordBatch:
        if not self._is_staged:
            return super()._composed(groups)
        return groups.take(all_rows(groups.plan), self._runs.schema.names)


class _StagingPlacer:
    """Keeps rows without giving them a place."""

    steps: tuple[RebaseStep, ...] = ()

    def __init__(self, context: TableContext) -> None:
        self._place = BucketId((None,) * len(context.schema.partition_by), 0)

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[BucketId, pa.RecordBatch]]:
        if batch.num_rows:
            yield self._place, batch

    def count_of(self, partition: Partition) -> int:  # noqa: ARG002
        return 0

    def hand_over(self) -> Placed:
        return Placed()

    def adopt(self, files: Sequence[DataFile], placed: Placed) -> None:  # noqa: ARG002
        raise AssertionError("only a commit takes runs over, and it places staged rows")

    def discard(self) -> None:
        """Nothing but runs was written."""


def needs_staging(context: TableContext, replaced: Replacement | None) -> bool:
    """Whether rows get their places only when those of all tasks are known.

    Where a key lives may depend on rows of other tasks; and input rows of a key, which two tasks may put into two
    buckets, are told in order only within one.
    """
    if context.schema.is_cross_partition:
        return True
    tells_input = context.options.changelog_producer == "input" and replaced is None
    return context.options.has_dynamic_buckets and tells_input


def _checked_share(share: Any) -> Share | None:
    if share is None:
        return None
    is_pair = isinstance(share, tuple | list) and len(share) == 2
    if not is_pair or not all(type(number) is int for number in share):
        raise InvalidOptionError(
            f"share = {share!r}: pass (number of the task, how many there are)"
        )
    number, count = share
    if not 0 <= number < count:
        raise InvalidOptionError(
            f"share = {share!r}: the number of the task is from 0 to {count - 1}"
        )
    return Share(number, count)
