"""A scan as a `pyarrow.dataset.Dataset`, by which DuckDB and others push columns and filters down.

Who reads a dataset through its Python methods (DuckDB, `to_table`, `to_batches`, `count_rows`, ...) comes to `scanner`,
which hands columns and filter to the scan; the whole filter is evaluated once more on what comes back, so a filter that
cannot be pushed down costs time only. Batches are made when they are asked for, on the thread that asks: Arrow's own
scanner would read ahead, on threads that outlive an abandoned reader.

Arrow's C++ code knows nothing of merging, so the dataset that it sees below is one that fails to read: nobody gets no
rows, or unmerged ones, by surprise.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NoReturn, TypeAlias

import pyarrow as pa

from lsmerge.errors import NotPlainError

# Reads at least the columns named (all if None), and at least the rows that pass a pyarrow expression (all if None).
Read: TypeAlias = Callable[[Sequence[str] | None, Any], pa.RecordBatchReader]

_NOT_A_FILE = b"rows of an lsmerge table must be merged: read them by the methods of the dataset"


def dataset(schema: pa.Schema, read: Read) -> Any:
    """The dataset of all rows that `read` gives."""
    return _dataset_class()(schema, read)


class MergedScanner:
    """One read of a dataset, described but not started; each use reads afresh."""

    def __init__(self, schema: pa.Schema, read: Read, columns: Any, condition: Any) -> None:
        """`columns` are names, or new names with expressions; `condition` is an expression or None."""
        self.dataset_schema = schema
        self._read = read
        self._columns = columns
        self._condition = condition

    @property
    def projected_schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self._selected(self.dataset_schema.empty_table()).schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Stream the rows."""
        # A mapping holds expressions, which may need any column.
        names = self._columns if isinstance(self._columns, list | tuple) else None
        for rows in self._parts(names):
            yield from self._selected(rows).to_batches()

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as an Arrow stream."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_table(self) -> pa.Table:
        """All rows as one table."""
        return pa.Table.from_batches(self.to_batches(), self.projected_schema)

    def head(self, num_rows: int) -> pa.Table:
        """The first rows."""
        found: list[pa.RecordBatch] = []
        batches = self.to_batches()
        while num_rows > 0 and (batch := next(batches, None)) is not None:
            found.append(batch.slice(0, num_rows))
            num_rows -= batch.num_rows
        batches.close()  # type: ignore[attr-defined]  # a generator: files are let go of here
        return pa.Table.from_batches(found, self.projected_schema)

    def count_rows(self) -> int:
        """How many rows there are."""
        return sum(self._filtered(rows).num_rows for rows in self._parts([]))

    def _parts(self, names: Sequence[str] | None) -> Iterator[pa.Table]:
        """What the scan gives, batch by batch: these columns, and those of the filter."""
        with self._read(names, self._condition) as batches:
            for batch in batches:
                yield pa.Table.from_batches([batch])

    def _filtered(self, rows: pa.Table) -> pa.Table:
        return rows if self._condition is None else rows.filter(self._condition)

    def _selected(self, rows: pa.Table) -> pa.Table:
        if self._columns is None:
            return self._filtered(rows)
        if isinstance(self._columns, dict):
            import pyarrow.dataset as ds

            source = ds.dataset(rows)
            return source.to_table(self._columns, filter=self._condition, use_threads=False)
        return self._filtered(rows).select(self._columns)


@cache
def _dataset_class() -> Any:
    """Made when first needed: `pyarrow.dataset` is slow to import."""
    import pyarrow.dataset as ds

    class MergedDataset(ds.FileSystemDataset):  # type: ignore[misc]
        """The merged rows of a table at one snapshot; each use reads afresh."""

        def __init__(self, schema: pa.Schema, read: Read, condition: Any = None) -> None:
            fragment = ds.ParquetFileFormat().make_fragment(pa.py_buffer(_NOT_A_FILE))
            super().__init__([fragment], schema, ds.ParquetFileFormat())
            self._read = read
            self._condition = condition

        def scanner(self, columns: Any = None, filter: Any = None, **_options: Any) -> Any:  # noqa: A002
            """A scanner of merged rows; names and the filter reach the scan. Options are those of files."""
            return MergedScanner(self.schema, self._read, columns, _both(self._condition, filter))

        def filter(self, expression: Any) -> Any:
            """The dataset of the rows that pass `expression`."""
            return type(self)(self.schema, self._read, _both(self._condition, expression))

        def __reduce__(self) -> NoReturn:
            """Refused: an open table holds files and caches of this process."""
            raise TypeError("the dataset of a table cannot be pickled; send Scan.splits instead")

    for name in ("get_fragments", "join", "join_asof", "replace_schema", "sort_by", "take"):
        setattr(MergedDataset, name, _refused(name))
    MergedDataset.files = property(_refused("files"))
    return MergedDataset


def _both(first: Any, second: Any) -> Any:
    if first is None or second is None:
        return second if first is None else first
    return first & second


def _refused(name: str) -> Callable[..., NoReturn]:
    def refuse(*_given: Any, **_named: Any) -> NoReturn:
        raise NotPlainError(
            f"Dataset.{name}: the rows of a table are merged as they are read, so they are no files or fragments; "
            "use to_table(), and go on with that"
        )

    return refuse
