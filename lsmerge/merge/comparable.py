"""Arrow values as Python values that compare: what folds in Python know elements by."""

import math
from collections.abc import Hashable
from typing import Any

import pyarrow as pa


def comparable(array: pa.Array) -> list[Any]:
    """Python values that are equal exactly where the elements are, and can be dictionary keys."""
    return [_frozen(value) for value in array.cast(_countable(array.type)).to_pylist()]


def _countable(type_: pa.DataType) -> pa.DataType:
    """The type with times as numbers: Python's own lose nanoseconds."""
    if pa.types.is_temporal(type_):
        return pa.int32() if type_.bit_width == 32 else pa.int64()
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_countable(field.type)) for field in type_])
    if pa.types.is_map(type_):
        key, item = type_.key_field, type_.item_field
        return pa.map_(key.with_type(_countable(key.type)), item.with_type(_countable(item.type)))
    if pa.types.is_list(type_):
        field = type_.value_field
        return pa.list_(field.with_type(_countable(field.type)))
    return type_


def _frozen(value: Any) -> Hashable:
    if isinstance(value, dict):
        return tuple(map(_frozen, value.values()))
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    return _NAN if isinstance(value, float) and math.isnan(value) else value


_NAN = object()


def order_of(value: Any) -> tuple[int, Any]:
    """A scalar as something to compare: null is oldest, not-a-number newest."""
    if value is None or value is _NAN:
        return (0 if value is None else 2), 0
    return 1, value
