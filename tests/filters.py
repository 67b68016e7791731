"""Random filters: text for the table, three-valued logic for the model."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.model import Row
from tests.shapes import NUMBERS, PLAIN_TEXTS


@dataclass(frozen=True)
class Filter:
    """A condition as text for the table and as three-valued logic for the model."""

    text: str
    holds: Callable[[Row], bool | None]


def compared(name: str, symbol: str, value: int | str) -> Filter:
    def holds(row: Row) -> bool | None:
        return None if row[name] is None else OPERATORS[symbol](row[name], value)

    return Filter(f"{name} {symbol} {value!r}", holds)


def both(left: Filter, right: Filter) -> Filter:
    def holds(row: Row) -> bool | None:
        answers = {left.holds(row), right.holds(row)}
        return False if False in answers else None if None in answers else True

    return Filter(f"({left.text}) and ({right.text})", holds)


def either(left: Filter, right: Filter) -> Filter:
    def holds(row: Row) -> bool | None:
        answers = {left.holds(row), right.holds(row)}
        return True if True in answers else None if None in answers else False

    return Filter(f"({left.text}) or ({right.text})", holds)


def negated(inner: Filter) -> Filter:
    def holds(row: Row) -> bool | None:
        answer = inner.holds(row)
        return None if answer is None else not answer

    return Filter(f"not ({inner.text})", holds)


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
SYMBOLS = st.sampled_from(sorted(OPERATORS))
NUMBER_FILTERS = st.builds(compared, st.sampled_from(["k", "s"]), SYMBOLS, NUMBERS)
TEXT_FILTERS = st.builds(compared, st.just("t"), SYMBOLS, st.sampled_from(PLAIN_TEXTS))
NULL_FILTERS = st.sampled_from(
    [
        Filter("v is null", lambda row: row["v"] is None),
        Filter("s is not null", lambda row: row["s"] is not None),
    ]
)


def filters(simple: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter | None]:
    """None, simple conditions, and what and, or and not make of them."""
    return st.none() | st.recursive(
        simple,
        lambda inner: (
            st.builds(both, inner, inner)
            | st.builds(either, inner, inner)
            | st.builds(negated, inner)
        ),
        max_leaves=3,
    )


FILTERS = filters(NUMBER_FILTERS | NULL_FILTERS)
FILTERS_WITH_TEXT = filters(NUMBER_FILTERS | TEXT_FILTERS | NULL_FILTERS)
