"""Conditions on rows: the tree behind a filter, its binding to columns and its evaluation.

Truth has three values as in SQL. Every node keeps null apart from false, so that NOT means what it
says; a row passes only where the whole condition is true.

A condition is *bound* when its literals are Arrow values of the columns' types. Binding replaces
what cannot be said with such values (`k = 4.5` for an INT) by an equivalent condition, null
for null included: `In` with no values is false for every value, its negation true.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from lsmerge.errors import InvalidFilterError
from lsmerge.literal import place, refuse
from lsmerge.schema import Column, TableSchema, unknown_name

OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Comparison:
    """`column operator value`; the value is a Python object, once bound a `pa.Scalar`."""

    column: str
    operator: str
    value: Any


@dataclass(frozen=True)
class In:
    """Whether the column equals one of the values; once bound they are one `pa.Array`."""

    column: str
    values: Any
    or_null: bool = False


@dataclass(frozen=True)
class IsNull:
    """Whether the column is null; never null itself."""

    column: str


@dataclass(frozen=True)
class And:
    """All of them."""

    parts: tuple["Condition", ...]


@dataclass(frozen=True)
class Or:
    """One of them at least."""

    parts: tuple["Condition", ...]


@dataclass(frozen=True)
class Not:
    """The opposite; null stays null."""

    part: "Condition"


Condition: TypeAlias = Comparison | In | IsNull | And | Or | Not


def columns_of(condition: Condition) -> Iterator[str]:
    """Every column used, as often as it is."""
    if isinstance(condition, And | Or):
        for part in condition.parts:
            yield from columns_of(part)
    elif isinstance(condition, Not):
        yield from columns_of(condition.part)
    else:
        yield condition.column


# ------------------------------------------------------------------------------------------ binding


def bind(condition: Condition, schema: TableSchema) -> Condition:
    """The same condition with literals of the columns' types."""
    if isinstance(condition, And | Or):
        return type(condition)(tuple(bind(part, schema) for part in condition.parts))
    if isinstance(condition, Not):
        return Not(bind(condition.part, schema))
    if condition.column not in schema:
        raise InvalidFilterError(unknown_name("column", condition.column, schema.column_names))
    column = schema.column(condition.column)
    if isinstance(condition, Comparison):
        return _bind_comparison(column, condition)
    return _bind_in(column, condition) if isinstance(condition, In) else condition


def _bind_comparison(column: Column, condition: Comparison) -> Condition:
    if condition.operator not in OPERATORS:
        raise InvalidFilterError(
            f"column {column.name!r}: unknown operator {condition.operator!r}; "
            f"accepted: {', '.join(OPERATORS)}, in, not in, is null, is not null"
        )
    if condition.value is None:
        raise InvalidFilterError(
            f"column {column.name!r}: a comparison with null is never true; use IS NULL"
        )
    placed = place(column, condition.value)
    if placed.side == 0:
        return Comparison(column.name, condition.operator, placed.value)
    nothing = In(column.name, pa.array([], placed.value.type))
    if condition.operator == "=":
        return nothing
    if condition.operator == "!=":
        return Not(nothing)
    return Comparison(column.name, _BESIDE[placed.side][condition.operator], placed.value)


# A literal just above (+1) or just below (-1) a value, with none between: the comparison with the
# value that selects the same rows.
_BESIDE: dict[int, dict[str, str]] = {
    1: {"<": "<=", "<=": "<=", ">": ">", ">=": ">"},
    -1: {"<": "<", "<=": "<", ">": ">=", ">=": ">="},
}


def _bind_in(column: Column, condition: In) -> In:
    if isinstance(condition.values, str | bytes):
        refuse(column, condition.values)
    placed = [place(column, value) for value in condition.values if value is not None]
    # A literal that is no value of the column equals none.
    exact = [at.value for at in placed if at.side == 0]
    if column.type.kind in ("FLOAT", "DOUBLE") and any(value.as_py() == 0 for value in exact):
        # Equal in comparisons, but not in the hash table behind is_in.
        exact += [pa.scalar(zero, exact[0].type) for zero in (0.0, -0.0)]
    or_null = any(value is None for value in condition.values)
    return In(column.name, _array(exact, column), or_null)


def _array(scalars: Sequence[pa.Scalar], column: Column) -> pa.Array:
    if column.type.is_nested:
        refuse(column, "a list of values")
    return pa.array(scalars, column.arrow_field(nullable=True).type)


# --------------------------------------------------------------------------------------- evaluation


def evaluate(condition: Condition, operand: Callable[[str], Any]) -> Any:
    """Truth per row: an Arrow expression or a boolean array, as `operand` gives fields or arrays.

    Requires: the condition is bound.
    """
    import pyarrow.compute as pc

    if isinstance(condition, And | Or):
        join = pc.and_kleene if isinstance(condition, And) else pc.or_kleene
        return _balanced([evaluate(part, operand) for part in condition.parts], join)
    if isinstance(condition, Not):
        return pc.invert(evaluate(condition.part, operand))
    column = operand(condition.column)
    if isinstance(condition, IsNull):
        return pc.is_null(column)
    if isinstance(condition, In):
        return _evaluate_in(condition, column)
    assert isinstance(condition.value, pa.Scalar), "bind the predicate before evaluating it"
    return getattr(pc, _FUNCTIONS[condition.operator])(column, condition.value)


_FUNCTIONS = {
    "=": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


def _evaluate_in(condition: In, column: Any) -> Any:
    """`is_in` is false for null; SQL wants null, also for a miss when the list holds a null."""
    import pyarrow.compute as pc

    unknown = pa.scalar(None, pa.bool_())
    otherwise = unknown if condition.or_null else pc.and_kleene(pc.is_null(column), unknown)
    return pc.or_kleene(pc.is_in(column, value_set=condition.values), otherwise)


def _balanced(operands: list[Any], join: Callable[[Any, Any], Any]) -> Any:
    """Join pairwise: a long list must not become a deep tree."""
    while len(operands) > 1:
        pairs = [operands[i : i + 2] for i in range(0, len(operands), 2)]
        operands = [join(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return operands[0]
