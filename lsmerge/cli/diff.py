"""`lsmerge diff`: what turns one snapshot into another."""

import click

from lsmerge import Table
from lsmerge.cli.changes import write_changes
from lsmerge.cli.rows_out import CHANGE_FORMATS, output_of, output_options
from lsmerge.cli.settings import Command, Settings, complete_tags, on_table


@click.command("diff", cls=Command)
@on_table
@click.argument("before", shell_complete=complete_tags)
@click.argument("after", required=False, shell_complete=complete_tags)
@click.option("-n", "--limit", type=click.IntRange(min=0), help="At most so many changes.")
@output_options(CHANGE_FORMATS)
def command(
    settings: Settings,
    table: Table,
    before: str,
    after: str | None,
    limit: int | None,
    form: str | None,
    output: str | None,
) -> None:
    """What turns the table at BEFORE into the table at AFTER, the newest snapshot by default.

    Each is the number of a snapshot or the name of a tag.
    """
    target = output_of(settings, form, output)
    latest = table.latest_snapshot()
    end = _number(table, after) if after else latest.id if latest else 0
    write_changes(target, table, table.diff(_number(table, before), end), limit=limit)


def _number(table: Table, text: str) -> int:
    """A snapshot by number or tag."""
    if text.isdigit():
        return int(text)
    tags = table.tags()
    if text not in tags:
        known = f"tags: {', '.join(tags)}" if tags else "the table has no tags"
        raise click.UsageError(f"{text}: no number of a snapshot, and no tag; {known}.")
    return tags[text].snapshot.id
