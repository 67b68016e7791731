"""Rows on their way from a query into columns of a table: matched by position, cast where SQL implies it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from sqlglot import exp

from lsmerge import SchemaMismatchError, Table
from lsmerge.statements.assignment import Verdict, verdict
from lsmerge.statements.dialect import duckdb_sql, offset_of
from lsmerge.statements.duckdb_types import duckdb_type, quoted, shown_type
from lsmerge.statements.evaluation import Question, value_of
from lsmerge.statements.query import column_named
from lsmerge.statements.script import Statement

ROW_KIND = pa.field("_row_kind", pa.string())


@dataclass(frozen=True, slots=True)
class Target:
    """Columns that a statement writes; `partition` holds the value of those that have one for all rows."""

    statement: Statement
    table: Table
    fields: list[pa.Field]
    partition: Mapping[str, exp.Expr] = field(default_factory=dict)

    @property
    def given(self) -> list[pa.Field]:
        """The columns that the query must give."""
        return [column for column in self.fields if column.name not in self.partition]

    @property
    def columns(self) -> list[str] | None:
        """The columns that are written if not all are."""
        names = [column.name for column in self.fields if column != ROW_KIND]
        return None if set(names) == set(self.table.schema.names) else names

    def type_name(self, column: pa.Field) -> str:
        """The type of a column as the table declares it."""
        types = {known.name: str(known.type) for known in self.table.schemas()[-1].columns}
        return types.get(column.name, "STRING")


@dataclass(frozen=True, slots=True)
class IncomingRows:
    """The answer of a question, with the names and types of the target."""

    target: Target
    question: Question

    @classmethod
    def of(cls, target: Target, question: Question, offsets: Sequence[int] = ()) -> "IncomingRows":
        """Check number and types of columns; `offsets` are where the statement gives them."""
        source = question.schema()
        _check_number(target, source)
        places = offsets if len(offsets) == len(source) else [0] * len(source)
        given = {
            column.name: _assigned(
                target, column, number, source.field(number).type, places[number]
            )
            for number, column in enumerate(target.given)
        }
        columns = [
            given.get(column.name) or _constant(column, target.partition[column.name])
            for column in target.fields
        ]
        named = [
            f"{value} AS {quoted(column.name)}"
            for value, column in zip(columns, target.fields, strict=True)
        ]
        names = ", ".join(_place(number) for number in range(len(source)))
        sql = f"SELECT {', '.join(named)} FROM ({question.sql}) AS given({names})"  # noqa: S608 - own names
        return cls(target, question.asking(sql))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as they come."""
        return self.question.batches()


def named_fields(
    statement: Statement, table: Table, named: Sequence[exp.Expr], partition: Mapping[str, exp.Expr]
) -> list[pa.Field]:
    """The columns that INSERT INTO t (...) names, all of them if it names none."""
    if not named:
        return list(table.schema)
    fields: list[pa.Field] = []
    for node in named:
        name = _target_name(statement, table, node)
        if any(column.name == name for column in fields):
            raise statement.error(offset_of(node), f"column {name!r} is listed twice")
        fields.append(ROW_KIND if name == ROW_KIND.name else table.schema.field(name))
    listed = {column.name for column in fields}
    return fields + [table.schema.field(name) for name in partition if name not in listed]


def partition_clause(
    statement: Statement, table: Table, items: Sequence[exp.Expr]
) -> dict[str, exp.Expr]:
    """PARTITION (day = '...'): values of partition columns for all rows."""
    found: dict[str, exp.Expr] = {}
    for item in items:
        if not isinstance(item, exp.EQ):
            continue  # a column without a value gets those of the rows
        name = column_named(statement, table, item.left.name, offset_of(item))
        if name not in table.partition_by:
            raise statement.error(offset_of(item), f"{name!r} is not a partition column")
        found[name] = item.right
    return found


def partition_values(
    statement: Statement, table: Table, given: Mapping[str, exp.Expr], settings: Mapping[str, str]
) -> dict[str, Any]:
    """Values of partition columns as the table takes them."""
    return {
        name: value_of(statement, _constant(table.schema.field(name), value), settings)
        for name, value in given.items()
    }


def _constant(column: pa.Field, value: exp.Expr) -> str:
    return f"CAST({duckdb_sql(value)} AS {duckdb_type(column.type)})"


def offsets_of(query: exp.Expr) -> list[int]:
    """Where a query gives its columns: in the first row of VALUES, or behind SELECT."""
    first = query.expressions[0] if isinstance(query, exp.Values) else query
    cells = first.expressions if isinstance(first, exp.Tuple | exp.Select) else []
    return [offset_of(cell) for cell in cells]


def _target_name(statement: Statement, table: Table, node: exp.Expr) -> str:
    if node.name == ROW_KIND.name:
        return node.name
    return column_named(statement, table, node.name, offset_of(node))


def _check_number(target: Target, source: pa.Schema) -> None:
    if len(source) != len(target.given):
        raise target.statement.error(
            0,
            f"the query gives {len(source)} columns, {len(target.given)} are to be written: "
            f"{', '.join(column.name for column in target.given)}",
        )


def _assigned(
    target: Target, column: pa.Field, number: int, source: pa.DataType, offset: int
) -> str:
    """The column of the query as the table takes it."""
    how = verdict(source, column.type)
    if how is Verdict.REFUSE:
        declared = target.type_name(column)
        message = (
            f"column {column.name!r} ({declared}) does not take {shown_type(source)}; "
            f"say CAST(... AS {declared}) if that is meant"
        )
        raise SchemaMismatchError(target.statement.located(offset, message))
    place = _place(number)
    return place if how is Verdict.KEEP else f"CAST({place} AS {duckdb_type(column.type)})"


def _place(number: int) -> str:
    return f"c{number}"
