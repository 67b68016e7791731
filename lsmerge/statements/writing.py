"""INSERT, UPDATE, DELETE and TRUNCATE: rows that a query gives, written in one commit.

Rows are merged by the table's engine. UPDATE writes the new values of the rows it finds, so it is for engines whose
newest values win; DELETE writes deletes of the keys it finds. Rows stream from the query into the table. What UPDATE
and DELETE read is what the table holds when they commit: if others changed rows meanwhile, they begin again.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
from sqlglot import exp

from lsmerge import CommitConflictError, Table
from lsmerge.statements.dialect import offset_of, parsed
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
from lsmerge.statements.result import Result
from lsmerge.statements.script import Statement

_UPDATABLE = ("deduplicate", "partial-update")
# How often UPDATE and DELETE begin again before they leave it to the user.
MAX_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes what statements say; every result has the number of the snapshot that was made."""

    planner: Planner

    def insert(self, statement: Statement, tree: exp.Insert) -> Result:
        """INSERT INTO and INSERT OVERWRITE."""
        _refuse(statement, tree, ("conflict", "returning", "exists", "where", "by_name", "default"))
        target = self._target(statement, tree)
        rows = self._given(target, tree)
        with statement.locating(0):
            if tree.args.get("overwrite"):
                return self._overwritten(rows)
            return _written(rows)

    def update(self, statement: Statement) -> Result:
        """UPDATE t SET c = ... WHERE ..."""
        return _begun_again(statement, lambda: self._updated(statement))

    def _updated(self, statement: Statement) -> Result:
        tree = parsed(statement)
        assert isinstance(tree, exp.Update), "the verb is UPDATE"
        _refuse(statement, tree, ("from_", "returning", "limit", "order"))
        table = self._table(statement, tree.this)
        engine = table.options.get("merge-engine", "deduplicate")
        if engine not in _UPDATABLE:
            raise statement.error(
                0,
                f"UPDATE is not available for merge-engine = {engine}, which would merge the new row with the "
                "old one; INSERT what is to be merged",
            )
        based_on = _newest(table)
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
            return _written(rows, new if engine == "partial-update" else (), based_on)

    def delete(self, statement: Statement) -> Result:
        """DELETE FROM t WHERE ..."""
        return _begun_again(statement, lambda: self._deleted(statement))

    def _deleted(self, statement: Statement) -> Result:
        tree = parsed(statement)
        assert isinstance(tree, exp.Delete), "the verb is DELETE"
        _refuse(statement, tree, ("using", "returning", "limit", "order", "tables"))
        table = self._table(statement, tree.this)
        _check_deletes(statement, table.options)
        based_on = _newest(table)
        fields = [table.schema.field(name) for name in table.delete_columns]
        cells = [exp.column(field.name, quoted=True) for field in fields]
        rows = self._selected(Target(statement, table, fields), tree, cells)
        with statement.locating(0):
            given = _Given(rows.batches())
            if given.is_empty:
                return Result(rows_written=0)
            made = table.delete(given.reader(), based_on=based_on)
            return Result(snapshot_id=made.id, rows_written=given.rows)

    def truncate(self, table: Table) -> Result:
        """TRUNCATE TABLE: all rows go."""
        return Result(snapshot_id=table.overwrite(table.schema.empty_table()).id)

    def drop_partitions(
        self, statement: Statement, table: Table, texts: Sequence[Mapping[str, str]]
    ) -> Result:
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
            return Result(snapshot_id=table.drop_partition(values).id)

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

    def _overwritten(self, rows: IncomingRows) -> Result:
        """Partitions that are named, those that the rows touch, or the table if it has none."""
        target, given = rows.target, _Given(rows.batches())
        data = given.reader() if not given.is_empty else target.table.schema.empty_table()
        if target.partition:
            named = self._values(target.statement, target.table, target.partition)
            made = target.table.overwrite(data, named)
        else:
            mode = "dynamic" if target.table.partition_by else "static"
            made = target.table.overwrite(data, mode=mode)
        return Result(snapshot_id=made.id, rows_written=given.rows)

    def _values(
        self, statement: Statement, table: Table, given: Mapping[str, exp.Expr]
    ) -> dict[str, object]:
        return partition_values(statement, table, given, self.planner.settings)


class _Given:
    """Rows on their way into a table, counted as they pass; the first batch is looked at ahead."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self.rows = 0
        with_rows = (batch for batch in batches if batch.num_rows)
        self._first = next(with_rows, None)
        self._rest = with_rows

    @property
    def is_empty(self) -> bool:
        return self._first is None

    def reader(self) -> pa.RecordBatchReader:
        """The rows as a stream. Requires: there are some."""
        assert self._first is not None, "somebody has looked"
        return pa.RecordBatchReader.from_batches(self._first.schema, self.batches())

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as they come, once."""
        for batch in chain(() if self._first is None else (self._first,), self._rest):
            self.rows += batch.num_rows
            yield batch


def _written(
    rows: IncomingRows, no_nulls: Collection[str] = (), based_on: int | None = None
) -> Result:
    """One commit. A statement that names some of the columns leaves the others as they are.

    `no_nulls` are columns in which a null would do nothing; `based_on` is the snapshot that the rows were read from.
    """
    given = _Given(rows.batches())
    if given.is_empty:
        return Result(rows_written=0)
    with rows.target.table.writer(columns=rows.target.columns, based_on=based_on) as writer:
        for batch in given.batches():
            for name in no_nulls:
                if batch.column(name).null_count:
                    raise rows.target.statement.error(
                        0, f"column {name!r}: a null updates nothing in a partial-update table"
                    )
            writer.write(batch)
    assert writer.snapshot is not None, "the block has committed"
    return Result(snapshot_id=writer.snapshot.id, rows_written=given.rows)


def _begun_again(statement: Statement, attempt: Callable[[], Result]) -> Result:
    """What an attempt gives on which nobody else's commit intruded."""
    for _ in range(MAX_ATTEMPTS):
        try:
            return attempt()
        except CommitConflictError as error:
            conflict = error
    message = (
        f"others changed the table during each of {MAX_ATTEMPTS} attempts, and nothing was written; run the statement "
        f"again when they are done ({conflict.args[0]})"
    )
    raise CommitConflictError(statement.located(0, message)) from conflict


def _newest(table: Table) -> int:
    latest = table.latest_snapshot()
    return 0 if latest is None else latest.id


def _assignments(
    statement: Statement, table: Table, tree: exp.Update
) -> Iterator[tuple[str, exp.Expr]]:
    if not tree.expressions:
        raise statement.error(len(statement.text.rstrip()), "UPDATE needs SET column = value")
    for item in tree.expressions:
        if not isinstance(item, exp.EQ):
            raise statement.error(offset_of(item), "expected column = value behind SET")
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
    wanted = {*table.delete_columns, *new}
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


def _as_query(values: exp.Values) -> exp.Select:
    values.set("alias", exp.TableAlias(this=exp.to_identifier("given")))
    return exp.select("*").from_(values)


def _refuse(statement: Statement, tree: exp.Expr, clauses: Sequence[str]) -> None:
    for clause in clauses:
        if tree.args.get(clause):
            word = clause.replace("_", " ").strip().upper()
            raise statement.error(0, f"{type(tree).__name__.upper()} with {word} is not available")
