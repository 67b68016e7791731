"""Rows as text: a drawn table, as SQL shells show it.

    +----+-------+
    | id | price |
    +----+-------+
    |  1 |  30.2 |
    +----+-------+

Numbers stand to the right, all else to the left. Widths are those of the first rows; a wider cell further down sticks
out, so that a result of any size is drawn as it comes.
"""

import datetime
from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import chain, islice, zip_longest
from typing import Any
from unicodedata import combining, east_asian_width

import pyarrow as pa

MEASURED_ROWS = 1000
NULL = "NULL"


def drawn(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """The lines of a drawn table."""
    rows = (cells for batch in batches for cells in _cells(batch))
    first = list(islice(rows, MEASURED_ROWS))
    names = [_printable(name) for name in schema.names]
    widths = [max(map(_width, column)) for column in zip(names, *first, strict=True)]
    border = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    right = [_is_number(field.type) for field in schema]
    yield border
    yield from _row(names, widths, [False] * len(widths))
    yield border
    for row in chain(first, rows):
        yield from _row(row, widths, right)
    yield border


def cell(value: Any) -> str:
    """One value."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.datetime):
        return _instant(value)
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, list):
        return _list(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}={cell(item)}" for name, item in value.items()) + "}"
    return _printable(str(value))


def _printable(text: str) -> str:
    """Text that moves no cursor and changes no colours; lines stay lines."""
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable() or character == "\n"
        else character.encode("unicode_escape").decode()
        for character in text
    )


def _list(value: list[Any]) -> str:
    if value and all(isinstance(item, tuple) for item in value):
        return "{" + ", ".join(f"{cell(key)}={cell(item)}" for key, item in value) + "}"
    return "[" + ", ".join(map(cell, value)) + "]"


def _instant(value: datetime.datetime) -> str:
    """Without the T; milliseconds or microseconds where there are any; times with a zone end in Z."""
    plain = value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo else value
    digits = "milliseconds" if plain.microsecond % 1000 == 0 else "microseconds"
    text = plain.isoformat(" ", digits if plain.microsecond else "seconds")
    return f"{text}{'Z' if value.tzinfo else ''}"


def _cells(batch: pa.RecordBatch) -> Iterator[tuple[str, ...]]:
    columns = [[cell(python_value(value)) for value in column] for column in batch.columns]
    return zip(*columns, strict=True)


def python_value(value: pa.Scalar) -> Any:
    """A value of Python; what Python has no type for, nanoseconds and floats of 32 bits, as text."""
    has_type = value.type != pa.float32() and getattr(value.type, "unit", "") != "ns"
    return value.as_py() if has_type else value.cast(pa.string()).as_py()


def _row(cells: Iterable[str], widths: list[int], right: list[bool]) -> Iterator[str]:
    """One line, or several if a cell has several."""
    for parts in zip_longest(*(text.split("\n") for text in cells), fillvalue=""):
        padded = (
            _padded(text, width, to_right=to_right)
            for text, width, to_right in zip(parts, widths, right, strict=True)
        )
        yield "| " + " | ".join(padded) + " |"


def _padded(text: str, width: int, *, to_right: bool) -> str:
    room = " " * (width - _line_width(text))
    return room + text if to_right else text + room


def _width(text: str) -> int:
    return max(map(_line_width, text.split("\n")))


def _line_width(text: str) -> int:
    """In places of a terminal: some letters take two, and accents none."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) else 1 + (east_asian_width(c) in "WF") for c in text)


def _is_number(arrow: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(arrow) or pa.types.is_floating(arrow) or pa.types.is_decimal(arrow)
    )
