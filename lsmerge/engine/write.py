"""The write path, top to bottom.

    normalise -> lift -> split by partition and bucket -> buffer -> sort and merge -> level-0 run -> commit

A writer buffers under one budget and spills the fullest buckets when it must; everything it spilled is published in
one snapshot or not at all. Reading one's own uncommitted writes is not offered.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from lsmerge.engine.buckets import split_by_bucket
from lsmerge.engine.context import TableContext
from lsmerge.engine.ingest import Kinds, normalise
from lsmerge.engine.key_input import as_key_data
from lsmerge.engine.parallel import ordered_map
from lsmerge.errors import CommitConflictError, StorageError, TableClosedError
from lsmerge.merge.groups import row_numbers, sort_groups
from lsmerge.meta.commit import CommitRequest
from lsmerge.meta.data_file import BucketId, CommitKind, DataFile, Edit
from lsmerge.meta.snapshot import Snapshot
from lsmerge.rowkind import RowKind
from lsmerge.storage import layout
from lsmerge.storage.run_file import write_run

# The rest is for keys, the sorted order and the portions on their way into a file.
SHARE_FOR_ROWS = 0.5
PORTION_ROWS = 32_768
# Arrow's 32-bit string offsets and the plan's row numbers both stay far away at this size.
MAX_RUN_BYTES = 1 << 30


def write(
    context: TableContext,
    data: Any,
    commit_user: str | None = None,
    commit_id: int | None = None,
) -> Snapshot:
    """One commit of `data`."""
    writer = TableWriter(context, commit_user, commit_id)
    writer.write(data)
    return writer.commit()


def delete(context: TableContext, keys: Any) -> Snapshot:
    """One commit of delete rows for `keys`, which also hold the sequence columns where the table has them."""
    columns = tuple(dict.fromkeys((*context.schema.primary_key, *context.options.sequence_field)))
    batches = normalise(
        as_key_data(keys, columns), context.schema, columns, default_kind=RowKind.DELETE
    )
    writer = TableWriter(context)
    writer.write_normal(batches)
    return writer.commit()


@dataclass(slots=True)
class _Bucket:
    """Rows of one bucket in arrival order, not written yet."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    num_rows: int = 0
    size_bytes: int = 0

    def append(self, batch: pa.RecordBatch) -> None:
        """Number the rows in the order they came, and keep them."""
        numbers = row_numbers(batch.num_rows, self.num_rows)
        columns = [numbers, *batch.columns[1:]]
        self.batches.append(pa.RecordBatch.from_arrays(columns, schema=batch.schema))
        self.num_rows += batch.num_rows
        self.size_bytes += batch.nbytes


