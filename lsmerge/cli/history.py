"""`lsmerge history`: what happened to a table, snapshot by snapshot."""

import click

from lsmerge import Table
from lsmerge.cli import screen
from lsmerge.cli.settings import Command, Settings, on_table


@click.command("history", cls=Command)
@on_table
@click.option("-n", "--limit", type=click.IntRange(min=1), help="Only the newest so many.")
def command(settings: Settings, table: Table, limit: int | None) -> None:
    """What happened to a table, the newest snapshot last."""
    entries = table.history()[-(limit or 0) :]
    if settings.json:
        screen.document(entries)
        return
    screen.listing(
        ("snapshot", "time", "kind", "rows added", "files added", "removed", "schema", "commit"),
        [
            (
                entry.id,
                screen.moment(entry.time),
                entry.kind.value,
                entry.rows_added,
                entry.files_added,
                entry.files_removed,
                entry.schema_id,
                "" if entry.commit_user is None else f"{entry.commit_user} {entry.commit_id}",
            )
            for entry in entries
        ],
    )
