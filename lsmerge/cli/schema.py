"""`lsmerge schema`: columns, keys and options of a table."""

import click

from lsmerge import Table
from lsmerge.cli import screen
from lsmerge.cli.settings import Command, Settings, on_table
from lsmerge.statements.grid import printable


@click.command("schema", cls=Command)
@on_table
def command(settings: Settings, table: Table) -> None:
    """Columns, keys and options of a table."""
    found = table.describe()
    if settings.json:
        screen.document(found)
        return
    roles = dict.fromkeys(table.primary_key, "key")
    for name in table.partition_by:
        roles[name] = "key, partition" if name in roles else "partition"
    screen.listing(
        ("column", "type", "null", "role", "comment"),
        [
            (
                column["name"],
                column["type"],
                "yes" if column["nullable"] else "no",
                roles.get(column["name"], ""),
                column.get("comment", ""),
            )
            for column in found["columns"]
        ],
    )
    if "comment" in found:
        click.echo(f"\n{printable(found['comment'])}")
    if found["options"]:
        click.echo()
        screen.listing(("option", "value"), sorted(found["options"].items()))
