"""Values out of JSON and text: the inverse of `json_out.py`, by the type of the column they are for.

Nothing is guessed and nothing lost: a number with a fraction is no integer, a time with more digits than the column
holds is refused. `reader_of` gives a function from one JSON value to one that Arrow takes; it raises ValueError with
what would be accepted.
"""

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import time
from decimal import Decimal, InvalidOperation
from types import NoneType
from typing import Any, TypeAlias

import pyarrow as pa

Reader: TypeAlias = Callable[[Any], Any]

# The least number that becomes infinity when it is rounded to 32 bits: the digits shown of the greatest are above it.
FLOAT_END = 3.4028235677973366e38

# Zeros at the end of a fraction, which say nothing; the point goes with them if no other digit is left.
_ZEROS = re.compile(r"(?:(\.\d*[1-9])|\.)0+(?!\d)")


def loads(text: str) -> Any:
    """A JSON document; numbers with a fraction stay exact, a member that is there twice is refused with ValueError."""
    return json.loads(text, parse_float=Decimal, object_pairs_hook=_members)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} is there twice in one object")
    return found


def csv_type(arrow: pa.DataType) -> pa.DataType:
    """As what a field of CSV is read and written: text for lists, maps and structs, as JSON, and for binary."""
    is_bytes = pa.types.is_binary(arrow) or pa.types.is_fixed_size_binary(arrow)
    return pa.string() if pa.types.is_nested(arrow) or is_bytes else arrow


def in_bulk(values: Sequence[Any], arrow: pa.DataType) -> pa.Array | None:
    """All values at once where Arrow reads them as `reader_of` would; None if they must be read one by one."""
    kinds = set(map(type, values)) - {NoneType}
    if not kinds <= _bulk_kinds(arrow):
        return None
    try:
        if kinds == {str}:
            return pa.array(values, pa.string()).cast(arrow)
        if pa.types.is_floating(arrow):
            values = [None if value is None else _float(value) for value in values]
        return pa.array(values, arrow)
    except (pa.ArrowException, OverflowError, ValueError):
        return None  # reading them one by one tells which it is


def _bulk_kinds(arrow: pa.DataType) -> set[type]:
    if pa.types.is_boolean(arrow):
        return {bool}
    if pa.types.is_integer(arrow):
        return {int}
    if pa.types.is_float64(arrow):
        return {int, Decimal}
    is_time_of_day = pa.types.is_time(arrow)
    is_text = pa.types.is_string(arrow) or pa.types.is_decimal(arrow) or pa.types.is_temporal(arrow)
    return {str} if is_text and not is_time_of_day else set()


def value_of_text(text: str, arrow: pa.DataType) -> Any:
    """A value written without JSON's quotes, as on a command line: 42, true, 2024-01-31, some text."""
    if pa.types.is_boolean(arrow) or pa.types.is_integer(arrow) or pa.types.is_nested(arrow):
        try:
            return reader_of(arrow)(loads(text))
        except json.JSONDecodeError as error:
            raise ValueError(f"{text!r} is no {arrow}") from error
    return reader_of(arrow)(text)


def reader_of(arrow: pa.DataType) -> Reader:
    """How values of a type are read; null is null."""
    read = _nested_reader(arrow) if pa.types.is_nested(arrow) else _scalar_reader(arrow)
    return lambda value: None if value is None else read(value)


def _scalar_reader(arrow: pa.DataType) -> Reader:
    if pa.types.is_boolean(arrow):
        return lambda value: _of_kind(value, bool, "true or false")
    if pa.types.is_integer(arrow):
        return _integer_reader(arrow)
    if pa.types.is_floating(arrow):
        return _float if pa.types.is_float64(arrow) else _short_float
    if pa.types.is_decimal(arrow):
        return _decimal
    if pa.types.is_binary(arrow) or pa.types.is_fixed_size_binary(arrow):
        return _bytes
    if pa.types.is_temporal(arrow):
        return _time_reader(arrow)
    return _text


