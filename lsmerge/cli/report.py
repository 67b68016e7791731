"""`lsmerge report`: a table on one page."""

import click

from lsmerge import Table
from lsmerge.cli import screen, user_files
from lsmerge.cli.settings import Command, Settings, on_table
from lsmerge.report import to_html


@click.command("report", cls=Command)
@on_table
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default=user_files.STDIO,
    help="Write the page here; to standard output by default.",
)
def command(settings: Settings, table: Table, output: str) -> None:
    """Write one HTML page about a table: its trees, what was done to it, and what that cost.

    The page needs nothing else: mail it, or open it where there is no network.
    """
    page = to_html(table).encode()
    with user_files.writing(output) as stream:
        stream.write(page)
    if output == user_files.STDIO:
        return
    if settings.json:
        screen.document({"path": output, "size_bytes": len(page)})
    else:
        click.echo(f"{output}: {len(page):,} bytes")
