"""`lsmerge delete`: rows by key, in one commit."""

import click

from lsmerge import Table
from lsmerge.cli import screen
from lsmerge.cli.arguments import keys_of
from lsmerge.cli.ingest import Reading, incoming, input_options
from lsmerge.cli.settings import Command, Settings, on_table


@click.command("delete", cls=Command)
@on_table
@click.argument("keys", nargs=-1, metavar="[KEY...]")
@click.option(
    "--from",
    "source",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    help="A file with the key columns, or - for standard input.",
)
@input_options
def command(
    settings: Settings,
    table: Table,
    keys: tuple[str, ...],
    source: str | None,
    reading: Reading,
) -> None:
    """Delete rows by key, in one commit; keys without a row are fine.

    Keys are written as for `lsmerge get`, or come from a file that has the key columns, and those of
    `sequence.field` if the table has it.
    """
    if bool(keys) == bool(source):
        raise click.UsageError("give keys, or a file of them with --from.")
    number: int | None = None
    if source is None:
        count, number = len(keys), table.delete(keys_of(table, keys)).id
    else:
        given = reading.source(source)
        with incoming(settings, table, given, table.delete_columns, with_kinds=False) as arriving:
            rows, tally = arriving
            number = None if tally.is_empty else table.delete(rows).id
        count = tally.rows
    # Nobody has looked whether the keys have rows: what a delete meets is known when it is merged.
    if settings.json:
        screen.document({"snapshot": number, "keys": count})
    elif number is None:
        click.echo("0 keys: nothing written")
    else:
        click.echo(f"snapshot {number}: {screen.count(count, 'delete')} written")