def _text(value: Any) -> str:
    text: str = _of_kind(value, str, "text")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        # JSON can write half of a character that takes two; no column can hold it.
        raise ValueError(f"{json.dumps(text)} is not text: it has half of a character") from error
    return text


def _integer_reader(arrow: pa.DataType) -> Reader:
    limit = 1 << (arrow.bit_width - 1)

    def read(value: Any) -> int:
        number: int = _of_kind(value, int, "a whole number")
        if not -limit <= number < limit:
            raise ValueError(f"{_shown(value)} is out of range for {arrow}")
        return number

    return read


def _nested_reader(arrow: pa.DataType) -> Reader:
    if pa.types.is_map(arrow):
        return _map_reader(reader_of(arrow.key_type), reader_of(arrow.item_type))
    if pa.types.is_struct(arrow):
        return _struct_reader({field.name: reader_of(field.type) for field in arrow})
    element = reader_of(arrow.value_type)
    return lambda value: [element(inner) for inner in _of_kind(value, list, "a list")]


def _map_reader(key: Reader, item: Reader) -> Reader:
    def read(value: Any) -> Any:
        """A list of pairs; or an object, whose keys are text."""
        given = list(value.items()) if isinstance(value, dict) else _of_kind(value, list, "a map")
        if not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in given):
            raise ValueError(f"{_shown(value)} is no list of pairs")
        return [(key(left), item(right)) for left, right in given]

    return read


def _struct_reader(readers: Mapping[str, Reader]) -> Reader:
    def read(value: Any) -> Any:
        given = _of_kind(value, dict, "an object")
        unknown = set(given) - set(readers)
        if unknown:
            raise ValueError(f"{min(unknown)!r} is no field; known: {', '.join(readers)}")
        return {name: read_field(given.get(name)) for name, read_field in readers.items()}

    return read


def _of_kind(value: Any, kind: type, accepted: str) -> Any:
    if type(value) is not kind:
        raise ValueError(f"{_shown(value)} is not {accepted}")
    return value


def _float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        raise ValueError(f"{_shown(value)} is not a number")
    try:
        number = float(value)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{_shown(value)} is not a number") from error
    # Words such as nan and inf are meant; digits that give infinity are not.
    if not math.isfinite(number) and any(map(str.isdigit, str(value))):
        raise ValueError(f"{_shown(value)} is out of range")
    return number


def _short_float(value: Any) -> float:
    number = _float(value)
    if math.isfinite(number) and abs(number) >= FLOAT_END:
        raise ValueError(f"{_shown(value)} is out of range")
    return number


def _decimal(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        raise ValueError(f"{_shown(value)} is not a decimal number")
    try:
        return Decimal(value)
    except InvalidOperation as error:
        raise ValueError(f"{_shown(value)} is not a decimal number") from error


def _bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(_of_kind(value, str, "base64 text"), validate=True)
    except binascii.Error as error:
        raise ValueError(f"{_shown(value)} is not base64 text") from error


def _time_reader(arrow: pa.DataType) -> Reader:
    """Text by Arrow's own rules, which refuse digits too many and a zone that is missing or too much."""
    is_time = pa.types.is_time(arrow)
    # Arrow reads no time of day; on the first day of its calendar it is a timestamp of the same number.
    carrier = pa.timestamp(arrow.unit) if is_time else arrow

    def read(value: Any) -> int:
        text = _ZEROS.sub(r"\1", _of_kind(value, str, f"{arrow} as text"))
        if is_time:
            _check_time_of_day(text)
            text = f"1970-01-01T{text}"
        try:
            number: int = pa.scalar(text).cast(carrier).value
        except pa.ArrowInvalid as error:
            raise ValueError(f"{_shown(value)} is not {arrow}") from error
        return number

    return read


def _check_time_of_day(text: str) -> None:
    if time.fromisoformat(text).tzinfo is not None:
        raise ValueError(f"{_shown(text)} has a time zone")


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:79]}…"
