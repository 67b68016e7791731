"""`lsmerge tail`: the changelog, as it grows."""

from contextlib import nullcontext, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from lsmerge import Table
from lsmerge.cli.changes import write_changes
from lsmerge.cli.closed_pipe import ending_with_its_reader
from lsmerge.cli.rows_out import CHANGE_FORMATS, output_of, output_options
from lsmerge.cli.settings import Command, Settings, complete_consumers, on_table

MODES = ("earliest", "latest", "latest-full")
# Times in milliseconds have been as long since 1973; no table has as many snapshots.
MILLISECOND_DIGITS = 12


@click.command("tail", cls=Command)
@on_table
@click.option(
    "--from",
    "start",
    metavar="START",
    help="earliest, latest, latest-full, a snapshot's number, or a time with its zone. "
    "By default latest, and earliest with --once.",
)
@click.option("--to", "end", type=int, metavar="N", help="Stop after this snapshot.")
@click.option(
    "--consumer",
    metavar="NAME",
    shell_complete=complete_consumers,
    help="Go on where the reader of this name stopped; its place is kept in the table.",
)
@click.option("-n", "--limit", type=click.IntRange(min=0), help="Stop after so many changes.")
@click.option(
    "--follow/--once",
    default=True,
    help="Wait for what is still to come, or stop at the newest snapshot.",
)
@output_options(CHANGE_FORMATS)
def command(
    settings: Settings,
    table: Table,
    start: str | None,
    end: int | None,
    consumer: str | None,
    limit: int | None,
    follow: bool,
    form: str | None,
    output: str | None,
) -> None:
    """Follow the changelog: +I rows that came, -U and +U how rows were and are, -D rows that went.

    `latest-full` begins with all rows as they are. Which changes there are, the option changelog-producer of the
    table says. A consumer's place moves on once all changes of a snapshot are written, so whoever stops inside a
    snapshot gets it again.

    \b
      lsmerge tail orders
      lsmerge tail orders --once --from 12 --json
      lsmerge tail orders --consumer billing --format debezium | billing
    """
    target = output_of(settings, form, output)
    begin = _start(start or ("latest" if follow else "earliest"))
    changes = table.changelog(begin, end, follow=follow, consumer=consumer)
    with nullcontext() if target.is_file else ending_with_its_reader():
        write_changes(target, table, changes, limit=limit, at_once=follow)


def _start(text: str) -> Any:
    """A word, a snapshot's number, or a time."""
    if text in MODES:
        return text
    if text.isdigit():
        is_time = len(text) >= MILLISECOND_DIGITS
        return _EPOCH + timedelta(milliseconds=int(text)) if is_time else int(text)
    with suppress(ValueError):
        time = datetime.fromisoformat(text)
        if time.tzinfo is not None:
            return time
    raise click.UsageError(
        f"--from {text}: give {', '.join(MODES)}, a snapshot's number, or a time with its offset such as "
        "2024-01-31T12:00:00Z."
    )


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
