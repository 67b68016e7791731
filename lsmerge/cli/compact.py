"""`lsmerge compact`: merging sorted runs."""

import click

from lsmerge import Table
from lsmerge.cli import progress, screen
from lsmerge.cli.arguments import partition_option, partitions_of
from lsmerge.cli.settings import Command, Settings, on_table


@click.command("compact", cls=Command)
@on_table
@click.option("--full", is_flag=True, help="Merge all runs of each bucket into one.")
@partition_option
def command(settings: Settings, table: Table, full: bool, partitions: tuple[str, ...]) -> None:
    """Merge sorted runs: those that the options of the table ask for, or all with --full."""
    with progress.bar(settings, "compact") as hook:
        report = table.compact(full, partitions_of(table, partitions), progress=hook)
    if settings.json:
        screen.document(report)
    elif report.snapshot_id is None:
        click.echo("nothing to compact")
    else:
        moved = f", {screen.count(report.files_moved, 'file')} moved" if report.files_moved else ""
        click.echo(
            f"snapshot {report.snapshot_id}: {screen.count(report.buckets, 'bucket')}, "
            f"{screen.count(report.files_removed, 'file')} ({screen.size(report.bytes_read)}, "
            f"{screen.count(report.rows_read, 'row')}) became {report.files_added:,} "
            f"({screen.size(report.bytes_written)}, {screen.count(report.rows_written, 'row')}){moved}"
        )
