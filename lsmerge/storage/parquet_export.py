"""Rows as Parquet files for others to keep: each whole and durable, or not there.

These are not files of a table: nothing refers to them, and lsmerge never looks at them again.
"""

from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, Self

import pyarrow as pa

from lsmerge.errors import StorageError, TableExistsError
from lsmerge.storage.object_store import Buffer, ObjectStore, Sink
from lsmerge.storage.objects import WriteOnly

# Rows are collected into groups of this size: small ones compress badly, and are slow to read.
ROW_GROUP_BYTES = 16 << 20


class ExportedFile(NamedTuple):
    """One file written."""

    path: str
    num_rows: int
    size_bytes: int


class ParquetExport:
    """Writes `part-00000.parquet`, `part-00001.parquet`, ... each ended after about `max_bytes`; at least one.

    As a context manager it deletes what it wrote if the block raises.
    """

    def __init__(self, store: ObjectStore, schema: pa.Schema, max_bytes: int) -> None:
        if next(iter(store.list("")), None) is not None:
            raise TableExistsError(
                f"{store.uri} holds files already; export into a new or empty directory"
            )
        self._store = store
        self._schema = schema
        self._max_bytes = max_bytes
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._open: _OpenFile | None = None
        self.files: list[ExportedFile] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes >= ROW_GROUP_BYTES:
            self._write_group()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._abort()
            return
        try:
            self._finish()
        except BaseException:
            self._abort()
            raise

    def _finish(self) -> None:
        if self._waiting or not (self.files or self._open):
            self._write_group()
        if self._open is not None:
            self._end_file()

    def _write_group(self) -> None:
        if self._open is None:
            path = f"part-{len(self.files):05}.parquet"
            self._open = _OpenFile(path, self._store.create(path), self._schema)
        self._open.write(pa.Table.from_batches(self._waiting, self._schema))
        self._waiting.clear()
        self._waiting_bytes = 0
        if self._open.size_bytes >= self._max_bytes:
            self._end_file()

    def _end_file(self) -> None:
        assert self._open is not None
        self.files.append(self._open.close())
        self._open = None

    def _abort(self) -> None:
        if self._open is not None:
            self._open.abort()
        for file in self.files:
            with suppress(StorageError):  # whoever exports again is told that files are there
                self._store.delete(file.path)


class _OpenFile:
    def __init__(self, path: str, sink: Sink, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        self._path = path
        self._sink = sink
        self._file = _UnpublishedFile(sink)
        python_file = pa.PythonFile(self._file, mode="w")
        self._writer = pq.ParquetWriter(python_file, schema, compression="zstd")
        self._num_rows = 0

    @property
    def size_bytes(self) -> int:
        return self._sink.tell()

    def write(self, group: pa.Table) -> None:
        self._writer.write_table(group, row_group_size=max(1, group.num_rows))
        self._num_rows += group.num_rows

    def close(self) -> ExportedFile:
        self._writer.close()
        size_bytes = self._sink.tell()
        self._file.closed = True
        self._sink.close()
        return ExportedFile(self._path, self._num_rows, size_bytes)

    def abort(self) -> None:
        self._file.closed = True
        self._sink.abort()


class _UnpublishedFile(WriteOnly):
    """Closing does nothing: format writers close their file, and write its footer, when they are garbage-collected."""

    def __init__(self, sink: Sink) -> None:
        self.closed = False
        self._sink = sink

    def write(self, data: Buffer) -> int:
        return len(memoryview(data)) if self.closed else self._sink.write(data)

    def tell(self) -> int:
        return self._sink.tell()

    def close(self) -> None:
        return None
