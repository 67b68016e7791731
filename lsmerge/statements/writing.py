"""INSERT, UPDATE, DELETE and TRUNCATE: rows that a query gives, written in one commit.

Rows are merged by the table's engine. UPDATE writes the new values of the rows it finds, so it is for engines whose
newest values win; DELETE writes deletes of the keys it finds. Rows stream from the query into the table.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from lsmerge import Table
from lsmerge.statements.dialect import offset_of
from lsmerge.statements.duckdb_types import duckdb_type, quoted
from lsmerge.statements.evaluation import Question, Stream
from lsmerge.statements.incoming import (
    IncomingRows,
    Target,
    named_fields,
    offsets_of,
    partition_clause,
    partition_values,
)
from lsmerge.statements.literals import check_rows, text_table, typed_rows
from lsmerge.statements.query import Planner, column_named, table_name
from lsmerge.statements.script import Statement

_UPDATABLE = ("deduplicate", "partial-update")


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes what statements say; every method returns the number of the snapshot that it made."""

    planner: Planner

    def insert(self, statement: Statement, tree: exp.Insert) -> int:
        """INSERT INTO and INSERT OVERWRITE."""
        _refuse(statement, tree, ("conflict", "returning", "exists", "where", "by_name", "default"))
        target = self._target(statement, tree)
        rows = self._given(target, tree)
        with statement.locating(0):
            if tree.args.get("overwrite"):
                return self._overwritten(rows)
            return _written(rows)

    def update(self, statement: Statement, tree: exp.Update) -> int:
        """UPDATE t SET c = ... WHERE ..."""
        _refuse(statement, tree, ("from_", "returning", "limit", "order"))
        table = self._table(statement, tree.this)
        engine = table.options.get("merge-engine", "deduplicate")
        if engine not in _UPDATABLE:
            raise statement.error(
                0,
                f"UPDATE is not available for merge-engine = {engine}, which would merge the new row with the "
                "old one; INSERT what is to be merged",
            )
        new = dict(_assignments(statement, table, tree))
        fields = _fields_of_updates(table, new)
        cells = [
            exp.alias_(new[field.name], field.name, quoted=True)
            if field.name in new
            else exp.column(field.name, quoted=True)
            for field in fields
        ]
        rows = self._selected(Target(statement, table, fields), tree, cells)
        with statement.locating(0):
            return _written(rows, new if engine == "partial-update" else ())

    def delete(self, statement: Statement, tree: exp.Delete) -> int:
        """DELETE FROM t WHERE ..."""
        _refuse(statement, tree, ("using", "returning", "limit", "order", "tables"))
        table = self._table(statement, tree.this)
        _check_deletes(statement, table.options)
        fields = [table.schema.field(name) for name in _columns_of_deletes(table)]
        cells = [exp.column(field.name, quoted=True) for field in fields]
        rows = self._selected(Target(statement, table, fields), tree, cells)
        with statement.locating(0):
            return table.delete(rows.reader()).id

    def truncate(self, table: Table) -> int:
        """TRUNCATE TABLE: all rows go."""
        return table.overwrite(table.schema.empty_table()).id

    def drop_partitions(
        self, statement: Statement, table: Table, texts: Sequence[Mapping[str, str]]
    ) -> int:
        """ALTER TABLE ... DROP PARTITION: all rows of these partitions go."""
        spelled = [
            {
                column_named(statement, table, name, 0): exp.Literal.string(value)
                for name, value in one.items()
            }
            for one in texts
        ]
        values = [self._values(statement, table, one) for one in spelled]
        with statement.locating(0):
            return table.drop_partition(values).id

    def _table(self, statement: Statement, node: exp.Table) -> Table:
        return self.planner.catalog.table(statement, table_name(statement, node))

    def _target(self, statement: Statement, tree: exp.Insert) -> Target:
        named = tree.this.expressions if isinstance(tree.this, exp.Schema) else []
        node = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
        table = self._table(statement, node)
        clause = node.args.get("partition")
        partition = partition_clause(statement, table, clause.expressions if clause else [])
        fields = named_fields(statement, table, named, partition)
        return Target(statement, table, fields, partition)

    def _given(self, target: Target, tree: exp.Insert) -> IncomingRows:
        """The rows of VALUES or of a query."""
        query = tree.expression
        if query is None:
            raise target.statement.error(0, "INSERT needs VALUES or a SELECT")
        offsets = offsets_of(query)
        if isinstance(query, exp.Values):
            return IncomingRows.of(target, self._values_of(target, query), offsets)
        if tree.args.get("with_"):
            query.set("with_", tree.args["with_"])
        return IncomingRows.of(target, self.planner.plan(target.statement, query).question, offsets)

    def _values_of(self, target: Target, values: exp.Values) -> Question:
        """Rows of VALUES, with the types of the columns they are for."""
        check_rows(target.statement, values, target.given)
        texts = text_table(values, target.given)
        if texts is None:
            query = _as_query(typed_rows(values, target.given))
            return self.planner.plan(target.statement, query).question
        casts = [
            f"CAST({quoted(column.name)} AS {duckdb_type(column.type)})" for column in target.given
        ]
        streams = {"given": Stream(texts.schema, lambda: iter(texts.to_batches()))}
        sql = f"SELECT {', '.join(casts)} FROM given"  # noqa: S608 - own names
        return Question(target.statement, sql, streams, self.planner.settings)

    def _selected(
        self, target: Target, tree: exp.Update | exp.Delete, cells: Sequence[exp.Expr]
    ) -> IncomingRows:
        """The rows of the table that a WHERE keeps."""
        query = exp.Select(expressions=list(cells)).from_(tree.this)
        if tree.args.get("where"):
            query.set("where", tree.args["where"])
        return IncomingRows.of(target, self.planner.plan(target.statement, query).question)

    def _overwritten(self, rows: IncomingRows) -> int:
        """Partitions that are named, those that the rows touch, or the table if it has none."""
        target = rows.target
        if target.partition:
            named = self._values(target.statement, target.table, target.partition)
            return target.table.overwrite(rows.reader(), named).id
        mode = "dynamic" if target.table.partition_by else "static"
        return target.table.overwrite(rows.reader(), mode=mode).id

    def _values(
        self, statement: Statement, table: Table, given: Mapping[str, exp.Expr]
    ) -> dict[str, object]:
        return partition_values(statement, table, given, self.planner.settings)


