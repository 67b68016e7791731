"""Merging with a user's merge_batch(groups), many keys at once on Arrow data."""

import pyarrow as pa

from lsmerge.errors import MergeValueError, SchemaMismatchError
from lsmerge.merge.merger_rows import MergerRows, Operands
from lsmerge.merge.user_code import python_values
from lsmerge.mergers import MergeGroups, Record
from lsmerge.rowkind import KIND_COLUMN, ROW_KIND_COLUMN, SYMBOLS, RowKind
from lsmerge_native.keys import encode_keys


class BatchMerge(MergerRows):
    """A merger at work on batches."""

    def folded(self, operands: Operands) -> pa.RecordBatch:
        """One row per key. Requires: two rows of each key at least."""
        outcome = self._tried(operands)
        if isinstance(outcome, MergeValueError):
            raise self._narrowed(operands, outcome)
        return outcome

    def _narrowed(self, operands: Operands, error: MergeValueError) -> MergeValueError:
        """The error of a single key, found by halving."""
        while len(operands) > 1:
            middle = len(operands) // 2
            halves = (operands.part(0, middle), operands.part(middle, len(operands)))
            tried = ((half, self._tried(half)) for half in halves)
            failing = [(half, e) for half, e in tried if isinstance(e, MergeValueError)]
            if not failing:
                break
            operands, error = failing[0]
        return error

    def _tried(self, operands: Operands) -> pa.RecordBatch | MergeValueError:
        try:
            return self._merged(operands)
        except MergeValueError as error:
            return error

    def _merged(self, operands: Operands) -> pa.RecordBatch:
        first = self.records(operands.batch.slice(0, 1))[0]
        rows = self._columns_of(operands.batch)
        is_delete = _retracts(operands.batch.column(KIND_COLUMN))
        groups = MergeGroups(rows, operands.starts, is_delete, self.ordering)
        with self.blaming(first):
            answer = self._merger.given.merge_batch(groups)
        batch, deleted = (
            answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
        )
        self._check_shape(batch, deleted, len(operands), first)
        kinds = _kinds(deleted, len(operands))
        checked = self._checked(batch, kinds, first)
        newest = operands.newest()
        self._check_keys(rows.take(newest), checked, first)
        return self._with_system_columns(checked, kinds, operands.batch, newest)

    def _check_shape(self, batch: object, deleted: object, count: int, first: Record) -> None:
        if not isinstance(batch, pa.RecordBatch | pa.Table):
            raise self._error(
                first,
                f"merge_batch returned a {type(batch).__name__}; return a pyarrow.RecordBatch with a row per key, "
                "or it and a mask of deleted keys",
            )
        if batch.num_rows != count:
            raise self._error(first, f"merge_batch returned {batch.num_rows} rows for {count} keys")
        self._check_names(batch.schema.names, first)
        if deleted is not None and not _is_mask(deleted, count):
            raise self._error(
                first,
                "the mask of deleted keys is no pyarrow boolean array without nulls, a value per key",
            )

    def _checked(self, batch: pa.RecordBatch, kinds: pa.Array, first: Record) -> pa.RecordBatch:
        symbols = pa.array([SYMBOLS[kind] for kind in sorted(RowKind)], pa.string())
        try:
            return self._through_door(batch.append_column(ROW_KIND_COLUMN, symbols.take(kinds)))
        except SchemaMismatchError as error:
            raise self._error(first, error.args[0]) from error

    def _check_keys(self, expected: pa.RecordBatch, found: pa.RecordBatch, first: Record) -> None:
        key = list(self._schema.primary_key)
        expected, found = expected.select(key), found.select(key)
        if found.equals(expected):
            return
        # Values that are not equal to themselves, not-a-number, are equal as keys.
        keys, others = encode_keys(expected.columns), encode_keys(found.columns)
        for row in range(len(keys)):
            if keys.bytes_at(row) != others.bytes_at(row):
                wrong = {name: python_values(found.column(name))[row] for name in key}
                raise self._error(first, f"merge_batch returned key {wrong}")


def _is_mask(deleted: object, count: int) -> bool:
    if not isinstance(deleted, pa.BooleanArray):
        return False
    return len(deleted) == count and deleted.null_count == 0


def _retracts(kinds: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    return pc.equal(pc.bit_wise_and(kinds, pa.scalar(1, pa.int8())), pa.scalar(1, pa.int8()))


def _kinds(deleted: pa.Array | None, count: int) -> pa.Array:
    import pyarrow.compute as pc

    insert = pa.scalar(int(RowKind.INSERT), pa.int8())
    if deleted is None:
        return pa.repeat(insert, count)
    return pc.if_else(deleted, pa.scalar(int(RowKind.DELETE), pa.int8()), insert)
