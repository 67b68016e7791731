"""Python values to Arrow: lists of dicts and dicts of lists.

Values are checked one by one against `_ACCEPTED` before Arrow converts them, because Arrow alone
would truncate floats to integers, drop a time zone or take a timestamp for a date. Here, and only
here, a row is a Python object.
"""

import datetime
import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NoReturn

import pyarrow as pa

from lsmerge.errors import SchemaMismatchError
from lsmerge.rowkind import ROW_KIND_COLUMN, RowKind
from lsmerge.schema import Column, TableSchema
from lsmerge.types import (
    BYTES_KINDS,
    FLOAT_KINDS,
    INTEGER_KINDS,
    TEXT_KINDS,
    TIMESTAMP_KINDS,
    LogicalType,
    TypeField,
    to_arrow,
)

# The least number that becomes infinity when it is rounded to 32 bits.
_FLOAT_END = 3.4028235677973366e38


def table_from_rows(rows: Sequence[Any], schema: TableSchema) -> pa.Table:
    """A table of the columns that any row names; a row that leaves one out has null there."""
    if not rows:
        return schema.arrow_schema.empty_table()
    names: dict[str, None] = {}
    for position, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise SchemaMismatchError(
                f"row {position} is a {type(row).__name__}; a list of rows holds dicts"
            )
        names.update(dict.fromkeys(row))
    return table_from_columns({name: [row.get(name) for row in rows] for name in names}, schema)


def table_from_columns(columns: Mapping[str, Any], schema: TableSchema) -> pa.Table:
    """A table of columns that are lists of Python values, or Arrow or NumPy arrays."""
    arrays = [_column_array(name, values, schema) for name, values in columns.items()]
    lengths = {str(name): len(array) for name, array in zip(columns, arrays, strict=True)}
    if len(set(lengths.values())) > 1:
        raise SchemaMismatchError(f"columns differ in length: {lengths}")
    return pa.table(arrays, names=[str(name) for name in columns])


def _column_array(name: str, values: Any, schema: TableSchema) -> Any:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if hasattr(values, "__arrow_c_stream__"):
        return pa.chunked_array(values)
    if hasattr(values, "__arrow_c_array__") or hasattr(values, "__array__"):
        return pa.array(values)
    if not isinstance(values, Iterable) or isinstance(values, str | bytes):
        raise SchemaMismatchError(
            f"column {name!r} is a {type(values).__name__}; pass a list or an Arrow array of values"
        )
    listed = list(values)
    if name in schema:
        return _from_python(listed, schema.column(name))
    # Whatever is unknown is refused by name before its values matter.
    return _row_kinds(listed) if name == ROW_KIND_COLUMN else pa.nulls(len(listed))


def _row_kinds(values: list[Any]) -> pa.Array:
    """Symbols or codes; what is neither becomes a text that no kind has."""
    if all(type(value) is int and 0 <= value < len(RowKind) for value in values):
        return pa.array(values, pa.int8())
    texts = [v if v is None or isinstance(v, str) else str(v) for v in values]
    return pa.array(texts, pa.string())


def _from_python(values: list[Any], column: Column) -> pa.Array:
    for row, value in enumerate(values):
        if value is not None and not _accepts(column.type, value):
            _refuse(column, row, value)
    try:
        return pa.array(values, _exchange_type(column.type))
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        bad_row = _first_failure(values, _exchange_type(column.type))
        if bad_row is None:
            raise SchemaMismatchError(f"column {column.name!r} ({column.type}): {error}") from error
        _refuse(column, bad_row, values[bad_row])


def _first_failure(values: list[Any], arrow: pa.DataType) -> int | None:
    for row, value in enumerate(values):
        try:
            pa.array([value], arrow)
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            return row
    return None


def _refuse(column: Column, row: int, value: object) -> NoReturn:
    _, accepted = _ACCEPTED[column.type.kind]
    text = repr(value)
    raise SchemaMismatchError(
        f"column {column.name!r} ({column.type}): value {text[:80]} of type "
        f"{type(value).__name__} at row {row} does not fit; accepted: {accepted}"
    )


