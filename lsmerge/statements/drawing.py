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

import pyarrow as pa

from lsmerge.statements.grid import Grid, printable

MEASURED_ROWS = 1000
GAP = " | "
NULL = "NULL"


def drawn(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """The lines of a drawn table."""
    rows = (cells for batch in batches for cells in _cells(batch))
    first = list(islice(rows, MEASURED_ROWS))
    names = [printable(name, lines=True) for name in schema.names]
    body = Grid.measured(map(is_number, schema.types), [names, *first], GAP, least=0)
    header = Grid(body.widths, (False,) * len(names), GAP)
    border = "+" + "+".join("-" * (width + 2) for width in body.widths) + "+"
    yield border
    yield from _row(header, names)
    yield border
    for row in chain(first, rows):
        yield from _row(body, row)
    yield border


def _row(grid: Grid, cells: Iterable[str]) -> Iterator[str]:
    """One line, or several if a cell has several."""
    for parts in zip_longest(*(text.split("\n") for text in cells), fillvalue=""):
        yield f"| {grid.line(parts)} |"


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
    if isinstance(value, pa.MonthDayNano):
        return _interval(value)
    if isinstance(value, list):
        return _list(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}={cell(item)}" for name, item in value.items()) + "}"
    return printable(str(value), lines=True)


def _list(value: list[Any]) -> str:
    if value and all(isinstance(item, tuple) for item in value):
        return "{" + ", ".join(f"{cell(key)}={cell(item)}" for key, item in value) + "}"
    return "[" + ", ".join(map(cell, value)) + "]"


def _interval(value: pa.MonthDayNano) -> str:
    amounts = (
        (Decimal(value.months), "month"),
        (Decimal(value.days), "day"),
        (Decimal(value.nanoseconds).scaleb(-9).normalize(), "second"),
    )
    parts = [f"{amount:f} {unit}{'' if amount == 1 else 's'}" for amount, unit in amounts if amount]
    return " ".join(parts) or "0 seconds"


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


def is_number(arrow: pa.DataType) -> bool:
    """Whether a column stands to the right."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(test(arrow) for test in tests)
