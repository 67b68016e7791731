"""`lsmerge alter`: other columns and options; no file is rewritten."""

from collections.abc import Sequence

import click
import pyarrow as pa

from lsmerge import Table
from lsmerge.cli import screen
from lsmerge.cli.declared import declared
from lsmerge.cli.settings import (
    Command,
    Settings,
    column_list,
    complete_columns,
    complete_options,
    on_table,
    pairs,
)


@click.command("alter", cls=Command)
@on_table
@click.option("--add", multiple=True, metavar="COLUMNS", help="New columns: 'note STRING, n INT'.")
@click.option(
    "--drop",
    multiple=True,
    metavar="A,B",
    callback=column_list,
    shell_complete=complete_columns,
    help="Columns that go.",
)
@click.option("--rename", multiple=True, metavar="OLD=NEW", help="Another name for a column.")
@click.option("--widen", multiple=True, metavar="COLUMN=TYPE", help="A wider type for a column.")
@click.option(
    "--nullable",
    multiple=True,
    metavar="A,B",
    callback=column_list,
    shell_complete=complete_columns,
    help="Columns that may be null from now on.",
)
@click.option(
    "--move", multiple=True, metavar="COLUMN=PLACE", help="PLACE is first, or after:COLUMN."
)
@click.option("--comment", multiple=True, metavar="COLUMN=TEXT", help="What a column is for.")
@click.option("--table-comment", metavar="TEXT", help="What the table is for; '' for nothing.")
@click.option(
    "-o",
    "--option",
    multiple=True,
    metavar="NAME=VALUE",
    shell_complete=complete_options,
    help="Set an option that is not fixed.",
)
@click.option("--reset", multiple=True, metavar="NAME", help="Return an option to its default.")
def command(
    settings: Settings,
    table: Table,
    add: tuple[str, ...],
    drop: list[str] | None,
    rename: tuple[str, ...],
    widen: tuple[str, ...],
    nullable: list[str] | None,
    move: tuple[str, ...],
    comment: tuple[str, ...],
    table_comment: str | None,
    option: tuple[str, ...],
    reset: tuple[str, ...],
) -> None:
    """Change columns and options of a table: all that is asked for, or nothing. No file is rewritten.

    \b
      lsmerge alter orders --add 'note STRING' --rename amount=total
      lsmerge alter orders -o snapshot.num-retained.max=100
    """
    asked = (add, drop, rename, widen, nullable, move, comment, option, reset)
    if not any(asked) and table_comment is None:
        raise click.UsageError("say what is to be changed.")
    table.alter(
        add=_fields(add),
        drop=drop or (),
        rename=pairs("--rename", rename),
        widen=pairs("--widen", widen),
        nullable=nullable or (),
        move=pairs("--move", move),
        comments=pairs("--comment", comment),
        options=pairs("--option", option),
        reset=reset,
        comment=table_comment,
    )
    found = table.describe()
    if settings.json:
        screen.document(found)
    else:
        click.echo(f"schema {found['id']}: {screen.count(len(found['columns']), 'column')}")


def _fields(texts: Sequence[str]) -> dict[str, pa.Field]:
    return {field.name: field for text in texts for field in declared(text)}
