"""Lines of JSON, one object each, to batches of columns with given types.

A column that a line leaves out is null there. Whatever cannot be read is refused with the number of its line.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import IO, Any

import pyarrow as pa

from lsmerge import SchemaMismatchError
from lsmerge.cli import json_in

LINES_AT_ONCE = 8192


class JsonLines:
    """Reads lines of one source; `defaults` are for columns that a line leaves out, `ignored` names to pass over."""

    def __init__(
        self,
        source: str,
        types: Mapping[str, pa.DataType],
        *,
        defaults: Mapping[str, Any],
        ignored: Collection[str],
    ) -> None:
        self.schema = pa.schema(list(types.items()))
        self._source = source
        self._readers = {name: json_in.reader_of(arrow) for name, arrow in types.items()}
        self._defaults = defaults
        self._known = {*types, *ignored}
        # Of the batch that was given last: the number of its first row, and the line of each.
        self._first_row = 0
        self._lines: list[int] = []

    def batches(self, stream: IO[bytes]) -> Iterator[pa.RecordBatch]:
        """The rows of a stream, so many lines at a time; lines without anything are passed over."""
        numbered = enumerate(stream, start=1)
        while lines := list(islice(numbered, LINES_AT_ONCE)):
            rows = [(number, self._row(number, line)) for number, line in lines if line.strip()]
            self._first_row += len(self._lines)
            self._lines = [number for number, _ in rows]
            arrays = [self._column(field, rows) for field in self.schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def line_of(self, row: int) -> int | None:
        """The line of a row of the batch that was given last; None for any other."""
        place = row - self._first_row
        return self._lines[place] if 0 <= place < len(self._lines) else None

    def _row(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            # A line may begin with the mark that some programs write at the start of a file.
            row = json_in.loads(line.decode("utf-8-sig"))
        except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
            raise self._refusal(number, f"not JSON: {error}") from error
        except ValueError as error:
            raise self._refusal(number, str(error)) from error
        if not isinstance(row, dict):
            raise self._refusal(number, "a line must hold one object, such as {...}")
        for name in row.keys() - self._known:
            raise self._refusal(number, f"unknown column {name!r}; {self._nearest(name)}")
        return {**self._defaults, **row}

    def _column(self, field: pa.Field, rows: Sequence[tuple[int, dict[str, Any]]]) -> pa.Array:
        found = json_in.in_bulk([row.get(field.name) for _, row in rows], field.type)
        if found is not None:
            return found
        values = [self._value(number, field.name, row.get(field.name)) for number, row in rows]
        try:
            return pa.array(values, field.type)
        except (pa.ArrowException, OverflowError) as error:
            where = f"column {field.name!r}, here or up to line {rows[-1][0]}: {error}"
            raise self._refusal(rows[0][0], where) from error

    def _value(self, number: int, name: str, value: Any) -> Any:
        try:
            return self._readers[name](value)
        except ValueError as error:
            raise self._refusal(number, f"column {name!r}: {error}") from error

    def _nearest(self, name: str) -> str:
        known = [column for column in self.schema.names if column not in self._defaults]
        return SchemaMismatchError.hint(name, known)

    def _refusal(self, number: int, reason: str) -> SchemaMismatchError:
        return SchemaMismatchError(f"{self._source}, line {number}: {reason}")
