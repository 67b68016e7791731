"""What a bound condition says of one column: intervals that hold every value it lets through, and whether null passes.

Both may be too wide, never too narrow, so they may be used to skip data but not to filter. Python compares values as
Arrow does: text and bytes by their bytes, times by their number, decimals exactly; NaN compares with nothing and says
nothing.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, TypeAlias

import pyarrow as pa

from lsmerge.condition import And, Comparison, Condition, In, IsNull, Not, Or

# Of a longer list of values neighbours share an interval: it would cost more than the reads that it saves.
MAX_INTERVALS = 2000

# Where an interval begins or ends: below all values, right before or behind a value, above all values.
Cut: TypeAlias = tuple[Any, ...]
_LOWEST: Cut = (0,)
_HIGHEST: Cut = (2,)


@dataclass(frozen=True)
class Bounds:
    """From `low` to `high`, values of the column's Arrow type; None: no limit on that side."""

    low: pa.Scalar | None = None
    low_inclusive: bool = True
    high: pa.Scalar | None = None
    high_inclusive: bool = True

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit on one side at least."""
        return self.low is not None or self.high is not None

    @property
    def is_point(self) -> bool:
        """Whether at most one value is left."""
        return self.low is not None and self.high is not None and self.low.equals(self.high)

    @cached_property
    def start(self) -> Cut:
        return _LOWEST if self.low is None else _cut(self.low, behind=not self.low_inclusive)

    @cached_property
    def end(self) -> Cut:
        return _HIGHEST if self.high is None else _cut(self.high, behind=self.high_inclusive)


@dataclass(frozen=True)
class Intervals:
    """Bounds in ascending order that share no value, none of them if no value passes; `nulls`: whether null does."""

    parts: tuple[Bounds, ...]
    nulls: bool = False

    @property
    def is_everything(self) -> bool:
        """Whether nothing is excluded."""
        return self.nulls and not self.is_limited

    @property
    def is_limited(self) -> bool:
        """Whether some value is excluded."""
        return all(part.is_limited for part in self.parts)

    @cached_property
    def hull(self) -> "Intervals":
        """One interval, or none, that holds all of them."""
        return Intervals((_around(self.parts),), self.nulls) if self.parts else self

    def meets(self, low: pa.Scalar | None, high: pa.Scalar | None) -> bool:
        """Whether a value from `low` to `high` may be inside; None and null are unknown, and so is another type."""
        least = _LOWEST if self._is_foreign(low) else _cut(low, behind=False)
        greatest = _HIGHEST if self._is_foreign(high) else _cut(high, behind=True)
        candidate = bisect_right(self._ends, least)
        return candidate < len(self.parts) and self.parts[candidate].start < greatest

    @cached_property
    def _ends(self) -> list[Cut]:
        return [part.end for part in self.parts]

    def _is_foreign(self, value: pa.Scalar | None) -> bool:
        """A column may have been widened since it was measured."""
        return value is None or not value.is_valid or value.type != self._type or _is_nan(value)

    @cached_property
    def _type(self) -> pa.DataType | None:
        ends = (end for part in self.parts for end in (part.low, part.high) if end is not None)
        return next((end.type for end in ends), None)


EVERYTHING = Intervals((Bounds(),), nulls=True)
ANY_VALUE = Intervals((Bounds(),))
ONLY_NULL = Intervals((), nulls=True)


def intervals_of(condition: Condition, column: str) -> Intervals:
    """What a column may hold in the rows where the condition is true."""
    if isinstance(condition, And):
        return reduce(_intersection, (intervals_of(part, column) for part in condition.parts))
    if isinstance(condition, Or):
        return _union([intervals_of(part, column) for part in condition.parts])
    if _is_test_of(condition, column):
        return _of_test(condition)
    if isinstance(condition, Not) and _is_test_of(condition.part, column):
        # Of null all tests but IS NULL are null, and so are their opposites.
        return ANY_VALUE
    return EVERYTHING


def _is_test_of(condition: Condition, column: str) -> bool:
    return isinstance(condition, Comparison | In | IsNull) and condition.column == column


def _of_test(condition: Condition) -> Intervals:
    if isinstance(condition, Comparison):
        return _of_comparison(condition.operator, condition.value)
    if isinstance(condition, In):
        return _of_values(condition.values)
    return ONLY_NULL


def _of_comparison(operator: str, value: pa.Scalar) -> Intervals:
    if operator == "!=" or _is_nan(value):
        return ANY_VALUE
    if operator == "=":
        return Intervals((Bounds(value, True, value, True),))
    if operator in ("<", "<="):
        return Intervals((Bounds(high=value, high_inclusive=operator == "<="),))
    return Intervals((Bounds(low=value, low_inclusive=operator == ">="),))


def _of_values(values: pa.Array) -> Intervals:
    """A point for each value; of very many, neighbours share an interval before any of them becomes an object."""
    import pyarrow.compute as pc

    if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
        return ANY_VALUE
    ordered = values.unique().sort()
    step = max(1, -(-len(ordered) // MAX_INTERVALS))
    ends = [(start, min(start + step, len(ordered)) - 1) for start in range(0, len(ordered), step)]
    return Intervals(tuple(Bounds(ordered[low], True, ordered[high], True) for low, high in ends))


def _intersection(a: Intervals, b: Intervals) -> Intervals:
    """What is in both; each step leaves the interval behind that ends first."""
    found, i, j = [], 0, 0
    while i < len(a.parts) and j < len(b.parts):
        one, other = a.parts[i], b.parts[j]
        later = one if one.start >= other.start else other
        sooner = one if one.end <= other.end else other
        if later.start < sooner.end:
            found.append(_between(later, sooner))
        i, j = (i + 1, j) if sooner is one else (i, j + 1)
    return Intervals(tuple(found), a.nulls and b.nulls)


def _union(several: Sequence[Intervals]) -> Intervals:
    """What is in one of them at least."""
    parts = [part for intervals in several for part in intervals.parts]
    return Intervals(_joined(parts), any(intervals.nulls for intervals in several))


def _joined(parts: Sequence[Bounds]) -> tuple[Bounds, ...]:
    """In order, those that share a value as one."""
    found: list[Bounds] = []
    for bounds in sorted(parts, key=lambda part: part.start):
        if found and bounds.start <= found[-1].end:
            found[-1] = _around([found[-1], bounds])
        else:
            found.append(bounds)
    return tuple(_few(found))


def _few(parts: Sequence[Bounds]) -> Iterable[Bounds]:
    step = -(-len(parts) // MAX_INTERVALS)
    if step <= 1:
        return parts
    return (_around(parts[start : start + step]) for start in range(0, len(parts), step))


def _around(parts: Sequence[Bounds]) -> Bounds:
    """From the first beginning to the last end."""
    return _between(min(parts, key=lambda p: p.start), max(parts, key=lambda p: p.end))


def _between(first: Bounds, last: Bounds) -> Bounds:
    return Bounds(first.low, first.low_inclusive, last.high, last.high_inclusive)


def _cut(value: Any, *, behind: bool) -> Cut:
    return (1, value.value if pa.types.is_temporal(value.type) else value.as_py(), behind)


def _is_nan(value: pa.Scalar) -> bool:
    return bool(pa.types.is_floating(value.type)) and value.as_py() != value.as_py()