class TableWriter:
    """Collects rows and publishes them in one commit.

    As a context manager it commits at the end of the block, and leaves nothing if the block raises.
    """

    def __init__(
        self, context: TableContext, commit_user: str | None = None, commit_id: int | None = None
    ) -> None:
        self._context = context
        self._commit_user = commit_user
        self._commit_id = commit_id
        self._buckets: dict[BucketId, _Bucket] = {}
        self._buffered_bytes = 0
        self._runs: list[DataFile] = []
        self._paths: list[str] = []
        self._uid = context.env.new_id()
        self._closed_by: str | None = None
        self.snapshot: Snapshot | None = None

    def write(self, data: Any) -> None:
        """Add rows. A refused batch ends the writer: nothing of it will be committed."""
        context = self._context
        field_ = context.options.rowkind_field
        self._check_open()
        try:
            self.write_normal(normalise(data, context.schema, rowkind_field=field_))
        except BaseException as error:
            self.abort(f"an earlier write failed: {error}")
            raise

    def write_normal(self, batches: Iterable[tuple[pa.RecordBatch, Kinds]]) -> None:
        """Add rows that passed the door."""
        for batch, kinds in batches:
            self._buffer(self._context.engine.lift(self._with_system_columns(batch, kinds)))

    def commit(self) -> Snapshot:
        """Publish everything written, durably, as one snapshot."""
        self._check_open()
        try:
            self._spill(list(self._buckets))
        except BaseException as error:
            self.abort(f"writing a run failed: {error}")
            raise
        self._closed_by = "it was committed"
        self.snapshot = self._publish()
        return self.snapshot

    def abort(self, reason: str = "it was aborted") -> None:
        """Forget all rows and delete the runs already spilled. Requires: nothing was published."""
        self._closed_by = reason
        self._buckets.clear()
        self._discard_runs()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.commit()
        elif self._closed_by is None:
            self.abort()

    def _check_open(self) -> None:
        if self._closed_by is not None:
            raise TableClosedError(f"this writer is closed: {self._closed_by}; open a new one")

    def _with_system_columns(self, batch: pa.RecordBatch, kinds: Kinds) -> pa.RecordBatch:
        """Kinds, and room for the sequence numbers that a bucket gives its rows."""
        count = batch.num_rows
        if kinds is None:
            kinds = pa.repeat(pa.scalar(int(RowKind.INSERT), pa.int8()), count)
        sequence = pa.repeat(pa.scalar(0, pa.int64()), count)
        return pa.RecordBatch.from_arrays(
            [sequence, kinds, *batch.columns], schema=self._context.schema.file_schema
        )

    def _buffer(self, batch: pa.RecordBatch) -> None:
        for place, rows in split_by_bucket(self._context.schema, self._context.options, batch):
            self._buckets.setdefault(place, _Bucket()).append(rows)
            self._buffered_bytes += rows.nbytes
        self._spill(list(self._overflowing()))

    def _overflowing(self) -> Iterator[BucketId]:
        """The fullest buckets, until half of the room is free again."""
        room = int(self._context.options.write_buffer_size * SHARE_FOR_ROWS)
        buffered = self._buffered_bytes
        fullest = sorted(self._buckets, key=lambda place: -self._buckets[place].size_bytes)
        for place in fullest:
            if self._buckets[place].size_bytes > MAX_RUN_BYTES or self._buffered_bytes > room:
                if buffered <= room // 2:
                    return
                buffered -= self._buckets[place].size_bytes
                yield place

    def _spill(self, places: Sequence[BucketId]) -> None:
        """Write each bucket's rows as one level-0 run."""
        work = [
            (place, self._buckets.pop(place), number) for number, place in self._numbered(places)
        ]
        self._buffered_bytes = sum(bucket.size_bytes for bucket in self._buckets.values())
        self._runs.extend(ordered_map(lambda item: self._write_run(*item), work))

    def _numbered(self, places: Sequence[BucketId]) -> Iterator[tuple[int, BucketId]]:
        return enumerate(places, start=len(self._runs))

    def _write_run(self, place: BucketId, bucket: _Bucket, number: int) -> DataFile:
        context = self._context
        fmt = context.run_format(level=0)
        path = context.bucket_path(place, layout.run_name(self._uid, number, fmt.format))
        merged = self._merged(bucket)
        blocks = ((batch, context.keys(batch)) for batch in merged)
        summary = write_run(context.store, path, context.schema.file_schema, blocks, fmt)
        self._paths.append(path)
        return DataFile(place, 0, summary, context.schema.id, context.env.now_ms())

    def _merged(self, bucket: _Bucket) -> Iterator[pa.RecordBatch]:
        """The bucket's rows, sorted and composed, in portions: the rows are in memory once."""
        context = self._context
        keys, order = context.keys(*bucket.batches), context.order(*bucket.batches)
        groups = sort_groups(bucket.batches, keys, order)
        return ordered_map(
            lambda part: context.engine.compose(part, forget_before=0),
            groups.portions(PORTION_ROWS),
        )

    def _publish(self) -> Snapshot:
        edit = Edit(CommitKind.APPEND, self._context.schema.id, add=tuple(self._runs))
        request = CommitRequest(edit, self._commit_user, self._commit_id)
        try:
            snapshot = self._context.committer.commit(request)
        except CommitConflictError:
            # Only this error says for sure that nothing was published; after any other one the runs may be
            # referenced, so they stay, and orphan removal takes them if they are not.
            self._discard_runs()
            raise
        return snapshot

    def _discard_runs(self) -> None:
        for path in self._paths:
            with suppress(StorageError):  # then it is an orphan: nothing refers to it
                self._context.store.delete(path)
        self._runs.clear()
        self._paths.clear()
