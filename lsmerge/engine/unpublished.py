"""Runs that a writer has written and not published: in the order of arrival, replaceable, and deleted if all fails.

Runs that another process wrote may be taken over. These are replaced like others, but stay where they are: who wrote
them may want to try again.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, count
from typing import NamedTuple

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.errors import StorageError
from lsmerge.merge.written import with_written
from lsmerge.meta.data_file import BucketId, DataFile
from lsmerge.rowkind import WRITTEN_COLUMN
from lsmerge.storage import layout
from lsmerge.storage.run_file import UnsyncedRun, open_run, write_unsynced

logger = logging.getLogger("lsmerge.flush")


class UnpublishedRun(NamedTuple):
    """A run whose bytes are written, and what makes it durable: to be called once, by any thread."""

    file: DataFile
    num_blocks: int
    sync: Callable[[], None]


class UnpublishedRuns:
    """The level-0 runs of one commit to be.

    `files` is in the order in which the rows came: a row is newer than those of its key in earlier files.
    """

    def __init__(self, context: TableContext, schema: pa.Schema) -> None:
        """`schema` is that of the files: whether their rows say what they wrote."""
        self._context = context
        self.schema = schema
        self._is_targeted = WRITTEN_COLUMN in schema.names
        self._uid = context.env.new_id()
        self._numbers = count()
        self._paths: set[str] = set()
        self.files: list[DataFile] = []

    @property
    def places(self) -> set[BucketId]:
        """The buckets that the runs go to."""
        return {file.place for file in self.files}

    def adopt(self, files: Iterable[DataFile]) -> None:
        """Take over runs that somebody else wrote, newer than all so far."""
        self.files.extend(files)

    def write(self, place: BucketId, batches: Iterable[pa.RecordBatch]) -> DataFile:
        """One more run, of rows sorted by key; it is not in `files` yet. May be called by several threads."""
        run = self.write_unsynced(place, batches)
        run.sync()
        return run.file

    def write_unsynced(
        self, place: BucketId, batches: Iterable[pa.RecordBatch]
    ) -> "UnpublishedRun":
        """The same, but the file is not there before its `sync`, which must be called."""
        context = self._context
        fmt = context.run_format(level=0)
        name = layout.run_name(self._uid, next(self._numbers), fmt.format)
        path = context.bucket_path(place, name)
        stored = map(with_written, batches) if self._is_targeted else batches
        blocks = ((batch, context.keys(batch)) for batch in stored)
        run = write_unsynced(context.store, path, self.schema, blocks, fmt)
        file = DataFile(place, 0, run.summary, context.schema.id, context.env.now_ms())
        rows, size = run.summary.num_rows, run.summary.size_bytes
        context.counters.add(flushes=1, rows_flushed=rows, bytes_flushed=size)
        logger.debug("%s: flushed %d rows, %d bytes to %s", context.store.uri, rows, size, path)
        return UnpublishedRun(file, run.num_blocks, partial(self._sync, path, run))

    def _sync(self, path: str, run: UnsyncedRun) -> None:
        run.sync()
        self._paths.add(path)

    def rows(self, file: DataFile) -> Iterator[pa.RecordBatch]:
        """All rows of a run, in key order."""
        reader = open_run(self._context.store, self._context.file_path(file), file.run)
        try:
            for number in range(reader.num_blocks):
                yield reader.read_block(number, self.schema)
        finally:
            reader.close()

    def rewrite(
        self,
        file: DataFile,
        place: BucketId,
        change: Callable[[pa.RecordBatch], pa.RecordBatch],
    ) -> list[DataFile]:
        """The run that `change` makes of the rows of `file`; none if it leaves no row. The order of keys must stay."""
        changed = (change(batch) for batch in self.rows(file))
        batches = (batch for batch in changed if batch.num_rows)
        first = next(batches, None)
        return [] if first is None else [self.write(place, chain([first], batches))]

    def replace(self, file: DataFile, parts: Sequence[DataFile]) -> None:
        """Put `parts` in the place of `file`, and delete it if it was written here."""
        position = [other.name for other in self.files].index(file.name)
        self.files[position : position + 1] = parts
        self._paths.update(map(self._context.file_path, parts))
        self._delete(self._context.file_path(file))

    def discard(self) -> None:
        """Delete everything."""
        for path in list(self._paths):
            self._delete(path)
        self.files.clear()

    def _delete(self, path: str) -> None:
        if path not in self._paths:
            return
        self._paths.remove(path)
        with suppress(StorageError):  # then it is an orphan: nothing refers to it
            self._context.store.delete(path)
