"""Where in a CSV file the value or line is that Arrow could not read: Arrow tells the value, not its place.

The file is read once more, slowly, up to that place; this happens only on the way to an error.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from csv import Error as CsvError
from csv import reader as csv_lines
from dataclasses import dataclass
from itertools import islice
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


@dataclass(frozen=True, slots=True)
class CsvFile:
    """A file, what tells its values apart, what stands for null, and as what its columns are read."""

    name: str
    bytes: IO[bytes]
    delimiter: str
    null: str
    types: Mapping[str, pa.DataType]

    def header(self) -> list[str]:
        _, names = next(self.rows())
        return [names[0].removeprefix("\ufeff"), *names[1:]]

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Each row with the line on which it ends."""
        self.bytes.seek(0)
        with user_files.decoded(self.bytes) as text:
            lines = csv_lines(text, delimiter=self.delimiter)
            try:
                for row in lines:
                    yield lines.line_num, row
            except CsvError:
                return

    def values(self, column: int) -> Iterator[tuple[int, str]]:
        """Each value of a column, by its number, with its line."""
        below_header = islice(self.rows(), 1, None)
        return ((line, row[column]) for line, row in below_header if column < len(row))

    def line_of(self, row: int) -> int | None:
        """The line on which a row below the header ends; lines without anything hold no row."""
        lines = (line for line, values in self.rows() if values)
        return next(islice(lines, 1 + row, None), None)

    def reads(self, text: str, arrow: pa.DataType) -> bool:
        """Whether a value is one of a type; what was no UTF-8 has been replaced by a sign of its own."""
        if text in ("", self.null):
            return True
        try:
            return "\ufffd" not in text and pa.scalar(text).cast(arrow) is not None
        except pa.ArrowInvalid:
            return False


@contextmanager
def located(file: CsvFile) -> Iterator[None]:
    """Around what Arrow reads of a file: a refusal names the file, the line, the column and the value."""
    try:
        yield
    except pa.ArrowInvalid as error:
        raise SchemaMismatchError(f"{file.name}{_told(str(error), file)}") from error


def _told(message: str, file: CsvFile) -> str:
    if found := _VALUE.search(message):
        return _of_value(found, file)
    if found := _WIDTH.search(message):
        return _of_width(int(found["wanted"]), int(found["found"]), file)
    if found := _COLUMN.search(message):
        return _of_column(int(found["column"]), found["reason"].partition(". ")[0], file)
    return f": {message.partition(chr(10))[0]}"


def _of_value(found: re.Match[str], file: CsvFile) -> str:
    number, value = int(found["column"]), found["value"]
    place = _place(line for line, given in file.values(number) if given == value)
    return f"{place}: column {file.header()[number]!r}: {value!r} is not {found['type']}"


def misread(file: CsvFile, column: str, value: str, reason: str) -> SchemaMismatchError:
    """The refusal of a value that is text for Arrow and should have been something else."""
    values = file.values(file.header().index(column))
    place = _place(line for line, given in values if given == value)
    return SchemaMismatchError(f"{file.name}{place}: column {column!r}: {reason}")


def _of_width(wanted: int, given: int, file: CsvFile) -> str:
    place = _place(line for line, row in file.rows() if row and len(row) != wanted)
    return f"{place}: {given} values where the header names {wanted} columns"


def _of_column(number: int, reason: str, file: CsvFile) -> str:
    """Arrow does not tell which value it is: the first that is none of the column's type."""
    column = file.header()[number]
    arrow = file.types.get(column)
    for line, value in file.values(number) if arrow is not None else ():
        if not file.reads(value, arrow):
            return f", line {line}: column {column!r}: {value!r} is not {arrow} ({reason})"
    return f": column {column!r}: {reason}"


def _place(lines: Iterator[int]) -> str:
    line = next(lines, None)
    return f", line {line}" if line is not None else ""
