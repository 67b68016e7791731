"""A scan as a `pyarrow.dataset.Dataset`, by which DuckDB and others push columns and filters down.

Who reads a dataset through its Python methods (DuckDB, `to_table`, `to_batches`, `count_rows`, `write_dataset`) comes
to `scanner`, which hands columns and filter to the scan; Arrow evaluates the whole filter once more on what comes back,
so a filter that cannot be pushed down costs time only. Arrow's own C++ code knows nothing of merging, so the dataset
that it sees below is one that fails to read: nobody gets no rows, or unmerged ones, by surprise.
"""

from collections.abc import Callable, Sequence
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

        def scanner(self, columns: Any = None, filter: Any = None, **options: Any) -> Any:  # noqa: A002
            """A scanner of merged rows, to be used once; names and the filter reach the scan."""
            condition = _both(self._condition, filter)
            # A mapping holds expressions, which may need any column.
            names = columns if isinstance(columns, list | tuple) else None
            rows = self._read(names, condition)
            kept = {
                name: options[name] for name in ("use_threads", "memory_pool") if name in options
            }
            return ds.Scanner.from_batches(
                rows,
                columns=self.schema.names if columns is None else columns,
                filter=condition,
                **kept,
            )

        def filter(self, expression: Any) -> Any:
            """The dataset of the rows that pass `expression`."""
            return type(self)(self.schema, self._read, _both(self._condition, expression))

        def __reduce__(self) -> NoReturn:
            """Refused: an open table holds files and caches of this process."""
            raise TypeError("the dataset of a table cannot be pickled; send Scan.splits instead")

    for name in ("get_fragments", "join", "join_asof", "replace_schema", "sort_by"):
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
