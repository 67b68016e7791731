"""Case values and Arrow values: how the JSON of a case becomes columns, and how rows compare.

Type names are those of README.md here. They are read without help from lsmerge, so that a mistake
in its own type parser cannot hide itself.
"""

import datetime
import decimal
import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

_PLAIN: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
}
_PARAMETRISED: dict[str, Callable[..., pa.DataType]] = {
    "decimal": pa.decimal128,
    "char": lambda _length: pa.string(),
    "varchar": lambda _length: pa.string(),
    "binary": pa.binary,
    "time": lambda digits=0: _time(digits),
    "timestamp": lambda digits=6: pa.timestamp(_unit(digits)),
    "timestamp_ltz": lambda digits=6: pa.timestamp(_unit(digits), "UTC"),
}
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def arrow_type(name: str) -> pa.DataType:
    """The Arrow type of a case's column type."""
    name = name.strip()
    if name in _PLAIN:
        return _PLAIN[name]
    if nested := re.fullmatch(r"(array|map|row)<(.*)>", name):
        return _nested(nested[1], _split(nested[2]))
    if match := re.fullmatch(r"(\w+)(?:\(([\d, ]+)\))?", name):
        arguments = [int(part) for part in match[2].split(",")] if match[2] else []
        return _PARAMETRISED[match[1]](*arguments)
    raise ValueError(f"unknown column type {name!r}")


def arrow_array(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """A column from case values."""
    return pa.array([_to_python(value, type_) for value in values], type_)


def canonical_rows(table: pa.Table, unordered: Sequence[str] = ()) -> list[tuple[Any, ...]]:
    """The rows as tuples that compare with ==, whatever the types."""
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        values = [canonical(scalar) for scalar in column]
        columns.append([_as_multiset(v) for v in values] if name in unordered else values)
    return list(zip(*columns, strict=True)) if columns else []


def canonical(scalar: pa.Scalar) -> Any:
    """One value in a form that is equal exactly when the values are; maps without their order."""
    type_ = scalar.type
    if not scalar.is_valid:
        return None
    if pa.types.is_map(type_):
        entries = [(canonical(e["key"]), canonical(e["value"])) for e in scalar.values]
        return sorted(entries, key=repr)
    if pa.types.is_list(type_):
        return [canonical(element) for element in scalar.values]
    if pa.types.is_struct(type_):
        return [canonical(scalar[index]) for index in range(type_.num_fields)]
    if pa.types.is_timestamp(type_) or pa.types.is_time(type_):
        return scalar.value  # exact in every unit, which datetime is not
    if pa.types.is_floating(type_) and scalar.as_py() != scalar.as_py():
        return "NaN"
    return scalar.as_py()


def _unit(digits: int) -> str:
    return next(unit for unit, held in _DIGITS.items() if digits <= held)


def _time(digits: int) -> pa.DataType:
    unit = _unit(digits)
    return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)


def _nested(kind: str, parts: list[str]) -> pa.DataType:
    if kind == "array":
        return pa.list_(arrow_type(parts[0]))
    if kind == "map":
        return pa.map_(arrow_type(parts[0]), arrow_type(parts[1]))
    fields = [part.strip().split(" ", 1) for part in parts]
    return pa.struct([(name, arrow_type(type_)) for name, type_ in fields])


def _split(text: str) -> list[str]:
    """Split at the commas that are not inside <> or ()."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def _to_python(value: Any, type_: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_map(type_):
        return [(_to_python(k, type_.key_type), _to_python(v, type_.item_type)) for k, v in value]
    if pa.types.is_list(type_):
        return [_to_python(element, type_.value_type) for element in value]
    if pa.types.is_struct(type_):
        fields = [type_.field(index) for index in range(type_.num_fields)]
        return {f.name: _to_python(v, f.type) for f, v in zip(fields, value, strict=True)}
    return _scalar_to_python(value, type_)


def _scalar_to_python(value: Any, type_: pa.DataType) -> Any:
    if pa.types.is_decimal(type_):
        return decimal.Decimal(value)
    if pa.types.is_date(type_):
        return datetime.date.fromisoformat(value)
    if pa.types.is_time(type_):
        return _ticks("1970-01-01T" + value, type_.unit)
    if pa.types.is_timestamp(type_):
        return _ticks(value, type_.unit)
    if pa.types.is_binary(type_) or pa.types.is_fixed_size_binary(type_):
        return bytes.fromhex(value.removeprefix("0x"))
    return value


def _ticks(text: str, unit: str) -> int:
    """ISO text, up to nine fraction digits, zone-less or Z, as a count of units since the epoch."""
    match = re.fullmatch(r"([\d-]+)[T ]([\d:]+)(?:\.(\d+))?Z?", text)
    assert match is not None, f"not an ISO timestamp: {text!r}"
    moment = datetime.datetime.fromisoformat(f"{match[1]}T{match[2]}+00:00")
    digits = _DIGITS[unit]
    fraction = (match[3] or "").ljust(9, "0")
    assert not fraction[digits:].strip("0"), f"{text!r} is finer than {unit}"
    return int(moment.timestamp()) * 10**digits + int(fraction[:digits] or 0)


def _as_multiset(value: Any) -> Any:
    return sorted(value, key=repr) if isinstance(value, list) else value
