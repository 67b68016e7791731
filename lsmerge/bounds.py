"""What a bound condition says of one column: an interval that holds every value it lets through, and whether null is.

Both may be too wide, never too narrow, so they may be used to skip data but not to filter.
"""

from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa

from lsmerge.condition import And, Comparison, Condition, In, IsNull, Not, Or


@dataclass(frozen=True)
class Bounds:
    """From `low` to `high`, values of the column's Arrow type; None: no limit on that side.

    `nulls` is whether null is let through, `values` whether anything else is.
    """

    low: pa.Scalar | None = None
    low_inclusive: bool = True
    high: pa.Scalar | None = None
    high_inclusive: bool = True
    nulls: bool = False
    values: bool = True

    @property
    def is_everything(self) -> bool:
        """Whether nothing is excluded."""
        return self.nulls and self.values and not self.is_limited

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit on one side at least."""
        return self.low is not None or self.high is not None

    @property
    def is_point(self) -> bool:
        """Whether at most one value is left."""
        return self.low is not None and self.high is not None and self.low.equals(self.high)


EVERYTHING = Bounds(nulls=True)
ANY_VALUE = Bounds()
ONLY_NULL = Bounds(nulls=True, values=False)


def bounds_of(condition: Condition, column: str) -> Bounds:
    """The bounds of a column in the rows where the condition is true."""
    if isinstance(condition, And):
        return reduce(_intersection, (bounds_of(part, column) for part in condition.parts))
    if isinstance(condition, Or):
        return reduce(_hull, (bounds_of(part, column) for part in condition.parts))
    if isinstance(condition, Comparison) and condition.column == column:
        return _of_comparison(condition.operator, condition.value)
    if isinstance(condition, In) and condition.column == column and len(condition.values):
        return reduce(_hull, (Bounds(value, True, value, True) for value in condition.values))
    if isinstance(condition, IsNull) and condition.column == column:
        return ONLY_NULL
    if isinstance(condition, Not) and _is_test_of(condition.part, column):
        # Of null all tests but IS NULL are null, and so are their opposites.
        return ANY_VALUE
    return EVERYTHING


def _is_test_of(condition: Condition, column: str) -> bool:
    return isinstance(condition, Comparison | In | IsNull) and condition.column == column


def _of_comparison(operator: str, value: pa.Scalar) -> Bounds:
    if operator == "=":
        return Bounds(value, True, value, True)
    if operator in ("<", "<="):
        return Bounds(high=value, high_inclusive=operator == "<=")
    if operator in (">", ">="):
        return Bounds(low=value, low_inclusive=operator == ">=")
    return ANY_VALUE


def _intersection(a: Bounds, b: Bounds) -> Bounds:
    low = a if b.low is None or (a.low is not None and _starts_first(b, a)) else b
    high = a if b.high is None or (a.high is not None and _ends_first(a, b)) else b
    return Bounds(
        *(low.low, low.low_inclusive, high.high, high.high_inclusive),
        nulls=a.nulls and b.nulls,
        values=a.values and b.values,
    )


def _hull(a: Bounds, b: Bounds) -> Bounds:
    nulls = a.nulls or b.nulls
    if not (a.values and b.values):
        return replace(a if a.values else b, nulls=nulls)
    low = a if a.low is None or (b.low is not None and _starts_first(a, b)) else b
    high = a if a.high is None or (b.high is not None and _ends_first(b, a)) else b
    return Bounds(low.low, low.low_inclusive, high.high, high.high_inclusive, nulls=nulls)


def _starts_first(a: Bounds, b: Bounds) -> bool:
    """Whether a starts before b; at the same value the inclusive one does."""
    order = _compare(a.low, b.low)
    return order < 0 or (order == 0 and a.low_inclusive)


def _ends_first(a: Bounds, b: Bounds) -> bool:
    """Whether a ends before b; at the same value the exclusive one does."""
    order = _compare(a.high, b.high)
    return order < 0 or (order == 0 and not a.high_inclusive)


def _compare(a: pa.Scalar, b: pa.Scalar) -> int:
    import pyarrow.compute as pc

    return int(pc.greater(a, b).as_py()) - int(pc.less(a, b).as_py())
