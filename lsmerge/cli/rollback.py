"""`lsmerge rollback`: what a table once held, as a new snapshot."""

import click

from lsmerge import Table
from lsmerge.cli import screen
from lsmerge.cli.settings import Command, Settings, complete_tags, on_table
from lsmerge.statements.grid import printable


@click.command("rollback", cls=Command)
@on_table
@click.option("--snapshot", type=int, metavar="N", help="Back to this snapshot.")
@click.option(
    "--tag", metavar="NAME", shell_complete=complete_tags, help="Back to the snapshot of this tag."
)
def command(settings: Settings, table: Table, snapshot: int | None, tag: str | None) -> None:
    """Make a table hold again what it held at a snapshot or tag, in a new snapshot.

    The snapshots in between stay until they expire, so a rollback can be rolled back.
    """
    if (snapshot is None) == (tag is None):
        raise click.UsageError("give --snapshot or --tag.")
    made = table.rollback_to(snapshot, tag=tag)
    target = f"snapshot {snapshot}" if tag is None else f"tag {printable(tag)}"
    if settings.json:
        screen.document({"snapshot": made.id})
    else:
        click.echo(f"snapshot {made.id}: as at {target}")
