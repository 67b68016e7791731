"""`lsmerge consumer`: readers of the changelog whose place is kept in the table."""

import click

from lsmerge import Table
from lsmerge.cli import screen
from lsmerge.cli.settings import Command, Settings, complete_consumers, on_table
from lsmerge.statements.grid import printable


@click.group("consumer")
def command() -> None:
    """List and forget consumers: followers of the changelog, for whom nothing expires that they have not read."""


@command.command("list", cls=Command)
@on_table
def list_consumers(settings: Settings, table: Table) -> None:
    """All consumers, with the next snapshot that each needs."""
    found = table.consumers()
    if settings.json:
        screen.document(found)
    else:
        screen.listing(("consumer", "next snapshot"), found.items())


@command.command("delete", cls=Command)
@on_table
@click.argument("name", shell_complete=complete_consumers)
def delete(settings: Settings, table: Table, name: str) -> None:
    """Forget a consumer: a follower of that name starts anew, and snapshots may expire."""
    if name not in table.consumers():
        raise click.UsageError(
            f"no consumer {name!r}; `lsmerge consumer list` tells which there are."
        )
    table.delete_consumer(name)
    if settings.json:
        screen.document({"deleted": name})
    else:
        click.echo(f"consumer {printable(name)} deleted")
