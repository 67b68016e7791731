"""Default values: what readers see instead of null. They are put in after merging and never stored."""

from collections.abc import Mapping

import pyarrow as pa

from lsmerge.errors import InvalidFilterError, InvalidOptionError
from lsmerge.field_options import default_texts
from lsmerge.literal import place
from lsmerge.schema import Column, TableSchema, unknown_name
from lsmerge.types import BYTES_KINDS, FLOAT_KINDS, INTEGER_KINDS, to_arrow


def default_values(schema: TableSchema) -> dict[str, pa.Scalar]:
    """The default of each column that has one, checked against the column."""
    return {
        name: _default(schema, name, text) for name, text in default_texts(schema.options).items()
    }


def with_defaults(rows: pa.RecordBatch, defaults: Mapping[str, pa.Scalar]) -> pa.RecordBatch:
    """The rows with defaults instead of nulls."""
    for name in defaults.keys() & set(rows.schema.names):
        position = rows.schema.get_field_index(name)
        values = rows.column(position)
        if values.null_count:
            filled = values.fill_null(defaults[name])
            rows = rows.set_column(position, rows.schema.field(position), filled)
    return rows


def _default(schema: TableSchema, name: str, text: str) -> pa.Scalar:
    option = f"option 'fields.{name}.default-value' = {text!r}"
    if name not in schema:
        raise InvalidOptionError(f"{option}: {unknown_name('column', name, schema.column_names)}")
    if name in schema.primary_key or name in schema.partition_by:
        raise InvalidOptionError(f"{option}: a key or partition column is never null")
    column = schema.column(name)
    value = _value(column, text)
    if value is None:
        raise InvalidOptionError(f"{option}: not a value of type {column.type}")
    return value


def _value(column: Column, text: str) -> pa.Scalar | None:
    """The text as a value of the column's type, None if it is none."""
    kind = column.type.kind
    try:
        if kind in INTEGER_KINDS or kind in FLOAT_KINDS or kind == "BOOLEAN":
            return pa.scalar(text.strip()).cast(to_arrow(column.type))
        placed = place(column, text.encode() if kind in BYTES_KINDS else text)
    except (InvalidFilterError, pa.ArrowInvalid, UnicodeEncodeError):
        return None
    return placed.value if placed.side == 0 and _fits(column, text) else None


def _fits(column: Column, text: str) -> bool:
    """Whether text or bytes keep the length of their type."""
    if column.type.kind in ("CHAR", "VARCHAR"):
        return len(text) <= column.type.params[0]
    if column.type.kind == "VARBINARY":
        return len(text.encode()) <= column.type.params[0]
    return True
