"""What a statement gives: rows, or nothing but the fact that it was done."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from lsmerge.statements.drawing import drawn


class Result:
    """The rows of one statement, read when they are asked for; each use reads afresh, from the same snapshots.

    A statement that gives no rows has a `schema` without columns. `snapshot_id` is the snapshot that a write made, None
    if it made none, `rows_written` how many rows it gave the table. Printed, it is a drawn table, or nothing.
    """

    def __init__(
        self,
        schema: pa.Schema | None = None,
        batches: Callable[[], Iterator[pa.RecordBatch]] = lambda: iter(()),
        snapshot_id: int | None = None,
        rows_written: int | None = None,
    ) -> None:
        self.schema = pa.schema([]) if schema is None else schema
        self.snapshot_id = snapshot_id
        self.rows_written = rows_written
        self.statement = ""  # the first word of what it is the result of
        self._batches = batches

    @property
    def has_rows(self) -> bool:
        """Whether the statement is one that gives rows, be there any or not."""
        return len(self.schema) > 0

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as they come; memory does not grow with their number."""
        return self._batches()

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as an Arrow stream."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def to_arrow(self) -> pa.Table:
        """All rows as an Arrow table."""
        return pa.Table.from_batches(self._batches(), schema=self.schema)

    def to_pylist(self) -> list[dict[str, Any]]:
        """All rows as dictionaries."""
        rows: list[dict[str, Any]] = self.to_arrow().to_pylist()
        return rows

    def lines(self) -> Iterator[str]:
        """The drawn table line by line; nothing if the statement gives no rows."""
        return drawn(self.schema, self._batches()) if self.has_rows else iter(())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows for any Arrow consumer."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        if self.has_rows:
            return f"Result(columns={self.schema.names})"
        return f"Result(snapshot_id={self.snapshot_id})"
