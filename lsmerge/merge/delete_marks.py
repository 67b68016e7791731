"""Rows that are deletes because a column says so: what the record merger does at the door, before row kinds count.

A row is a delete if its column `_hoodie_is_deleted` is true, or if the table's delete field, as text, equals the
delete marker. Null never marks a delete. The row keeps its values; only its kind changes.
"""

from dataclasses import dataclass

import pyarrow as pa

from lsmerge.errors import InvalidOptionError
from lsmerge.merge_mode import DELETE_FIELD, DELETE_FLAG
from lsmerge.options import TableOptions
from lsmerge.rowkind import KIND_COLUMN, RowKind
from lsmerge.schema import TableSchema, unknown_name
from lsmerge.types import INTEGER_KINDS, TEXT_KINDS

# Types whose values have one text form.
_TEXT_FORM = frozenset({"BOOLEAN", *INTEGER_KINDS, *TEXT_KINDS})


@dataclass(frozen=True, slots=True)
class DeleteMarks:
    """How rows of a table are marked as deletes."""

    flag: str | None
    field: str | None
    marker: str | None

    @classmethod
    def of(cls, schema: TableSchema, options: TableOptions) -> "DeleteMarks":
        """The marks of a table, checked against its columns."""
        field = options.record_merge_delete_field
        if field is not None:
            _check_field(field, schema)
        if DELETE_FLAG in schema and schema.column(DELETE_FLAG).type.kind != "BOOLEAN":
            raise InvalidOptionError(
                f"column {DELETE_FLAG!r}: type {schema.column(DELETE_FLAG).type} cannot flag deletes; make it BOOLEAN, "
                "or give the column another name"
            )
        return cls(
            DELETE_FLAG if DELETE_FLAG in schema else None,
            field,
            options.record_merge_delete_marker,
        )

    def applied(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with system columns, those marked as deletes with the kind of one."""
        import pyarrow.compute as pc

        for mask in self._masks(batch):
            if pc.any(mask).as_py():
                delete = pa.scalar(int(RowKind.DELETE), pa.int8())
                kinds = pc.if_else(mask, delete, batch.column(KIND_COLUMN))
                place = batch.schema.get_field_index(KIND_COLUMN)
                batch = batch.set_column(place, batch.schema.field(place), kinds)
        return batch

    def _masks(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """For each way to mark a delete, the rows marked so."""
        import pyarrow.compute as pc

        masks = [] if self.flag is None else [batch.column(self.flag)]
        if self.field is not None:
            texts = batch.column(self.field).cast(pa.string())
            masks.append(pc.equal(texts, pa.scalar(self.marker, pa.string())))
        return [mask.fill_null(False) for mask in masks]


def _check_field(field: str, schema: TableSchema) -> None:
    if field not in schema:
        reason = unknown_name("column", field, schema.column_names)
        raise InvalidOptionError(f"option {DELETE_FIELD!r}: {reason}")
    logical = schema.column(field).type
    if logical.kind not in _TEXT_FORM:
        raise InvalidOptionError(
            f"option {DELETE_FIELD!r} = {field!r}: values of type {logical} have no one text form to compare with "
            f"the marker; accepted: {', '.join(sorted(_TEXT_FORM))}"
        )
