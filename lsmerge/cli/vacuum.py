"""`lsmerge vacuum`: files that crashed writers left."""

import click

from lsmerge import Table
from lsmerge.cli import progress, screen
from lsmerge.cli.settings import Command, Settings, on_table
from lsmerge.statements.grid import printable


@click.command("vacuum", cls=Command)
@on_table
@click.option(
    "--older-than",
    metavar="AGE|TIME",
    help="Younger files stay, as they may belong to a commit under way; '1 d' by default.",
)
@click.option("--delete", is_flag=True, help="Delete them; without it they are only listed.")
def command(settings: Settings, table: Table, older_than: str | None, delete: bool) -> None:
    """Find files that crashed writers left and nothing refers to; --delete removes them.

    Choose an age above what the longest write takes. Files that are not lsmerge's are not touched.
    """
    with progress.bar(settings, "vacuum") as hook:
        report = table.remove_orphan_files(older_than, dry_run=not delete, progress=hook)
    if settings.json:
        screen.document(report)
        return
    for path in report.files:
        click.echo(printable(path))
    what = f"{screen.count(len(report.files), 'orphan')}, {screen.size(report.size_bytes)}"
    hint = "; --delete removes them" if report.files and report.dry_run else ""
    click.echo(f"{what}{'' if report.dry_run else ' deleted'}{hint}")
