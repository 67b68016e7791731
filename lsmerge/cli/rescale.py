"""`lsmerge rescale`: another number of buckets."""

import click

from lsmerge import Table
from lsmerge.cli import progress, screen
from lsmerge.cli.arguments import partition_option, partitions_of
from lsmerge.cli.settings import Command, Settings, on_table


@click.command("rescale", cls=Command)
@on_table
@click.argument("buckets", type=click.IntRange(min=1))
@partition_option
def command(settings: Settings, table: Table, buckets: int, partitions: tuple[str, ...]) -> None:
    """Split all partitions, or those named, into another number of buckets, in one commit."""
    with progress.bar(settings, "rescale") as hook:
        report = table.rescale(buckets, partitions_of(table, partitions), progress=hook)
    if settings.json:
        screen.document(report)
    elif report.snapshot_id is None:
        click.echo("nothing to rescale")
    else:
        click.echo(
            f"snapshot {report.snapshot_id}: {screen.count(report.partitions, 'partition')}, "
            f"{screen.count(report.rows_written, 'row')} in {screen.count(report.files_added, 'file')} "
            f"({screen.size(report.bytes_written)})"
        )
