"""What a scan may be asked for, checked before anything is read: columns, a filter in any form, a limit."""

import operator
import sys
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from lsmerge import arrow_expression
from lsmerge import predicate as predicates
from lsmerge.errors import InvalidFilterError, SchemaMismatchError
from lsmerge.predicate import Predicate
from lsmerge.schema import TableSchema


def checked_columns(schema: TableSchema, columns: Any) -> tuple[str, ...]:
    """Names of columns, each of the table and once; all of them for None."""
    if columns is None:
        return schema.column_names
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise SchemaMismatchError(f"columns = {columns!r}: pass a list of names, such as ['k']")
    names = tuple(columns)
    if not names:
        raise SchemaMismatchError(
            "columns = []: name at least one; how many rows there are, scan().count() tells"
        )
    for position, name in enumerate(names):
        if not isinstance(name, str):
            raise SchemaMismatchError(f"column {name!r} of columns: pass names as text")
        schema.column(name)
        if name in names[:position]:
            raise SchemaMismatchError(f"column {name!r} is listed twice in columns; name it once")
    return names


def checked_limit(limit: Any) -> int | None:
    """A number of rows, None for all."""
    if limit is None:
        return None
    if isinstance(limit, bool) or not hasattr(limit, "__index__") or operator.index(limit) < 0:
        raise InvalidFilterError(f"limit = {limit!r}: give a whole number, 0 or more")
    return min(operator.index(limit), sys.maxsize)


def checked_filter(schema: TableSchema, filter_: Any) -> tuple[Predicate | None, Any]:
    """A filter as a bound predicate, or as the pyarrow expression that it is if that says what no predicate can."""
    if filter_ is None:
        return None, None
    if isinstance(filter_, str):
        return predicates.parse(filter_).bind(schema), None
    if isinstance(filter_, list | tuple):
        return predicates.from_tuples(filter_).bind(schema), None
    expression = _checked_expression(schema, filter_)
    predicate = arrow_expression.predicate_of(expression, schema)
    return predicate, expression if predicate is None else None


def _checked_expression(schema: TableSchema, filter_: Any) -> Any:
    """A pyarrow expression that can be bound to the table's columns and gives a truth value."""
    import pyarrow.compute as pc

    if not isinstance(filter_, pc.Expression):
        raise InvalidFilterError(
            f"filter = {_one_line(repr(filter_))}: pass text, a list of (column, operator, value) "
            "tuples or a pyarrow expression"
        )
    passing(schema.row_schema.empty_table(), filter_)
    return filter_


def passing(rows: Any, condition: Any) -> Any:
    """The rows that satisfy a pyarrow expression, of a batch or table."""
    try:
        return rows.filter(condition)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        reason = f"filter {condition}: {error}"
        raise InvalidFilterError(_one_line(reason)) from error


def _one_line(text: str) -> str:
    return " ".join(text.split())
