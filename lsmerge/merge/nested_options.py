"""What functions of nested columns ask of a column's type, of its options, and of rows at the door."""

import pyarrow as pa

from lsmerge.errors import InvalidOptionError
from lsmerge.field_options import FieldOptions
from lsmerge.merge.groups import row_numbers
from lsmerge.merge.lift import RefusedValueError
from lsmerge.merge.nested_functions import null_keyed
from lsmerge.schema import Column, unknown_name
from lsmerge.types import LogicalType, is_key_type

# Options that say which rows inside a column are the same.
NESTED_KEY = frozenset({"nested-key", "nested-key-null-strategy"})


def check_rows(column: Column, options: FieldOptions) -> None:
    """Refuse anything but ARRAY<ROW<…>> with the fields that the options name."""
    element = column.type.children[0].type
    if element.kind != "ROW":
        raise _wrong_type(column, "ARRAY<ROW<...>>")
    _check_fields(column, "nested-key", options.nested_key, element)
    _check_fields(column, "nested-sequence-field", options.nested_sequence, element)
    for option in ("nested-sequence-field", "nested-key-null-strategy"):
        if option in options.given and not options.nested_key:
            raise InvalidOptionError(
                f"option 'fields.{column.name}.{option}': set fields.{column.name}.nested-key too"
            )


def check_keyed_rows(column: Column, options: FieldOptions) -> None:
    """The same, and the rows must have a key."""
    check_rows(column, options)
    if not options.nested_key:
        raise InvalidOptionError(
            f"function {options.function!r} of column {column.name!r}: "
            f"set fields.{column.name}.nested-key"
        )


def check_timed_map(column: Column, options: FieldOptions) -> None:
    """Refuse anything but a MAP to rows that hold a time."""
    value = column.type.children[1].type
    if value.kind != "ROW" or len(value.children) < 2:
        raise _wrong_type(column, "MAP<..., ROW<...>> with at least two fields in the row")
    _check_fields(column, "ts-field", (options.ts_field or value.children[-1].name,), value)


def keyed(values: pa.Array, column: Column, options: FieldOptions) -> pa.Array:
    """The same values; with `nested-key-null-strategy` = error, rows with a null in their key are refused."""
    if options.nested_key_nulls != "error":
        return values
    # A take gives the arrays their elements alone, whatever they were a part of.
    own = values.take(row_numbers(len(values)))
    flags = null_keyed(own, options)
    if flags.true_count:
        row = flags.index(pa.scalar(True)).as_py()
        raise RefusedValueError(
            row,
            f"an element has a null in its nested key {', '.join(options.nested_key)}; "
            f"set fields.{column.name}.nested-key-null-strategy to merge or ignore, or leave it out",
        )
    return values


def _check_fields(
    column: Column, option: str, names: tuple[str, ...], element: LogicalType
) -> None:
    fields = {field.name: field.type for field in element.children}
    for name in names:
        if name not in fields:
            reason = unknown_name("field", name, fields)
            raise InvalidOptionError(f"option 'fields.{column.name}.{option}': {reason}")
        if not is_key_type(fields[name]):
            raise InvalidOptionError(
                f"option 'fields.{column.name}.{option}' = {name!r}: type {fields[name]} cannot be "
                "compared; use a field of scalar type"
            )


def _wrong_type(column: Column, accepted: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"function of column {column.name!r}: type {column.type} is not for it; accepted: {accepted}"
    )
