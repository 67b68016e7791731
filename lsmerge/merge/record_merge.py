"""Merging with a user's merge(older, newer), record by record.

Values between two steps of a fold are those that the table could store, so that a fold that went through a file gives
the same. A record that a merger returns as it is comes from Arrow data again, without a conversion.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from lsmerge.errors import SchemaMismatchError
from lsmerge.merge.merger_rows import MergerRows, Operands
from lsmerge.merge.user_code import is_exact, python_values
from lsmerge.mergers import Record
from lsmerge.rowkind import ROW_KIND_COLUMN, RowKind
from lsmerge.schema import Column

# Python objects of this many rows are in memory at once, for each window in flight.
PORTION_ROWS = 8192


class RecordMerge(MergerRows):
    """A merger at work on records."""

    def folded(self, operands: Operands) -> pa.RecordBatch:
        """One row per key: its rows folded from the left."""
        return pa.concat_batches(map(self._folded, operands.portions(PORTION_ROWS)))

    def shortened(self, operands: Operands) -> pa.RecordBatch:
        """The rows of each key, neighbours combined where `partial_merge` can."""
        return pa.concat_batches(map(self._shortened, operands.portions(PORTION_ROWS)))

    def _folded(self, operands: Operands) -> pa.RecordBatch:
        records = self.records(operands.batch)
        outcomes = []
        for start, stop in pairwise(operands.starts.to_pylist()):
            outcome = records[start]
            for newer in records[start + 1 : stop]:
                outcome = self._step(outcome, newer)
            outcomes.append(outcome)
        return self._assembled(operands.batch, outcomes, operands.newest())

    def _shortened(self, operands: Operands) -> pa.RecordBatch:
        records = self.records(operands.batch)
        outcomes: list[Record] = []
        newest: list[int] = []
        for start, stop in pairwise(operands.starts.to_pylist()):
            first = len(outcomes)
            for number, record in enumerate(records[start:stop], start):
                combined = self._partial(outcomes[-1], record) if len(outcomes) > first else None
                if combined is None:
                    outcomes.append(record)
                    newest.append(number)
                else:
                    outcomes[-1] = combined
                    newest[-1] = number
        return self._assembled(operands.batch, outcomes, pa.array(newest, pa.int32()))

    def _step(self, older: Record, newer: Record) -> Record:
        with self.blaming(older, newer):
            answer = self._merger.given.merge(older, newer)
        return self._taken(answer, older, newer)

    def _partial(self, older: Record, newer: Record) -> Record | None:
        with self.blaming(older, newer):
            answer = self._merger.given.partial_merge(older, newer)
        return None if answer is NotImplemented else self._taken(answer, older, newer)

    def _taken(self, answer: object, older: Record, newer: Record) -> Record:
        if answer is None:
            return newer.merged(is_delete=True)
        if answer is older or answer is newer:
            return answer.merged(is_delete=answer.is_delete)
        if not isinstance(answer, Mapping):
            raise self._error(
                newer,
                f"it returned a {type(answer).__name__}; return a mapping from column names to values, one of the "
                "two records, or None for a deletion",
            )
        with self.blaming(older, newer):
            row = dict(answer)
        return self._made(row, newer, is_delete=isinstance(answer, Record) and answer.is_delete)

    def _made(self, row: dict[str, Any], newer: Record, *, is_delete: bool) -> Record:
        """A new row as the table would store it."""
        self._check_names(row, newer)
        for name in self._schema.primary_key:
            if not (row[name] is newer[name] or row[name] == newer[name]):
                raise self._error(newer, f"it returned key column {name!r} = {row[name]!r}")
        kind = RowKind.DELETE if is_delete else RowKind.INSERT
        ordered = {name: row[name] for name in self._schema.column_names}
        record = Record(ordered, kind, self.ordering)
        columns = self._schema.columns
        if all(_holds(column, row[column.name], is_delete=is_delete) for column in columns):
            return record
        stored = self._checked([record])
        values = {name: python_values(stored.column(name))[0] for name in stored.schema.names}
        return Record(values, kind, self.ordering)

    def _assembled(
        self, batch: pa.RecordBatch, outcomes: Sequence[Record], newest: pa.Array
    ) -> pa.RecordBatch:
        made = [record for record in outcomes if record.place is None]
        parts = [self._columns_of(batch)] + ([self._checked(made)] if made else [])
        numbers = iter(range(batch.num_rows, batch.num_rows + len(made)))
        places = [next(numbers) if r.place is None else r.place for r in outcomes]
        rows = pa.concat_batches(parts).take(pa.array(places, pa.int64()))
        kinds = pa.array([int(record.row_kind) for record in outcomes], pa.int8())
        return self._with_system_columns(rows, kinds, batch, newest)

    def _checked(self, records: Sequence[Record]) -> pa.RecordBatch:
        names = self._schema.column_names
        try:
            columns = {name: self._as_column(name, [r[name] for r in records]) for name in names}
            columns[ROW_KIND_COLUMN] = [record.kind for record in records]
            return self._through_door(columns)
        except (SchemaMismatchError, pa.ArrowInvalid) as error:
            for record in records if len(records) > 1 else ():
                self._checked([record])
            raise self._error(records[0], error.args[0]) from error

    def _as_column(self, name: str, values: list[Any]) -> Any:
        """Arrow scalars, which stand for what Python cannot hold, as Arrow data."""
        if not any(isinstance(value, pa.Scalar) for value in values):
            return values
        type_ = self._schema.row_schema.field(name).type
        return pa.array([v.cast(type_) if isinstance(v, pa.Scalar) else v for v in values], type_)


def _holds(column: Column, value: object, *, is_delete: bool) -> bool:
    """Whether the column certainly holds the value as it is."""
    if value is None:
        return column.nullable or is_delete
    return is_exact(column.type.kind, value)
