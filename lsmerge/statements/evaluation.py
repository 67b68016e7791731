"""DuckDB evaluates; lsmerge gives it rows as Arrow streams and takes its answers as such.

Nothing is kept in DuckDB: each question gets a connection of its own, which knows only the streams of that question.
A stream may be read several times and each time starts anew, from the same snapshot.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa

from lsmerge.statements.script import Statement
from lsmerge.statements.wording import of_duckdb

BATCH_ROWS = 65_536


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
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            # OSError is what a stream of Arrow reports.
            raise self._explained(error) from None
        finally:
            connection.close()

    def _explained(self, error: Exception) -> Exception:
        """What a stream raised, else what DuckDB says in words of the statement."""
        for stream in self.streams.values():
            if stream.error is not None:
                return stream.error
        told = of_duckdb(str(error), self.known)
        place = 0 if told.about is None else self.statement.place_of(told.about)
        return self.statement.error(place, told.message)


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


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
