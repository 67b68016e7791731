"""`lsmerge create`: a new table, its columns named one by one, or taken from a file or another table."""

from typing import Any

import click

import lsmerge
from lsmerge.cli import rows_in, screen, user_files
from lsmerge.cli.declared import declared
from lsmerge.cli.settings import (
    Command,
    Settings,
    column_list,
    complete_options,
    pairs,
    table_argument,
)


@click.command("create", cls=Command)
@table_argument
@click.argument("columns", metavar="[COLUMNS]", required=False)
@click.option(
    "-k",
    "--key",
    multiple=True,
    required=True,
    metavar="A,B",
    callback=column_list,
    help="The columns that identify a row.",
)
@click.option(
    "--partition-by", multiple=True, metavar="A,B", callback=column_list, help="Partition columns."
)
@click.option(
    "-o",
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    shell_complete=complete_options,
    help="An option of the table; may be repeated. `lsmerge options` lists them.",
)
@click.option("--comment", metavar="TEXT", help="What the table is for.")
@click.option(
    "--like",
    metavar="FILE|TABLE",
    help="Take the columns of a table or a file: Parquet, Arrow, CSV or JSON lines.",
)
@click.option(
    "--if-not-exists",
    "exist_ok",
    is_flag=True,
    help="Be content with a table of the same definition.",
)
@click.pass_obj
def command(
    settings: Settings,
    uri: str,
    columns: str | None,
    key: list[str] | None,
    partition_by: list[str] | None,
    options: tuple[str, ...],
    comment: str | None,
    like: str | None,
    exist_ok: bool,
) -> None:
    """Create a table.

    COLUMNS are names with types, as in SQL:

    \b
      lsmerge create orders 'id BIGINT, status STRING, amount DECIMAL(10,2)' --key id
      lsmerge create orders --like orders.parquet --key id -o bucket=4
    """
    if not key:
        raise click.UsageError("--key names no column.")
    if (columns is None) == (like is None):
        raise click.UsageError("give the columns, or --like a file or table that has them.")
    made = lsmerge.create_table(
        uri,
        declared(columns) if columns is not None else _like(settings, str(like)),
        key,
        partition_by=partition_by or (),
        options=pairs("--option", options),
        comment=comment,
        storage_options=settings.storage_options or None,
        exist_ok=exist_ok,
    )
    with made as table:
        if settings.json:
            screen.document({"uri": table.uri, **table.describe()})
        else:
            what = screen.count(len(table.schema.names), "column")
            click.echo(f"{table.uri}: {what}, key {', '.join(table.primary_key)}")


def _like(settings: Settings, source: str) -> Any:
    """The columns of a table, or of a file."""
    form = user_files.format_by_name(source)
    if form is not None and not user_files.is_directory(source):
        return rows_in.inferred_schema(rows_in.Source(source, form))
    with settings.open(source) as table:
        return table.schema
