"""`lsmerge get`: rows by key."""

from typing import Any

import click

from lsmerge import Table
from lsmerge.cli import failures, json_out, screen
from lsmerge.cli.arguments import keys_of
from lsmerge.cli.rows_out import output_of, output_options, write_rows
from lsmerge.cli.settings import Command, Settings, at_options, on_table


@click.command("get", cls=Command)
@on_table
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@at_options
@output_options()
def command(
    settings: Settings,
    table: Table,
    keys: tuple[str, ...],
    form: str | None,
    output: str | None,
    **at: Any,
) -> int:
    """Look up rows by key; the exit code is 1 if a key has none.

    A KEY is the value of the key column. Of several key columns, give their values with commas between them, in
    the order of the key; a value with a comma goes into double quotes.

    \b
      lsmerge get orders 42 43
      lsmerge get visits '2024-01-31,"Oslo, Norway"'
      lsmerge get balances -- -1
    """
    wanted = keys_of(table, keys)
    found = table.get_many(wanted, **at)
    target = output_of(settings, form, output)
    if target.format == "table" and not target.is_file and len(keys) == 1:
        for row in found.to_batches():
            screen.fields(*json_out.rows(row))
    else:
        write_rows(target, found.schema, found.to_batches())
    distinct = wanted.group_by(wanted.column_names, use_threads=False).aggregate([])
    missing = distinct.num_rows - found.num_rows
    if missing > 0:
        click.echo(f"lsmerge: {screen.count(missing, 'key')} without a row", err=True)
    return failures.ANSWER_IS_NO if missing > 0 else failures.DONE
