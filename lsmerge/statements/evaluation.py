"""DuckDB evaluates; lsmerge gives it rows as Arrow streams and takes its answers as such.

Nothing is kept in DuckDB: each question gets a connection of its own, which knows only the streams of that question.
A stream may be read several times and each time starts anew, from the same snapshot.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa

from lsmerge.statements.catalog import nearest
from lsmerge.statements.script import Statement

BATCH_ROWS = 65_536

_UNKNOWN_COLUMN = re.compile(
    r'(?:Referenced column|does not have a column named) "(?P<name>[^"]+)"'
)
_UNKNOWN_SOURCE = re.compile(r'Referenced table "(?P<name>[^"]+)" not found')
_UNKNOWN_FUNCTION = re.compile(
    r'[Ff]unction with name "?(?P<name>\w+)"? does not exist!(?:.*?Did you mean "(?P<near>[^"]+)")?',
    re.DOTALL,
)
_QUOTED = re.compile(r"""['"](?P<name>[^'"]+)['"]""")
_ERROR_KIND = re.compile(r"^[A-Z][A-Za-z ]+ Error: ")


class Stream:
    """Rows for DuckDB. What goes wrong while they are read is kept, since DuckDB would only quote it."""

    def __init__(self, schema: pa.Schema, batches: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        self.schema = schema
        self.error: Exception | None = None
        self._batches = batches

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self.schema, self._read())
        return reader.__arrow_c_stream__(requested_schema)

    def _read(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._batches()
        except Exception as error:
            self.error = error
            raise


@dataclass(frozen=True, slots=True)
class Question:
    """A query for DuckDB, the streams that it names, and the statement that it was made from.

    `known` are the columns of all its tables, also of those that are not read.
    """

    statement: Statement
    sql: str
    streams: Mapping[str, Stream]
    settings: Mapping[str, str]
    known: frozenset[str] = frozenset()

    def schema(self) -> pa.Schema:
        """The columns of the answer; no row is read."""
        with self._asked(self.sql) as relation:
            # A limit makes names that occur twice differ.
            types = relation.limit(0).to_arrow_table().schema
            return pa.schema(
                [field.with_name(name) for field, name in zip(types, relation.columns, strict=True)]
            )

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows of the answer as they come."""
        with self._asked(self.sql) as relation:
            yield from relation.to_arrow_reader(BATCH_ROWS)

    def asking(self, sql: str) -> "Question":
        """Another question about the same streams."""
        return replace(self, sql=sql)

    @contextmanager
    def _asked(self, sql: str) -> Iterator[Any]:
        connection = _database().cursor()
        try:
            for name, value in self.settings.items():
                connection.execute(f"SET {name} = {_text(value)}")
            for name, stream in self.streams.items():
                connection.register(name, stream)
            yield connection.sql(sql)
        except (
            duckdb.Error,
            pa.ArrowException,
            OSError,
        ) as error:  # OSError: what a stream of Arrow reports
            raise self._explained(error) from None
        finally:
            connection.close()

    def _explained(self, error: Exception) -> Exception:
        """What a stream raised, else what DuckDB says in words of the statement."""
        for stream in self.streams.values():
            if stream.error is not None:
                return stream.error
        message, name = _in_words(str(error), self.known)
        return self.statement.error(self.statement.place_of(name) if name else 0, message)


def value_of(statement: Statement, sql: str, settings: Mapping[str, str]) -> Any:
    """The value of a constant expression."""
    [batch] = Question(statement, f"SELECT ({sql}) AS value", {}, settings).batches()
    return batch["value"][0].as_py()


@cache
def _database() -> Any:
    """One for the process: opening it takes longer than most questions."""
    return duckdb.connect(
        ":memory:",
        # A name that is no table must not find a variable of the program; nothing is fetched from elsewhere.
        config={"python_enable_replacements": "false", "autoinstall_known_extensions": "false"},
    )


def _in_words(message: str, known: frozenset[str]) -> tuple[str, str | None]:
    """DuckDB's message in one line, and the name or value that it is about."""
    if found := _UNKNOWN_COLUMN.search(message):
        hint = f"; {nearest(found['name'], known)}" if known else ""
        return f"unknown column {found['name']!r}{hint}", found["name"]
    if found := _UNKNOWN_SOURCE.search(message):
        return f"no table of the query is called {found['name']!r}", found["name"]
    if found := _UNKNOWN_FUNCTION.search(message):
        hint = f"; did you mean {found['near']!r}?" if found["near"] else ""
        return f"unknown function {found['name']!r}{hint}", found["name"]
    line = _ERROR_KIND.sub("", message.strip().splitlines()[0])
    about = _QUOTED.search(line)
    return line.rstrip("."), about["name"] if about else None


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
