"""`lsmerge tag`: names for snapshots, which keep them."""

from datetime import datetime
from typing import Any

import click

from lsmerge import Table
from lsmerge.cli import screen
from lsmerge.cli.settings import Command, Settings, complete_tags, on_table
from lsmerge.statements.grid import printable


@click.group("tag")
def command() -> None:
    """Create, list and delete tags: names for snapshots, which stay readable as long as the tag is there."""


@command.command("create", cls=Command)
@on_table
@click.argument("name")
@click.option("--snapshot", type=int, metavar="N", help="Which snapshot; the newest by default.")
@click.option(
    "--ttl", metavar="AGE", help="How long the tag lasts, as in '30 d'; for ever by default."
)
def create(
    settings: Settings, table: Table, name: str, snapshot: int | None, ttl: str | None
) -> None:
    """Name a snapshot."""
    tag = table.create_tag(name, snapshot, ttl)
    if settings.json:
        screen.document(_values(tag))
    else:
        click.echo(f"tag {printable(name)}: snapshot {tag.snapshot.id}")


@command.command("list", cls=Command)
@on_table
def list_tags(settings: Settings, table: Table) -> None:
    """All tags."""
    tags = [_values(tag) for tag in table.tags().values()]
    if settings.json:
        screen.document(tags)
        return
    rows = [(t["name"], t["snapshot"], *_moments(t["created"], t["expires"])) for t in tags]
    screen.listing(("tag", "snapshot", "created", "expires"), rows)


@command.command("delete", cls=Command)
@on_table
@click.argument("name", shell_complete=complete_tags)
def delete(settings: Settings, table: Table, name: str) -> None:
    """Remove a tag, and the files that nothing else needs."""
    table.delete_tag(name)
    if settings.json:
        screen.document({"deleted": name})
    else:
        click.echo(f"tag {printable(name)} deleted")


def _values(tag: Any) -> dict[str, Any]:
    return {
        "name": tag.name,
        "snapshot": tag.snapshot.id,
        "created": screen.time_of(tag.created_ms),
        "expires": None if tag.expires_ms is None else screen.time_of(tag.expires_ms),
    }


def _moments(created: datetime, expires: datetime | None) -> tuple[str, str]:
    return screen.moment(created), "never" if expires is None else screen.moment(expires)
