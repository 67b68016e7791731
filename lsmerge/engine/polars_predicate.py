"""What a polars predicate says that a scan can use to skip files and blocks.

The result is true wherever the predicate is, and may be true elsewhere too: polars still evaluates the whole predicate
on the rows that come back. So what is not understood is simply left out of a conjunction. Polars and Arrow differ for
NaN, which polars takes for larger than all numbers: of floats only tests that NaN fails in both are used.
"""

import json
from collections.abc import Iterator
from typing import Any

from lsmerge.condition import FLIPPED, And, Comparison, Condition, In, IsNull, Not, Or
from lsmerge.errors import InvalidFilterError
from lsmerge.predicate import Predicate
from lsmerge.schema import TableSchema

_OPERATORS = {"Eq": "=", "NotEq": "!=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_NAN_FAILS = ("=", "<", "<=")
_BETWEEN = {"Both": (">=", "<="), "Left": (">=", "<"), "Right": (">", "<="), "None": (">", "<")}
# Kinds of literals that Python has values for; "Date" stands for dates and for times of a date.
_EXACT = ("Int", "UInt", "Float", "String", "Boolean", "Date", "Decimal", "List")


def predicate_of(expression: Any, schema: TableSchema) -> Predicate | None:
    """A bound predicate that keeps every row that `expression` keeps; None if nothing of it can be used."""
    tree = json.loads(expression.meta.serialize(format="json"))
    parts = [part for part in _parts(tree, schema) if part is not None]
    if not parts:
        return None
    return Predicate(And(tuple(parts)))


def _parts(tree: Any, schema: TableSchema) -> Iterator[Condition | None]:
    """What the conjuncts say, each bound by itself: one that does not fit its column is left out alone."""
    match tree:
        case {"BinaryExpr": {"op": "And", "left": left, "right": right}}:
            yield from _parts(left, schema)
            yield from _parts(right, schema)
        case {
            "Function": {"input": [column, low, high], "function": {"Boolean": {"IsBetween": how}}}
        }:
            below, above = _BETWEEN[how["closed"]]
            yield _bound(_comparison(column, below, low, schema), schema)
            yield _bound(_comparison(column, above, high, schema), schema)
        case _:
            yield _bound(_condition(tree, schema), schema)


def _bound(condition: Condition | None, schema: TableSchema) -> Condition | None:
    try:
        return None if condition is None else Predicate(condition).bind(schema).condition
    except InvalidFilterError:
        return None


def _condition(tree: Any, schema: TableSchema) -> Condition | None:
    match tree:
        case {"BinaryExpr": {"op": "And", "left": left, "right": right}}:
            sides = _condition(left, schema), _condition(right, schema)
            known = tuple(part for part in sides if part is not None)
            return And(known) if known else None
        case {"BinaryExpr": {"op": "Or", "left": left, "right": right}}:
            either = _condition(left, schema), _condition(right, schema)
            return None if None in either else Or(tuple(part for part in either if part))
        case {"BinaryExpr": {"op": op, "left": left, "right": right}} if op in _OPERATORS:
            return _comparison(left, _OPERATORS[op], right, schema) or _comparison(
                right, FLIPPED[_OPERATORS[op]], left, schema
            )
        case {"Function": {"input": [{"Column": name}], "function": {"Boolean": "IsNull"}}}:
            return IsNull(name)
        case {"Function": {"input": [{"Column": name}], "function": {"Boolean": "IsNotNull"}}}:
            return Not(IsNull(name))
        case {
            "Function": {"input": [{"Column": name}, values], "function": {"Boolean": {"IsIn": _}}}
        }:
            return _membership(name, _literal(values))
    return None


def _comparison(left: Any, operator: str, right: Any, schema: TableSchema) -> Condition | None:
    match left:
        case {"Column": str(name)} if name in schema:
            value = _literal(right)
            is_float = schema.column(name).type.kind in ("FLOAT", "DOUBLE")
            if (
                value is None
                or isinstance(value, list)
                or (is_float and operator not in _NAN_FAILS)
            ):
                return None
            return Comparison(name, operator, value)
    return None


def _membership(name: str, values: Any) -> Condition | None:
    """Which of the values are null makes no difference where only what is true counts, unless nulls are equal."""
    if not isinstance(values, list) or None in values or any(v != v for v in values):
        return None
    return In(name, tuple(values))


def _literal(tree: Any) -> Any:
    """The Python value of a literal, exact; None if it has none here."""
    match tree:
        case {"Literal": {"Scalar": {"Datetime": [_, "Nanoseconds", _]}}}:
            return None
        case {"Literal": {"Scalar": {**value}}} if str(next(iter(value))).startswith(_EXACT):
            return _evaluated(tree)
    return None


def _evaluated(literal: Any) -> Any:
    import polars

    expression = polars.Expr.deserialize(json.dumps(literal).encode(), format="json")
    value = polars.select(expression).item()
    if not isinstance(value, polars.Series):
        return value
    is_exact = getattr(value.dtype, "time_unit", None) != "ns"
    return value.to_list() if is_exact else None
