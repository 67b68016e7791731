"""Filters as users give them: text or tuples, bound to a table, then used to select and to skip.

    parse("k >= 5 and name in ('x', 'y')").bind(schema).to_arrow_expression()

Binding checks names and types and gives literals the columns' types; everything below `bind`
requires a bound predicate.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lsmerge.bounds import MAX_INTERVALS, Bounds, intervals_of
from lsmerge.condition import (
    And,
    Comparison,
    Condition,
    In,
    IsNull,
    Not,
    Or,
    bind,
    columns_of,
    evaluate,
)
from lsmerge.errors import InvalidFilterError
from lsmerge.predicate_parser import parse_text
from lsmerge.schema import TableSchema

__all__ = [
    "And",
    "Bounds",
    "Comparison",
    "In",
    "IsNull",
    "Not",
    "Or",
    "Predicate",
    "from_tuples",
    "parse",
]

# Arrow walks expressions recursively and dies of one with some ten thousand nodes.
MAX_TESTS = 1000


@dataclass(frozen=True)
class Predicate:
    """A condition on rows; keeps a row only where it is true, not where it is null."""

    condition: Condition

    def bind(self, schema: TableSchema) -> "Predicate":
        """Check columns, types and size; the result's literals are Arrow values."""
        size = sum(1 for _ in columns_of(self.condition))
        if size > MAX_TESTS:
            raise InvalidFilterError(
                f"filter has {size} tests; accepted: up to {MAX_TESTS}. A list of values belongs "
                "into IN (...), which has no limit"
            )
        return Predicate(bind(self.condition, schema))

    def also(self, other: "Predicate | None") -> "Predicate":
        """Both at once."""
        return self if other is None else Predicate(And((other.condition, self.condition)))

    def columns(self) -> frozenset[str]:
        """The columns needed to decide."""
        return frozenset(columns_of(self.condition))

    def to_arrow_expression(self) -> Any:
        """The same as a `pyarrow.compute.Expression`."""
        import pyarrow.compute as pc

        return evaluate(self.condition, pc.field)

    def restricted_to(self, columns: Iterable[str]) -> "Predicate | None":
        """The part that these columns alone decide, true wherever the whole is; None if none is."""
        known = frozenset(columns)
        parts = _parts(self.condition, And)
        decided = tuple(part for part in parts if known.issuperset(columns_of(part)))
        if not decided:
            return None
        return Predicate(decided[0] if len(decided) == 1 else And(decided))

    def key_boxes(self, columns: Sequence[str]) -> list[tuple[Bounds, ...]]:
        """Bounds on the leading columns of a key, in all of which but the last are single values; one must hold.

        No box at all: no row passes, since a key has no nulls. A box without bounds: any key may.
        """
        alternatives = list(_parts(self.condition, Or))
        room = max(1, MAX_INTERVALS // len(alternatives))
        return [box for part in alternatives for box in _boxes(part, columns, room)]


def _boxes(condition: Condition, columns: Sequence[str], room: int) -> list[tuple[Bounds, ...]]:
    boxes: list[tuple[Bounds, ...]] = [()]
    for name in columns:
        intervals = intervals_of(condition, name)
        if not intervals.is_limited:
            break
        if len(boxes) * len(intervals.parts) > room:
            intervals = intervals.hull
        boxes = [(*box, bounds) for box in boxes for bounds in intervals.parts]
        if not all(bounds.is_point for bounds in intervals.parts):
            break
    return boxes


def _parts(condition: Condition, joined_by: type[And] | type[Or]) -> Iterator[Condition]:
    """All of which (And) or one of which (Or) must be true, however they are nested."""
    if isinstance(condition, joined_by):
        for part in condition.parts:
            yield from _parts(part, joined_by)
    else:
        yield condition


def parse(text: str) -> Predicate:
    """Read a filter such as `k >= 5 and (v = 'a' or v is null)`."""
    return Predicate(parse_text(text))


def from_tuples(filters: Sequence[Any]) -> Predicate:
    """Filters as `[("k", ">=", 5), ("v", "in", ["a", "b"])]`, all of which must hold.

    A list of such lists holds where one of them does.
    """
    if not isinstance(filters, list | tuple) or not filters:
        raise InvalidFilterError(
            f"filter {filters!r}: pass text or a list of (column, operator, value) tuples"
        )
    if isinstance(filters[0], str):
        raise InvalidFilterError(
            f"filter {filters!r}: pass a list of (column, operator, value) tuples, such as [('k', '>=', 5)]"
        )
    if all(isinstance(item, list) for item in filters):
        return Predicate(Or(tuple(from_tuples(item).condition for item in filters)))
    return Predicate(And(tuple(_from_tuple(item) for item in filters)))


def _from_tuple(item: Any) -> Condition:
    if not isinstance(item, tuple) or len(item) not in (2, 3) or not isinstance(item[0], str):
        raise InvalidFilterError(f"filter {item!r}: use (column, operator, value)")
    column, operator = item[0], " ".join(str(item[1]).lower().split())
    if len(item) == 2:
        return _null_test(column, operator)
    if operator in ("in", "not in"):
        inside = In(column, _values(column, item[2]))
        return inside if operator == "in" else Not(inside)
    return Comparison(column, {"==": "=", "<>": "!="}.get(operator, operator), item[2])


def _null_test(column: str, operator: str) -> Condition:
    if operator == "is null":
        return IsNull(column)
    if operator == "is not null":
        return Not(IsNull(column))
    raise InvalidFilterError(f"filter ({column!r}, {operator!r}): a value is missing")


def _values(column: str, values: Any) -> tuple[Any, ...]:
    if not isinstance(values, list | tuple | set | frozenset):
        raise InvalidFilterError(f"column {column!r}: IN takes a list of values, not {values!r}")
    return tuple(values)
