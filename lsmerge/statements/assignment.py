"""Which values a column takes from a query, and what is cast on the way.

A table takes only what it can hold exactly. SQL is wider in a few places: decimals go into floats, text into dates
and times, a local time into an instant, sums into integers. There DuckDB casts. All else is left to the table, which
refuses values that do not fit; and where no cast is implied, an explicit CAST says what is meant.

Fields of a ROW are matched by position, as Flink does, if the query gave them no names.
"""

from enum import Enum

import pyarrow as pa


class Verdict(Enum):
    """How a value gets into a column."""

    KEEP = "as it is"
    CAST = "cast by DuckDB"
    REFUSE = "not without an explicit CAST"


def verdict(source: pa.DataType, target: pa.DataType) -> Verdict:
    """How values of one type get into a column of another."""
    if source == target:
        return Verdict.KEEP
    if pa.types.is_null(source):
        return Verdict.CAST
    if pa.types.is_nested(target):
        return _nested(source, target)
    for is_target, rule in _RULES:
        if is_target(target):
            return rule(source, target)
    return Verdict.REFUSE


def _to_integer(source: pa.DataType, _target: pa.DataType) -> Verdict:
    if pa.types.is_integer(source):
        return Verdict.KEEP
    # What DuckDB sums is wider than any integer of Arrow.
    is_whole = pa.types.is_decimal(source) and source.scale == 0
    return Verdict.CAST if is_whole else Verdict.REFUSE


def _to_float(source: pa.DataType, _target: pa.DataType) -> Verdict:
    if pa.types.is_floating(source) or pa.types.is_integer(source):
        return Verdict.KEEP
    return Verdict.CAST if pa.types.is_decimal(source) else Verdict.REFUSE


def _to_decimal(source: pa.DataType, _target: pa.DataType) -> Verdict:
    is_exact = pa.types.is_decimal(source) or pa.types.is_integer(source)
    return Verdict.KEEP if is_exact else Verdict.REFUSE


def _to_date(source: pa.DataType, _target: pa.DataType) -> Verdict:
    if pa.types.is_date(source):
        return Verdict.KEEP
    return Verdict.CAST if pa.types.is_string(source) else Verdict.REFUSE


def _to_time(source: pa.DataType, _target: pa.DataType) -> Verdict:
    if pa.types.is_time(source):
        return Verdict.KEEP
    return Verdict.CAST if pa.types.is_string(source) else Verdict.REFUSE


def _to_timestamp(source: pa.DataType, target: pa.DataType) -> Verdict:
    if pa.types.is_timestamp(source):
        same_kind = (source.tz is None) == (target.tz is None)
        if same_kind:
            return Verdict.KEEP
        return Verdict.CAST if target.tz else Verdict.REFUSE
    return (
        Verdict.CAST if pa.types.is_string(source) or pa.types.is_date(source) else Verdict.REFUSE
    )


def _same_family(source: pa.DataType, target: pa.DataType) -> Verdict:
    families = (pa.types.is_boolean, pa.types.is_string, _is_bytes)
    fits = any(is_kind(source) and is_kind(target) for is_kind in families)
    return Verdict.KEEP if fits else Verdict.REFUSE


def _is_bytes(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_binary(arrow) or pa.types.is_fixed_size_binary(arrow))


_RULES = (
    (pa.types.is_integer, _to_integer),
    (pa.types.is_floating, _to_float),
    (pa.types.is_decimal, _to_decimal),
    (pa.types.is_date, _to_date),
    (pa.types.is_time, _to_time),
    (pa.types.is_timestamp, _to_timestamp),
    (lambda _: True, _same_family),
)


def _nested(source: pa.DataType, target: pa.DataType) -> Verdict:
    """DuckDB casts the whole, if every part of it can be, and none would be rounded on the way."""
    pairs = _parts(source, target)
    if pairs is None or any(_would_refuse(*pair) for pair in pairs):
        return Verdict.REFUSE
    return Verdict.CAST


def _parts(
    source: pa.DataType, target: pa.DataType
) -> list[tuple[pa.DataType, pa.DataType]] | None:
    for is_kind in (pa.types.is_map, pa.types.is_list, pa.types.is_struct):
        if is_kind(source) and is_kind(target) and source.num_fields == target.num_fields:
            return [
                (source.field(index).type, _field_like(source.field(index), target, index).type)
                for index in range(source.num_fields)
            ]
    return None


def _field_like(field: pa.Field, target: pa.DataType, index: int) -> pa.Field:
    """The field of the target that DuckDB fills: that of the same name, if names are given at all."""
    by_name = target.get_field_index(field.name) if pa.types.is_struct(target) else -1
    return target.field(index if by_name < 0 else by_name)


def _would_refuse(source: pa.DataType, target: pa.DataType) -> bool:
    return verdict(source, target) is Verdict.REFUSE or _may_round(source, target)


def _may_round(source: pa.DataType, target: pa.DataType) -> bool:
    if pa.types.is_decimal(source) and pa.types.is_decimal(target):
        return bool(source.scale > target.scale)
    if pa.types.is_timestamp(source) and pa.types.is_timestamp(target):
        order = ("s", "ms", "us", "ns")
        return order.index(source.unit) > order.index(target.unit)
    return bool(pa.types.is_float64(source) and pa.types.is_float32(target))
