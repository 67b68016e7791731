"""Where in a CSV file the value or line is that Arrow could not read: Arrow tells the value, not its place.

The file is read once more, slowly, up to that place; this happens only on the way to an error.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from csv import Error as CsvError
from csv import reader as csv_lines
from typing import IO

import pyarrow as pa

from lsmerge import SchemaMismatchError
from lsmerge.cli import user_files

_VALUE = re.compile(
    r"In CSV column #(?P<column>\d+): (?:Row #\d+: )?"
    r"CSV conversion error to (?P<type>.+?): invalid value '(?P<value>.*)'",
    re.DOTALL,
)
_COLUMN = re.compile(r"In CSV column #(?P<column>\d+): (?P<reason>.*)", re.DOTALL)
_WIDTH = re.compile(r"Expected (?P<wanted>\d+) columns, got (?P<found>\d+)")


@contextmanager
def located(name: str, file: IO[bytes], delimiter: str) -> Iterator[None]:
    """Around what Arrow reads of a file: a refusal names the file, the line and the column."""
    try:
        yield
    except pa.ArrowInvalid as error:
        raise SchemaMismatchError(f"{name}{_told(str(error), file, delimiter)}") from error


def _told(message: str, file: IO[bytes], delimiter: str) -> str:
    if found := _VALUE.search(message):
        return _of_value(found, file, delimiter)
    if found := _WIDTH.search(message):
        return _of_width(int(found["wanted"]), int(found["found"]), file, delimiter)
    if found := _COLUMN.search(message):
        column = _header(file, delimiter)[int(found["column"])]
        return f": column {column!r}: {found['reason']}"
    return f": {message.partition(chr(10))[0]}"


def _of_value(found: re.Match[str], file: IO[bytes], delimiter: str) -> str:
    number, value = int(found["column"]), found["value"]
    for line, row in _rows(file, delimiter):
        if number < len(row) and row[number] == value and line > 1:
            break
    else:
        line = 0
    place = f", line {line}" if line else ""
    return f"{place}: column {_header(file, delimiter)[number]!r}: {value!r} is not {found['type']}"


def _of_width(wanted: int, given: int, file: IO[bytes], delimiter: str) -> str:
    lines = (line for line, row in _rows(file, delimiter) if row and len(row) != wanted)
    line = next(lines, 0)
    place = f", line {line}" if line else ""
    return f"{place}: {given} values where the header names {wanted} columns"


def _header(file: IO[bytes], delimiter: str) -> list[str]:
    _, names = next(_rows(file, delimiter))
    return [names[0].removeprefix("\ufeff"), *names[1:]]


def _rows(file: IO[bytes], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Each row with the line on which it ends."""
    file.seek(0)
    with user_files.decoded(file) as text:
        lines = csv_lines(text, delimiter=delimiter)
        try:
            for row in lines:
                yield lines.line_num, row
        except CsvError:
            return
