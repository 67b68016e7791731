"""`lsmerge expire`: old snapshots and their files go."""

import click

from lsmerge import Table
from lsmerge.cli import progress, screen
from lsmerge.cli.settings import Command, Settings, on_table


@click.command("expire", cls=Command)
@on_table
@click.option("--retain-min", type=int, metavar="N", help="So many of the newest stay anyway.")
@click.option("--retain-max", type=int, metavar="N", help="At most so many stay.")
@click.option(
    "--older-than", metavar="AGE|TIME", help="What may go: '7 d', or 2024-01-31T12:00:00Z."
)
@click.option("-d", "--dry-run", is_flag=True, help="Only say what would go.")
def command(
    settings: Settings,
    table: Table,
    retain_min: int | None,
    retain_max: int | None,
    older_than: str | None,
    dry_run: bool,
) -> None:
    """Forget old snapshots and delete the files that no other snapshot or tag needs.

    What is not said is taken from the options of the table; if these say nothing either, what is older than an hour
    goes, and 10 stay.
    """
    with progress.bar(settings, "expire") as hook:
        report = table.expire_snapshots(
            retain_min=retain_min,
            retain_max=retain_max,
            older_than=older_than,
            dry_run=dry_run,
            progress=hook,
        )
    if settings.json:
        screen.document(report)
        return
    ids = report.snapshots
    which = f" ({ids[0]} to {ids[-1]})" if len(ids) > 1 else f" ({ids[0]})" if ids else ""
    click.echo(
        f"{'would expire' if dry_run else 'expired'} {screen.count(len(ids), 'snapshot')}{which}, "
        f"{screen.count(len(report.tags), 'tag')}; {screen.count(report.files, 'file')}, "
        f"{screen.count(report.manifests, 'manifest')}, {screen.size(report.size_bytes)}"
    )
