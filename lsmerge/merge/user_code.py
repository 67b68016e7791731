"""What crosses the border to code of users: Python values of Arrow data and back, and whom an error is blamed on."""

import datetime
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import pyarrow as pa


class Blaming:
    """Whatever the block raises becomes the error that `make` gives for the reason in words."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[str], Exception]) -> None:
        self._make = make

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception):
            said = " ".join(str(error).split())
            raise self._make(f"it raised {type(error).__name__}: {said}") from error


def python_values(array: pa.Array) -> list[Any]:
    """Python values; what Python cannot hold stays an Arrow scalar."""
    try:
        values: list[Any] = array.to_pylist()
    except ValueError:  # nanoseconds
        return [python_value(scalar) for scalar in array]
    return values


def python_value(scalar: pa.Scalar) -> Any:
    """A Python value, or the scalar itself where Python would lose something."""
    try:
        return scalar.as_py()
    except ValueError:
        return scalar


_RANGES = {"TINYINT": 2**7, "SMALLINT": 2**15, "INT": 2**31, "BIGINT": 2**63}
_EXACT = {"BOOLEAN": bool, "DOUBLE": float, "STRING": str, "BYTES": bytes, "DATE": datetime.date}


def is_exact(kind: str, value: object) -> bool:
    """Whether a column of this logical type certainly holds the value, which is not null, as it is."""
    if type(value) is int and kind in _RANGES:
        return -_RANGES[kind] <= value < _RANGES[kind]
    return type(value) is _EXACT.get(kind)


def stored_value(value: Any, kind: str, type_: pa.DataType) -> Any:
    """What a column gives back for a value; ValueError where it cannot hold it."""
    if value is None or is_exact(kind, value):
        return value
    try:
        found = python_value(pa.array([value], type_)[0])
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"{value!r} is no {type_}") from error
    if not _is_held(value, found):
        raise ValueError(f"{value!r} is no {type_}: it would be stored as {found!r}")
    return found


def _is_held(value: Any, found: Any) -> bool:
    """Whether `found` is the value; floating-point numbers may have been rounded."""
    if isinstance(found, float):
        return isinstance(value, int | float)
    if isinstance(found, dict):
        return isinstance(value, Mapping) and all(
            name in found and _is_held(value[name], found[name]) for name in value
        )
    if isinstance(found, list | tuple):
        items = list(value.items() if isinstance(value, Mapping) else value)
        return len(items) == len(found) and all(map(_is_held, items, found))
    return bool(found == value)
