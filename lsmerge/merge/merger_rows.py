"""What goes to a user's merger and what comes back: nothing that it returns is taken on trust.

Every outcome passes the same door as rows that a user writes: it has all columns, of their types, with the key of the
rows it was made from. What does not is a MergeValueError that names the merger and the key.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from lsmerge.errors import MergeValueError
from lsmerge.merge.user_code import Blaming, python_values
from lsmerge.mergers import Merger, Record
from lsmerge.rowkind import KIND_COLUMN, SEQUENCE_COLUMN, RowKind
from lsmerge.schema import TableSchema, unknown_name

# Rows as a user writes them, and the table's schema -> the same in normal form, or SchemaMismatchError.
CheckRows: TypeAlias = Callable[
    [Any, TableSchema], Iterable[tuple[pa.RecordBatch, pa.Array | None]]
]


@dataclass(frozen=True, slots=True)
class Operands:
    """Rows of the file schema by key and merge order.

    `starts` (int32) says where each key starts and the last one ends.
    """

    batch: pa.RecordBatch
    starts: pa.Array

    def __len__(self) -> int:
        return len(self.starts) - 1

    def part(self, first: int, last: int) -> "Operands":
        """The rows of keys `first` up to `last`."""
        import pyarrow.compute as pc

        starts = self.starts.slice(first, last - first + 1)
        begin, end = starts[0].as_py(), starts[-1].as_py()
        return Operands(
            self.batch.slice(begin, end - begin), pc.subtract(starts, pa.scalar(begin, pa.int32()))
        )

    def portions(self, max_rows: int) -> Iterator["Operands"]:
        """The same in parts of whole keys, of about `max_rows` rows."""
        starts = self.starts.to_pylist()
        first = 0
        while first < len(self):
            last = max(first + 1, bisect_right(starts, starts[first] + max_rows) - 1)
            yield self.part(first, last)
            first = last

    def newest(self) -> pa.Array:
        """Of each key the number of its last row."""
        import pyarrow.compute as pc

        return pc.subtract(self.starts.slice(1), pa.scalar(1, pa.int32()))


class MergerRows:
    """The rows of one table on their way to a merger and back."""

    def __init__(
        self, merger: Merger, schema: TableSchema, ordering: tuple[str, ...], check: CheckRows
    ) -> None:
        self.ordering = ordering
        self._merger = merger
        self._schema = schema
        self._check = check

    def records(self, batch: pa.RecordBatch) -> list[Record]:
        """Rows of the file schema as a merger sees them."""
        names = self._schema.column_names
        columns = [python_values(batch.column(name)) for name in names]
        kinds = map(RowKind, batch.column(KIND_COLUMN).to_pylist())
        rows = zip(kinds, zip(*columns, strict=True), strict=True)
        return [
            Record(dict(zip(names, values, strict=True)), kind, self.ordering, place)
            for place, (kind, values) in enumerate(rows)
        ]

    def blaming(self, *records: Record) -> Blaming:
        """What a merger raises in the block becomes an error of the merger at the key of these records."""

        def error(reason: str) -> MergeValueError:
            if any(record.is_delete for record in records):
                reason += "; one of the rows is a delete: ask record.is_delete, or set sees_deletes = False"
            return self._error(records[0], reason)

        return Blaming(error)

    def _error(self, record: Record, reason: str) -> MergeValueError:
        key = {name: record[name] for name in self._schema.primary_key}
        return MergeValueError(f"merger {self._merger.name!r} at key {key}: {reason}")

    def _check_names(self, names: Iterable[object], record: Record) -> None:
        found, known = set(names), self._schema.column_names
        for name in found.difference(known):
            raise self._error(record, f"it returned an {unknown_name('column', name, known)}")
        for name in set(known).difference(found):
            raise self._error(
                record, f"it returned no column {name!r}; return all of {', '.join(known)}"
            )

    def _through_door(self, rows: Any) -> pa.RecordBatch:
        return pa.concat_batches([batch for batch, _ in self._check(rows, self._schema)])

    def _columns_of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [batch.column(name) for name in self._schema.column_names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema.row_schema)

    def _with_system_columns(
        self, rows: pa.RecordBatch, kinds: pa.Array, operands: pa.RecordBatch, newest: pa.Array
    ) -> pa.RecordBatch:
        """Each row takes the place of the newest of those it was made from."""
        sequence = operands.column(SEQUENCE_COLUMN).take(newest)
        return pa.RecordBatch.from_arrays(
            [sequence, kinds, *rows.columns], schema=self._schema.file_schema
        )
