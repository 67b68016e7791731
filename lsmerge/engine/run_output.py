"""Sorted rows as run files of one level: what compaction and rescaling write."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.engine.memory import release_unused
from lsmerge.errors import StorageError
from lsmerge.merge.written import is_targeted, with_written
from lsmerge.meta.data_file import BucketId, DataFile
from lsmerge.storage import layout
from lsmerge.storage.run_file import RunWriter
from lsmerge_native.keys import Keys

# Part of the budget for what an unfinished file holds: rows that compress very well make many of them.
SHARE_FOR_FILTER = 8
# Part of the budget that may be written before freed memory leaves the process: sooner, it would be wanted at once.
SHARE_FOR_REUSE = 16


@dataclass(frozen=True, slots=True)
class RunTarget:
    """Where files go and what they say of themselves; settled by the thread that hands out the work."""

    place: BucketId
    level: int
    num_buckets: int
    uid: str
    created_ms: int


class RunOutput:
    """Writes sorted batches as files of one level, each closed when it reaches the target size.

    Files say what rows wrote from the first batch on that does: whole rows before it pay nothing.
    """

    def __init__(self, context: TableContext, target: RunTarget) -> None:
        self._context = context
        self._target = target
        self._format = context.run_format(target.level)
        self._files: list[DataFile] = []
        self._writer: RunWriter | None = None
        self._is_targeted = False
        self._unreleased_bytes = 0

    def write(self, batches: Iterable[pa.RecordBatch]) -> Sequence[DataFile]:
        """The files that hold `batches` and nothing else; if one fails, none stays, also not of earlier calls."""
        start = len(self._files)
        try:
            for batch in batches:
                self.append(batch)
            return self.finish()[start:]
        except BaseException:
            self.abort()
            raise

    def append(self, batch: pa.RecordBatch) -> None:
        """Batches come in key order."""
        if is_targeted(batch) and not self._is_targeted:
            self._end_file()
            self._is_targeted = True
        rows = with_written(batch) if self._is_targeted else batch
        keys = self._context.keys(batch)
        target_size = self._context.options.target_file_size
        start = 0
        while start < rows.num_rows:
            if self._writer is None:
                self._writer = self._open()
            stop = _fitting(rows, keys, start, target_size - self._writer.size_bytes)
            self._writer.write(rows.slice(start, stop - start), keys.slice(start, stop))
            start = stop
            if self._is_full(self._writer):
                self._end_file()
        self._let_go_of(rows.nbytes)

    def finish(self) -> tuple[DataFile, ...]:
        """All files written so far."""
        self._end_file()
        return tuple(self._files)

    def abort(self) -> None:
        """Leave nothing."""
        if self._writer is not None:
            self._writer.abort()
        discard(self._context, self._files)

    def _let_go_of(self, num_bytes: int) -> None:
        self._unreleased_bytes += num_bytes
        if self._unreleased_bytes >= self._context.options.scan_memory_budget // SHARE_FOR_REUSE:
            release_unused()
            self._unreleased_bytes = 0

    def _is_full(self, writer: RunWriter) -> bool:
        options = self._context.options
        room = options.scan_memory_budget // SHARE_FOR_FILTER
        return writer.size_bytes >= options.target_file_size or writer.held_bytes >= room

    def _open(self) -> RunWriter:
        name = layout.run_name(self._target.uid, len(self._files), self._format.format)
        path = self._context.bucket_path(self._target.place, name)
        schema = self._context.schema
        fields = schema.targeted_file_schema if self._is_targeted else schema.file_schema
        return RunWriter(self._context.store, path, fields, self._format)

    def _end_file(self) -> None:
        if self._writer is None:
            return
        # A writer that fails here is still to be aborted: dropped, it would try to write its footer.
        summary, target = self._writer.finish(), self._target
        self._writer = None
        self._files.append(
            DataFile(
                target.place,
                target.level,
                summary,
                self._context.schema.id,
                target.created_ms,
                num_buckets=target.num_buckets,
            )
        )


def discard(context: TableContext, files: Iterable[DataFile]) -> None:
    """Delete files that were never published."""
    for file in files:
        with suppress(StorageError):  # then it is an orphan: nothing refers to it
            context.store.delete(context.file_path(file))


def _fitting(batch: pa.RecordBatch, keys: Keys, start: int, room: int) -> int:
    """Where to stop so that the rows from `start` on take about `room` bytes uncompressed and no key is cut."""
    row_bytes = max(1, batch.nbytes // batch.num_rows)
    stop = start + max(1, room // row_bytes)
    if stop >= len(keys):
        return len(keys)
    return keys.search(keys.bytes_at(stop - 1), right=True)
