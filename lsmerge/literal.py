"""Literals of filters: from what a user writes to a value of the column's Arrow type.

A column has a domain: the values its type can hold. A literal may fall between two of them (4.5 for
an INT, a nanosecond for TIMESTAMP(3)) or outside all (300 for a TINYINT). `place` therefore gives a
value of the domain and on which side of it the literal lies, with no other value in between. A
comparison is then exact, however strange its literal, and never an error for being out of range.
"""

import datetime
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn

import pyarrow as pa

from lsmerge.errors import InvalidFilterError
from lsmerge.schema import Column
from lsmerge.types import (
    BYTES_KINDS,
    FLOAT_KINDS,
    INTEGER_KINDS,
    TEXT_KINDS,
    TIMESTAMP_KINDS,
    UNIT_DIGITS,
    to_arrow,
    unit_of,
)

_FLOAT_MAX = 3.4028234663852886e38
_DOUBLE_MAX = 1.7976931348623157e308
_MAX_EXPONENT = 400
_SECONDS_PER_DAY = 86_400
_EPOCH = datetime.datetime(1970, 1, 1)
_TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?)?\s*(Z|[+-]\d\d:?\d\d)?",
    re.ASCII,
)
_TIME = re.compile(r"(\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?", re.ASCII)


@dataclass(frozen=True)
class Placed:
    """A value of the column and the literal's side of it: -1 below, 0 equal, +1 above."""

    value: pa.Scalar
    side: int


def place(column: Column, literal: object) -> Placed:
    """Where a literal lies in the column's domain; refused if it has no meaning there."""
    kind = column.type.kind
    if kind in TEXT_KINDS and isinstance(literal, str):
        return _text(column, literal)
    if kind in BYTES_KINDS and isinstance(literal, bytes | bytearray | memoryview):
        return _bytes(column, bytes(literal))
    if kind == "BOOLEAN" and isinstance(literal, bool):
        return Placed(pa.scalar(literal, pa.bool_()), 0)
    if kind in FLOAT_KINDS:
        return _float(column, literal)
    ticks = _ticks(column, literal)
    if ticks is None:
        refuse(column, literal)
    return _on_grid(column, ticks)


def refuse(column: Column, literal: object) -> NoReturn:
    """Say what the column can be compared with."""
    raise InvalidFilterError(
        f"column {column.name!r} ({column.type}): cannot be compared with {str(literal)[:80]!r} "
        f"({type(literal).__name__}); accepted: {_ACCEPTED.get(column.type.kind, 'IS [NOT] NULL')}"
    )


_ACCEPTED: dict[str, str] = {
    "BOOLEAN": "true, false",
    **dict.fromkeys((*INTEGER_KINDS, *FLOAT_KINDS), "numbers"),
    "DECIMAL": "numbers, or text of one such as '1.50'",
    **dict.fromkeys(TEXT_KINDS, "text"),
    **dict.fromkeys(BYTES_KINDS, "bytes, or X'0aff' in text filters"),
    "DATE": "dates, or text such as '2024-01-31'",
    "TIME": "times, or text such as '13:45:00.5'",
    "TIMESTAMP": "datetimes without time zone, or text such as '2024-01-31 13:45:00.5'",
    "TIMESTAMP_LTZ": "datetimes, or text such as '2024-01-31T13:45:00Z'; UTC if no zone is given",
}


# ---------------------------------------------------------------------------- text, bytes, floats


def _text(column: Column, literal: str) -> Placed:
    try:
        return Placed(pa.scalar(literal, pa.string()), 0)
    except UnicodeEncodeError:
        refuse(column, literal)


def _bytes(column: Column, literal: bytes) -> Placed:
    if column.type.kind != "BINARY":
        return Placed(pa.scalar(literal, pa.binary()), 0)
    width = column.type.params[0]
    # A shorter literal sorts just below itself with zeros added, a longer one just above its start.
    fitted = literal[:width].ljust(width, b"\0")
    side = (len(literal) > width) - (len(literal) < width)
    return Placed(pa.scalar(fitted, pa.binary(width)), side)


def _float(column: Column, literal: Any) -> Placed:
    if isinstance(literal, bool) or not isinstance(literal, int | float | Decimal):
        refuse(column, literal)
    if _is_nan(literal):
        refuse(column, literal)
    largest = _FLOAT_MAX if column.type.kind == "FLOAT" else _DOUBLE_MAX
    arrow = to_arrow(column.type)
    if -largest <= literal <= largest or literal in (math.inf, -math.inf):
        return Placed(pa.scalar(float(literal), arrow), 0)
    side = 1 if literal > 0 else -1
    return Placed(pa.scalar(side * largest, arrow), side)


def _is_nan(number: float | Decimal) -> bool:
    return number.is_nan() if isinstance(number, Decimal) else number != number


# -------------------------------------------------------------------- everything that counts ticks


