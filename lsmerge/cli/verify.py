"""`lsmerge verify`: every byte that a snapshot needs."""

import click

from lsmerge import Table
from lsmerge.cli import failures, progress, screen
from lsmerge.cli.settings import Command, Settings, on_table
from lsmerge.statements.grid import printable


@click.command("verify", cls=Command)
@on_table
def command(settings: Settings, table: Table) -> int:
    """Read every byte that a retained snapshot or tag needs; the exit code is 1 if something is damaged or missing."""
    with progress.bar(settings, "verify") as hook:
        report = table.verify(progress=hook)
    if settings.json:
        screen.document({"ok": report.ok, **screen.values_of(report)})
    else:
        for problem in report.problems:
            click.echo(printable(problem))
        verdict = "sound" if report.ok else screen.count(len(report.problems), "problem")
        click.echo(
            f"{verdict}: {screen.count(report.snapshots, 'snapshot')}, "
            f"{screen.count(report.files, 'file')}, {screen.size(report.bytes_read)} read"
        )
    return failures.DONE if report.ok else failures.ANSWER_IS_NO
