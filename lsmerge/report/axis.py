"""Keys as positions from left (0.0) to right (1.0): to scale where a key is one number or time, else in their order."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

Key: TypeAlias = tuple[Any, ...]


class Axis:
    """The keys of one bucket, spread over a line."""

    def __init__(self, keys: Sequence[Key]) -> None:
        """`keys` are the ends of all ranges to be drawn."""
        numbers = [_number(key) for key in keys]
        finite = [number for number in numbers if number is not None]
        self.is_to_scale = len(finite) == len(keys) and len(set(finite)) > 1
        self._low, self._high = (min(finite), max(finite)) if self.is_to_scale else (0.0, 1.0)
        self._order = [] if self.is_to_scale else sorted({_sortable(key) for key in keys})

    def position(self, key: Key) -> float:
        """Where a key lies. Requires: it is one of those that the axis was made for."""
        if self.is_to_scale:
            number = _number(key)
            assert number is not None
            return (number - self._low) / (self._high - self._low)
        last = len(self._order) - 1
        return bisect_left(self._order, _sortable(key)) / last if last else 0.0


def _number(key: Key) -> float | None:
    """A key of one column as a number; None if it is none, or not finite."""
    if len(key) != 1 or isinstance(key[0], bool):
        return None
    value = key[0]
    if isinstance(value, datetime):
        value = (value.replace(tzinfo=None) - datetime(1970, 1, 1)) / timedelta(microseconds=1)
    elif isinstance(value, date):
        value = value.toordinal()
    if not isinstance(value, int | float | Decimal):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _sortable(key: Key) -> tuple[Any, ...]:
    """Keys in the order of the table: NaN is above all numbers, and values of unknown types go by their text."""
    return tuple(map(_comparable, key))


def _comparable(value: Any) -> Any:
    if isinstance(value, float | Decimal):
        return (value != value, 0 if value != value else value)
    if isinstance(value, bool | int | str | bytes | date | time):
        return value
    return str(value)