def _on_grid(column: Column, ticks: Fraction) -> Placed:
    """The nearest value at or below, or the end of the domain."""
    low, high = _domain(column)
    if ticks < low:
        return Placed(_from_ticks(column, low), -1)
    below = min(math.floor(ticks), high)
    return Placed(_from_ticks(column, below), int(ticks > below))


def _domain(column: Column) -> tuple[int, int]:
    if column.type.kind == "DECIMAL":
        largest = 10 ** column.type.params[0] - 1
        return -largest, largest
    if column.type.kind == "TIME":
        return 0, _SECONDS_PER_DAY * 10 ** _digits(column) - 1
    bits = to_arrow(column.type).bit_width - 1
    return -(2**bits), 2**bits - 1


def _from_ticks(column: Column, ticks: int) -> pa.Scalar:
    arrow = to_arrow(column.type)
    if column.type.kind == "DECIMAL":
        sign, digits = int(ticks < 0), tuple(map(int, str(abs(ticks))))
        return pa.scalar(Decimal((sign, digits, -column.type.params[1])), arrow)
    return pa.scalar(ticks, arrow)


def _ticks(column: Column, literal: object) -> Fraction | None:
    """The literal counted in the column's smallest step; None if it does not belong there."""
    kind = column.type.kind
    if isinstance(literal, bool):
        return None
    if kind in INTEGER_KINDS:
        return _number(literal)
    if kind == "DECIMAL":
        number = _number(_decimal(literal) if isinstance(literal, str) else literal)
        return None if number is None else number * 10 ** column.type.params[1]
    if kind == "DATE":
        return _days(literal)
    seconds = _seconds(column, literal)
    return None if seconds is None else seconds * 10 ** _digits(column)


def _digits(column: Column) -> int:
    return UNIT_DIGITS[unit_of(column.type)]


def _number(literal: Any) -> Fraction | None:
    """The exact number; a decimal of absurd magnitude is cut to one that is merely huge."""
    if isinstance(literal, int):
        return Fraction(literal)
    if isinstance(literal, float):
        return Fraction(literal) if math.isfinite(literal) else None
    if not isinstance(literal, Decimal) or not literal.is_finite():
        return None
    if literal and literal.adjusted() > _MAX_EXPONENT:
        return Fraction(10**_MAX_EXPONENT) * (-1 if literal < 0 else 1)
    if literal and literal.adjusted() < -_MAX_EXPONENT:
        return Fraction(-1 if literal < 0 else 1, 10**_MAX_EXPONENT)
    return Fraction(literal)


def _decimal(text: str) -> Decimal | None:
    plain = re.fullmatch(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,6})?\s*", text, re.ASCII)
    return Decimal(text.strip()) if plain else None


def _seconds(column: Column, literal: object) -> Fraction | None:
    """Seconds since the epoch or since midnight."""
    kind = column.type.kind
    if kind == "TIME":
        return _time_of_day(literal)
    if kind not in TIMESTAMP_KINDS:
        return None
    if isinstance(literal, datetime.datetime):
        return _instant(literal, Fraction(0), zoned=kind == "TIMESTAMP_LTZ")
    match = _TIMESTAMP.fullmatch(literal.strip()) if isinstance(literal, str) else None
    if match is None:
        return None
    day, clock, fraction, zone = match.groups()
    try:
        moment = datetime.datetime.fromisoformat(f"{day}T{clock or '00:00'}{zone or ''}")
    except ValueError:
        return None
    return _instant(moment, _fraction(fraction), zoned=kind == "TIMESTAMP_LTZ")


def _instant(moment: datetime.datetime, fraction: Fraction, *, zoned: bool) -> Fraction | None:
    if moment.tzinfo is not None and not zoned:
        return None
    # Subtracted as a number: at the ends of the calendar there is no datetime for the UTC time.
    offset = moment.utcoffset() or datetime.timedelta()
    local = moment.replace(tzinfo=None) - _EPOCH
    return _total_seconds(local) - _total_seconds(offset) + fraction


def _days(literal: object) -> Fraction | None:
    if isinstance(literal, str):
        try:
            literal = datetime.date.fromisoformat(literal.strip())
        except ValueError:
            return None
    if not isinstance(literal, datetime.date) or isinstance(literal, datetime.datetime):
        return None
    return Fraction(literal.toordinal() - _EPOCH.toordinal())


def _time_of_day(literal: object) -> Fraction | None:
    fraction = Fraction(0)
    if isinstance(literal, str):
        match = _TIME.fullmatch(literal.strip())
        if match is None:
            return None
        fraction = _fraction(match[2])
        try:
            literal = datetime.time.fromisoformat(match[1])
        except ValueError:
            return None
    if not isinstance(literal, datetime.time) or literal.tzinfo is not None:
        return None
    return _total_seconds(datetime.datetime.combine(_EPOCH, literal) - _EPOCH) + fraction


def _fraction(digits: str | None) -> Fraction:
    return Fraction(int(digits), 10 ** len(digits)) if digits else Fraction(0)


def _total_seconds(span: datetime.timedelta) -> Fraction:
    return Fraction(span // datetime.timedelta(microseconds=1), 1_000_000)
