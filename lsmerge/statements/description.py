"""A table told in SQL: DESCRIBE and SHOW CREATE TABLE."""

import pyarrow as pa

from lsmerge import Table
from lsmerge.statements.result import Result

_TEXT = pa.string()
_COLUMNS = pa.schema(
    {"name": _TEXT, "type": _TEXT, "null": pa.bool_(), "key": _TEXT, "comment": _TEXT}
)


def described(table: Table) -> Result:
    """One row for each column, and one for the table if it has a comment."""
    schema = table.schemas()[-1]
    key = f"PRI({', '.join(schema.primary_key)})"
    rows = [
        {
            "name": column.name,
            "type": str(column.type),
            "null": column.nullable,
            "key": key if column.name in schema.primary_key else None,
            "comment": column.comment,
        }
        for column in schema.columns
    ]
    if schema.comment is not None:
        rows.append({"name": "# table", "comment": schema.comment})
    return Result(_COLUMNS, lambda: iter([pa.RecordBatch.from_pylist(rows, schema=_COLUMNS)]))


def shown_create(name: str, table: Table) -> Result:
    """The statement that makes such a table."""
    text = pa.table({"create table": [_create_statement(name, table)]})
    return Result(text.schema, lambda: iter(text.to_batches()))


def _create_statement(name: str, table: Table) -> str:
    schema = table.schemas()[-1]
    lines = [
        f"  {_name(column.name)} {column.type}"
        + ("" if column.nullable else " NOT NULL")
        + ("" if column.comment is None else f" COMMENT {_quoted(column.comment)}")
        for column in schema.columns
    ]
    lines.append(f"  PRIMARY KEY ({', '.join(map(_name, schema.primary_key))}) NOT ENFORCED")
    text = f"CREATE TABLE {_name(name)} (\n" + ",\n".join(lines) + "\n)"
    if schema.comment is not None:
        text += f" COMMENT {_quoted(schema.comment)}"
    if schema.partition_by:
        text += f" PARTITIONED BY ({', '.join(map(_name, schema.partition_by))})"
    if schema.options:
        pairs = [f"  {_quoted(k)} = {_quoted(v)}" for k, v in sorted(schema.options.items())]
        text += " WITH (\n" + ",\n".join(pairs) + "\n)"
    return text


def _name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
