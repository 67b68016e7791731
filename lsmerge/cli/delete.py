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
    if source is None:
        count, snapshot = len(keys), table.delete(keys_of(table, keys))
    else:
        given, names = reading.source(source), _columns_of_deletes(table)
        with incoming(settings, table, given, names, with_kinds=False) as (rows, tally):
            snapshot = table.delete(rows)
        count = tally.rows
    if settings.json:
        screen.document({"snapshot": snapshot.id, "keys": count})
    else:
        click.echo(f"snapshot {snapshot.id}: {screen.count(count, 'key')} deleted")


def _columns_of_deletes(table: Table) -> list[str]:
    """The key, and what gives a delete its place among the rows of a key."""
    ordered = table.options.get("sequence.field", "").split(",")
    return list(dict.fromkeys([*table.primary_key, *(name.strip() for name in ordered if name)]))
