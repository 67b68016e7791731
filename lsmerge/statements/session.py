"""Statements one after the other, in a session that knows a warehouse and settings."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, Self

import pyarrow as pa
from sqlglot import exp

from lsmerge import InvalidOptionError, LsmergeError
from lsmerge.statements.alteration import read_alter
from lsmerge.statements.catalog import Catalog
from lsmerge.statements.definition import read_create
from lsmerge.statements.description import described, shown_create
from lsmerge.statements.dialect import parsed
from lsmerge.statements.explanation import explained
from lsmerge.statements.query import Planner
from lsmerge.statements.result import Result
from lsmerge.statements.script import Statement, statements
from lsmerge.statements.settings import Settings
from lsmerge.statements.tokens import Words
from lsmerge.statements.writing import Writer

_QUERIES = ("SELECT", "WITH", "VALUES", "(", "TABLE")
# What is said otherwise here.
_INSTEAD = {
    "MERGE": "INSERT INTO merges rows by their key",
    "COPY": "say INSERT INTO ... SELECT * FROM read_csv('...'), or read_parquet",
    "USE": "a warehouse has no databases; another warehouse is another session",
    "CALL": "compaction and the like are methods of lsmerge.open_table(...), and commands of `lsmerge`",
    **dict.fromkeys(
        ("BEGIN", "START", "COMMIT", "ROLLBACK"), "every statement is a commit of its own"
    ),
}
_SHOWN_OTHERWISE = {
    **dict.fromkeys(
        ("DATABASES", "SCHEMAS", "CATALOGS"),
        "a warehouse has no databases, and SHOW TABLES lists its tables",
    ),
    "PARTITIONS": "say SELECT * FROM t$partitions",
    "TBLPROPERTIES": "say SELECT * FROM t$options",
}
_TEXT = pa.string()
_NUMBERS = count(1)


class Session:
    """Runs SQL on the tables of a warehouse: a directory, or any place that `create_table` takes.

    Without one its tables are in memory, its own, and gone when it is closed. Settings made by SET last as long as the
    session. It can be used from one thread at a time.

    >>> from lsmerge.statements import Session
    >>> with Session("memory://session") as session:
    ...     _ = session.sql("CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, v STRING)")
    ...     _ = session.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (1, 'c')")
    ...     print(session.sql("SELECT * FROM t"))
    +---+---+
    | k | v |
    +---+---+
    | 1 | c |
    | 2 | b |
    +---+---+
    """

    def __init__(
        self,
        warehouse: Any = None,
        *,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._is_private = warehouse is None
        place = f"memory://lsmerge.session-{next(_NUMBERS)}" if self._is_private else warehouse
        self.catalog = Catalog(place, storage_options)
        self.settings = Settings()

    def run(self, text: str) -> Iterator[Result]:
        """The result of each statement of `text`; a statement runs when its result is asked for."""
        if not isinstance(text, str):
            raise InvalidOptionError(f"text is a {type(text).__name__}; pass SQL as text")
        return (self._run(statement) for statement in statements(text))

    def sql(self, text: str) -> Result:
        """Run all statements of `text`; the result is that of the last one."""
        results = deque(self.run(text), maxlen=1)
        return results.pop() if results else Result()

    def close(self) -> None:
        """Close the tables that were opened; results that are not read yet cannot be read any more."""
        self.catalog.close()
        if self._is_private:
            self.catalog.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, statement: Statement) -> Result:
        result = self._done(statement)
        result.statement = statement.verb
        return result

    def _done(self, statement: Statement) -> Result:
        verb = statement.verb
        if verb in _QUERIES:
            return self._query(statement)
        if verb not in _VERBS:
            way_out = _INSTEAD.get(verb) or LsmergeError.hint(verb, (*_VERBS, "SELECT"))
            raise statement.error(0, f"{verb} is not available; {way_out}")
        return _VERBS[verb](self, statement)

    @property
    def _planner(self) -> Planner:
        return Planner(self.catalog, self.settings.of_duckdb())

    def _query(self, statement: Statement) -> Result:
        tree = parsed(statement)
        if isinstance(tree, exp.Insert):  # WITH ... INSERT
            return Writer(self._planner).insert(statement, tree)
        if not isinstance(tree, exp.Query | exp.Values):
            raise statement.error(0, f"{type(tree).__name__.upper()} does not go with WITH here")
        question = self._planner.plan(statement, tree).question
        return Result(question.schema(), question.batches)

    def _explain(self, statement: Statement) -> Result:
        query = _words(statement, "EXPLAIN").remaining()
        tree = parsed(query)
        if not isinstance(tree, exp.Query):
            raise query.error(0, "EXPLAIN is for queries")
        return explained(self._planner.plan(query, tree))

    def _insert(self, statement: Statement) -> Result:
        tree = parsed(statement)
        assert isinstance(tree, exp.Insert), "the verb is INSERT"
        return Writer(self._planner).insert(statement, tree)

    def _update(self, statement: Statement) -> Result:
        return Writer(self._planner).update(statement)

    def _delete(self, statement: Statement) -> Result:
        return Writer(self._planner).delete(statement)

    def _truncate(self, statement: Statement) -> Result:
        words = _words(statement, "TRUNCATE")
        words.take("TABLE")
        table = self.catalog.table(statement, words.name("a table"))
        words.expect_end()
        return Writer(self._planner).truncate(table)

    def _create(self, statement: Statement) -> Result:
        words = _words(statement, "CREATE")
        self.catalog.create(statement, read_create(words))
        return Result()

    def _alter(self, statement: Statement) -> Result:
        words = _words(statement, "ALTER")
        alteration = read_alter(words)
        if alteration.if_exists and self.catalog.find(statement, alteration.name) is None:
            return Result()
        table = self.catalog.table(statement, alteration.name)
        if alteration.partitions:
            return Writer(self._planner).drop_partitions(statement, table, alteration.partitions)
        with statement.locating(alteration.name.offset):
            table.alter(**alteration.changes)
        return Result()

    def _comment(self, statement: Statement) -> Result:
        words = _words(statement, "COMMENT")
        words.expect("ON", "TABLE")
        name = words.name("a table")
        words.expect("IS")
        text = "" if words.take("NULL") else words.text("a comment")
        words.expect_end()
        self.catalog.table(statement, name).alter(comment=text)
        return Result()

    def _drop(self, statement: Statement) -> Result:
        words = _words(statement, "DROP")
        words.expect("TABLE")
        if_exists = words.take("IF", "EXISTS")
        name = words.name("a table")
        words.expect_end()
        if not if_exists or self.catalog.find(statement, name) is not None:
            self.catalog.drop(statement, name)
        return Result()

    def _describe(self, statement: Statement) -> Result:
        words = _words(statement, statement.verb)
        words.take("TABLE")
        words.take_one_of("EXTENDED", "FORMATTED")
        table = self.catalog.table(statement, words.name("a table"))
        words.expect_end()
        return described(table)

    def _show(self, statement: Statement) -> Result:
        words = _words(statement, "SHOW")
        if words.take("CREATE", "TABLE"):
            name = words.name("a table")
            words.expect_end()
            return shown_create(name.text, self.catalog.table(statement, name))
        if words.take("COLUMNS"):
            words.take_one_of("FROM", "IN")
            table = self.catalog.table(statement, words.name("a table"))
            words.expect_end()
            return described(table)
        if kind := words.take_one_of(*_SHOWN_OTHERWISE):
            words.deny(f"SHOW {kind} is not available; {_SHOWN_OTHERWISE[kind]}")
        if not words.take("TABLES"):
            words.refuse("expected TABLES, COLUMNS FROM, or CREATE TABLE")
        words.expect_end()
        return _listed({"table name": self.catalog.names()})

    def _set(self, statement: Statement) -> Result:
        words = _words(statement, "SET")
        if words.is_over:
            shown = self.settings.all()
            return _listed({"key": list(shown), "value": list(shown.values())})
        self.settings.set(words)
        return Result()

    def _reset(self, statement: Statement) -> Result:
        words = _words(statement, "RESET")
        self.settings.reset(words)
        return Result()


def _words(statement: Statement, verb: str) -> Words:
    """The words behind the first one."""
    words = Words(statement)
    words.expect(verb)
    return words


def _listed(columns: dict[str, list[str]]) -> Result:
    table = pa.table({name: pa.array(values, _TEXT) for name, values in columns.items()})
    return Result(table.schema, lambda: iter(table.to_batches()))


_VERBS: dict[str, Callable[[Session, Statement], Result]] = {
    "ALTER": Session._alter,
    "COMMENT": Session._comment,
    "CREATE": Session._create,
    "DELETE": Session._delete,
    "DESC": Session._describe,
    "DESCRIBE": Session._describe,
    "DROP": Session._drop,
    "EXPLAIN": Session._explain,
    "INSERT": Session._insert,
    "RESET": Session._reset,
    "SET": Session._set,
    "SHOW": Session._show,
    "TRUNCATE": Session._truncate,
    "UPDATE": Session._update,
}