def _written(rows: IncomingRows, no_nulls: Collection[str] = ()) -> int:
    """One commit. A statement that names some of the columns leaves the others as they are.

    `no_nulls` are columns in which a null would do nothing.
    """
    with rows.target.table.writer(columns=rows.target.columns) as writer:
        for batch in rows.batches():
            for name in no_nulls:
                if batch.column(name).null_count:
                    raise rows.target.statement.error(
                        0, f"column {name!r}: a null updates nothing in a partial-update table"
                    )
            writer.write(batch)
    assert writer.snapshot is not None, "the block has committed"
    return writer.snapshot.id


def _assignments(
    statement: Statement, table: Table, tree: exp.Update
) -> Iterator[tuple[str, exp.Expr]]:
    for item in tree.expressions:
        name = column_named(statement, table, item.left.name, offset_of(item))
        if name in table.primary_key:
            raise statement.error(
                offset_of(item),
                f"column {name!r} is part of the key, which UPDATE cannot change; DELETE the row and INSERT it anew",
            )
        yield name, item.right


def _fields_of_updates(table: Table, new: Collection[str]) -> list[pa.Field]:
    """The key, what orders rows and what is new, so that a null counts and other columns stay as they are.

    Tables that take whole rows only get all columns: those with a column that must have a value, and those whose key
    leaves the partition open.
    """
    key = set(table.primary_key)
    must_be_whole = not key.issuperset(table.partition_by) or any(
        not field.nullable for field in table.schema if field.name not in key
    )
    wanted = {*_columns_of_deletes(table), *new}
    return [field for field in table.schema if must_be_whole or field.name in wanted]


def _check_deletes(statement: Statement, options: Mapping[str, str]) -> None:
    """Refuse a DELETE after which the row would still be there."""
    engine = options.get("merge-engine")
    if engine == "versioned":
        raise statement.error(
            0, "DELETE is not available for merge-engine = versioned, which has no deletes"
        )
    chosen = {"aggregation.remove-record-on-delete", "delete.behavior", "ignore-delete"}
    if engine == "aggregation" and not chosen.intersection(options):
        raise statement.error(
            0,
            "DELETE is not available for merge-engine = aggregation, which takes values back and keeps the row; INSERT "
            "rows with _row_kind '-D', or create the table with 'aggregation.remove-record-on-delete' = 'true'",
        )


def _columns_of_deletes(table: Table) -> list[str]:
    """The key, and what gives a delete its place among rows that are ordered by columns."""
    sequence = table.options.get("sequence.field", "")
    groups = [
        option.removeprefix("fields.").removesuffix(".sequence-group")
        for option in table.options
        if option.endswith(".sequence-group")
    ]
    ordering = [name.strip() for names in (sequence, *groups) for name in names.split(",")]
    return list(dict.fromkeys((*table.primary_key, *filter(None, ordering))))


def _as_query(values: exp.Values) -> exp.Select:
    values.set("alias", exp.TableAlias(this=exp.to_identifier("given")))
    return exp.select("*").from_(values)


def _refuse(statement: Statement, tree: exp.Expr, clauses: Sequence[str]) -> None:
    for clause in clauses:
        if tree.args.get(clause):
            word = clause.replace("_", " ").strip().upper()
            raise statement.error(0, f"{type(tree).__name__.upper()} with {word} is not available")