def _exchange_type(logical: LogicalType) -> pa.DataType:
    """Where Python is finer than the column, Python's resolution: the cast then sees any loss."""
    if logical.kind in TIMESTAMP_KINDS and logical.params[0] < 6:
        return to_arrow(LogicalType(logical.kind, (6,)))
    if logical.kind == "TIME" and logical.params[0] < 6:
        return pa.time64("us")
    if logical.kind == "BINARY":
        return pa.binary()
    if not logical.is_nested:
        return to_arrow(logical)
    fields = [pa.field(c.name, _exchange_type(c.type), c.nullable) for c in logical.children]
    if logical.kind == "ARRAY":
        return pa.list_(fields[0])
    return pa.map_(fields[0], fields[1]) if logical.kind == "MAP" else pa.struct(fields)


# ------------------------------------------------------------------------------ what is accepted


def _is_integer(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_real(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _fits_float(value: Any) -> bool:
    in_range = _is_real(value) and -_FLOAT_END < value < _FLOAT_END
    return in_range or (isinstance(value, float) and not math.isfinite(value))


def _is_decimal(value: object) -> bool:
    return (isinstance(value, Decimal) and value.is_finite()) or _is_integer(value)


def _is_date(value: object) -> bool:
    return isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)


def _is_time(value: object) -> bool:
    return isinstance(value, datetime.time) and value.tzinfo is None


def _is_local(value: object) -> bool:
    return isinstance(value, datetime.datetime) and value.tzinfo is None


def _is_instant(value: object) -> bool:
    return isinstance(value, datetime.datetime) and value.tzinfo is not None


def _is_map(value: object) -> bool:
    pairs = isinstance(value, list | tuple) and all(
        isinstance(pair, tuple | list) and len(pair) == 2 for pair in value
    )
    return isinstance(value, Mapping) or pairs


_ACCEPTED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "BOOLEAN": (lambda value: isinstance(value, bool), "bool"),
    **dict.fromkeys(INTEGER_KINDS, (_is_integer, "int in range")),
    **dict.fromkeys(FLOAT_KINDS, (_is_real, "float, or int it holds exactly")),
    "FLOAT": (_fits_float, "float in range, or int it holds exactly"),
    "DECIMAL": (_is_decimal, "Decimal or int that fits precision and scale exactly"),
    **dict.fromkeys(TEXT_KINDS, (lambda value: isinstance(value, str), "str")),
    **dict.fromkeys(
        BYTES_KINDS,
        (lambda value: isinstance(value, bytes | bytearray | memoryview), "bytes"),
    ),
    "DATE": (_is_date, "datetime.date"),
    "TIME": (_is_time, "datetime.time without time zone"),
    "TIMESTAMP": (_is_local, "datetime.datetime without time zone"),
    "TIMESTAMP_LTZ": (_is_instant, "datetime.datetime with time zone"),
    "ARRAY": (lambda value: isinstance(value, list | tuple), "list of values of the element type"),
    "MAP": (_is_map, "dict or list of pairs, of the key and value types"),
    "ROW": (lambda value: isinstance(value, Mapping), "dict of the row's fields"),
}


def _accepts(logical: LogicalType, value: Any) -> bool:
    test, _ = _ACCEPTED[logical.kind]
    if not test(value):
        return False
    if logical.kind == "ARRAY":
        return all(_accepts_child(logical.children[0], element) for element in value)
    if logical.kind == "MAP":
        key, item = logical.children
        pairs = value.items() if isinstance(value, Mapping) else value
        return all(_accepts_child(key, k) and _accepts_child(item, v) for k, v in pairs)
    if logical.kind == "ROW":
        known = {child.name for child in logical.children}
        return known.issuperset(value) and all(
            _accepts_child(child, value.get(child.name)) for child in logical.children
        )
    return True


def _accepts_child(child: TypeField, value: object) -> bool:
    return child.nullable if value is None else _accepts(child.type, value)
