"""From a query's syntax tree to a question for DuckDB: tables become scans, pinned to a snapshot now.

find the tables -> what each may leave out -> scans -> names of streams in place of tables -> DuckDB's SQL
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from lsmerge import LsmergeError, SchemaMismatchError, Table
from lsmerge.statements.catalog import Catalog
from lsmerge.statements.dialect import duckdb_sql, offset_of
from lsmerge.statements.evaluation import Question, Stream, value_of
from lsmerge.statements.pushdown import Pushed, pushed
from lsmerge.statements.rewriting import rewritten
from lsmerge.statements.script import Statement
from lsmerge.statements.system_tables import SystemTable, names, system_table
from lsmerge.statements.time_travel import Travel, hints_of, travel
from lsmerge.statements.tokens import Name


@dataclass(frozen=True, slots=True)
class Source:
    """One place in a query where a table is read."""

    node: exp.Table
    name: str
    table: Table
    travel: Travel
    system: SystemTable | None

    def schema(self, statement: Statement) -> pa.Schema:
        """The columns, as of the snapshot that is read; one that is not there is refused."""
        if self.system is not None:
            return self.system.schema
        with statement.locating(offset_of(self.node.args.get("version") or self.node)):
            return self.table.scan(**self.travel).schema

    def scan(self, leave_out: Pushed) -> Any:
        """The read of a table, as narrow as the query allows."""
        return self.table.scan(columns=leave_out.columns, filter=leave_out.filter, **self.travel)


@dataclass(frozen=True, slots=True)
class Reading:
    """What is read of one table: a scan, and the filter that it was given."""

    table: str
    scan: Any
    filter: str | None


@dataclass(frozen=True, slots=True)
class Plan:
    """A question, and what it reads; system tables are not scanned."""

    question: Question
    readings: list[Reading]


@dataclass(frozen=True, slots=True)
class Planner:
    """Knows the tables and the settings of a session."""

    catalog: Catalog
    settings: Mapping[str, str]

    @property
    def zone(self) -> str:
        return self.settings["TimeZone"]

    def plan(self, statement: Statement, tree: exp.Expr) -> Plan:
        """What to ask DuckDB. `tree` is changed on the way."""
        sources = self._sources(statement, tree)
        schemas = {id(source.node): source.schema(statement) for source in sources}
        wanted = [pushed(tree, source.node, schemas) for source in sources]
        streams: dict[str, Stream] = {}
        readings: list[Reading] = []
        for number, (source, leave_out) in enumerate(zip(sources, wanted, strict=True)):
            name = f"lsmerge_{number}"
            if source.system is not None:
                streams[name] = Stream(source.system.schema, source.system.batches)
            else:
                scan = source.scan(leave_out)
                readings.append(Reading(source.name, scan, leave_out.filter))
                streams[name] = Stream(scan.schema, scan.to_batches)
            _rename(source.node, name)
        types = _column_types(schemas.values())
        known = frozenset(name for schema in schemas.values() for name in schema.names)
        sql = duckdb_sql(rewritten(tree, lambda node: types.get(node.name.lower())))
        return Plan(Question(statement, sql, streams, self.settings, known), readings)

    def _sources(self, statement: Statement, tree: exp.Expr) -> list[Source]:
        hints = hints_of(statement)
        found = []
        for node in tree.find_all(exp.Table):
            if isinstance(node.this, exp.Identifier) and not _is_cte(node):
                hint = _take_hint(statement, node, hints)
                found.append(self._source(statement, node, hint))
        if hints:
            raise statement.error(
                min(hints), "an OPTIONS hint belongs directly behind a table's name"
            )
        return found

    def _source(self, statement: Statement, node: exp.Table, hint: dict[str, str]) -> Source:
        name = table_name(statement, node)
        base, dollar, system_name = name.text.partition("$")
        table = self.catalog.table(statement, Name(base, name.offset))
        at = travel(statement, node, hint, self.zone, lambda e: self._value(statement, e))
        if not dollar:
            return Source(node, name.text, table, at, None)
        system = system_table(table, system_name)
        if system is None:
            raise statement.error(
                name.offset,
                f"no system table {system_name!r}; {LsmergeError.hint(system_name, names())}",
            )
        if at:
            raise statement.error(name.offset, f"{name.text} is always that of the newest snapshot")
        return Source(node, name.text, table, at, system)

    def _value(self, statement: Statement, expression: exp.Expr) -> Any:
        return value_of(statement, duckdb_sql(expression), self.settings)


def table_name(statement: Statement, node: exp.Table) -> Name:
    """The name of a table, which has one part."""
    offset = offset_of(node.this)
    if node.args.get("db"):
        raise statement.error(
            offset, f"{node.sql()}: a warehouse has no databases; name the table alone"
        )
    return Name(node.name, offset)


def column_named(statement: Statement, table: Table, name: str, offset: int) -> str:
    """A column as the table spells it; an unknown one is refused with the nearest."""
    for known in table.schema.names:
        if known.lower() == name.lower():
            return str(known)
    message = f"unknown column {name!r}; {LsmergeError.hint(name, table.schema.names)}"
    raise SchemaMismatchError(statement.located(offset, message))


def _is_cte(node: exp.Table) -> bool:
    """Whether a name means a query that WITH gave it, not a table."""
    if node.args.get("db"):
        return False
    below: exp.Expr = node
    while (above := below.parent) is not None:
        if any(_same(cte, node) for cte in _visible(above, below)):
            return True
        below = above
    return False


def _visible(above: exp.Expr, below: exp.Expr) -> Iterator[exp.Expr]:
    """The names that `above` makes known below: to a query of WITH those before it, and itself if it is recursive."""
    with_ = above if isinstance(above, exp.With) else above.args.get("with_")
    if with_ is None or with_ is below:  # coming out of WITH, its names were looked at already
        return
    for cte in with_.expressions:
        if cte is not below or with_.args.get("recursive"):
            yield cte
        if cte is below:
            return


def _same(cte: exp.Expr, node: exp.Table) -> bool:
    return cte.alias.lower() == node.name.lower()


def _take_hint(
    statement: Statement, node: exp.Table, hints: dict[int, dict[str, str]]
) -> dict[str, str]:
    """The hint directly behind a table's name."""
    end = node.this.meta.get("end")
    if end is None:
        return {}
    for offset in hints:
        if offset > end and not statement.text[end + 1 : offset].strip():
            return hints.pop(offset)
    return {}


def _rename(node: exp.Table, name: str) -> None:
    """Read the stream instead, under the name that the rest of the query knows."""
    alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(node.name, quoted=True))
    node.set("alias", alias)
    node.set("this", exp.to_identifier(name, quoted=True))
    node.set("version", None)


def _column_types(schemas: Any) -> dict[str, pa.DataType | None]:
    """Types of columns by name; None where tables differ."""
    types: dict[str, pa.DataType | None] = {}
    for schema in schemas:
        for column in schema:
            known = types.setdefault(column.name.lower(), column.type)
            if known != column.type:
                types[column.name.lower()] = None
    return types
