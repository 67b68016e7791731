"""`lsmerge write`: rows from a file or standard input, in one commit."""

import click

from lsmerge import Table
from lsmerge.cli import screen
from lsmerge.cli.arguments import partition_option, partitions_of
from lsmerge.cli.ingest import Reading, incoming, input_options
from lsmerge.cli.settings import Command, Settings, columns_option, on_table


@click.command("write", cls=Command)
@on_table
@click.argument(
    "source",
    metavar="[FILE]",
    default="-",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
)
@input_options
@columns_option("The columns the rows have; others keep their values.")
@click.option("--overwrite", is_flag=True, help="Replace all rows, or those of --partition.")
@click.option(
    "--dynamic", is_flag=True, help="With --overwrite: replace the partitions that the rows are of."
)
@partition_option
@click.option(
    "--commit-user",
    metavar="NAME",
    help="With --commit-id: commit at most once under this name and number.",
)
@click.option("--commit-id", type=int, metavar="N", help="See --commit-user.")
def command(
    settings: Settings,
    table: Table,
    source: str,
    reading: Reading,
    columns: list[str] | None,
    overwrite: bool,
    dynamic: bool,
    partitions: tuple[str, ...],
    commit_user: str | None,
    commit_id: int | None,
) -> None:
    """Insert or update rows from a file or standard input, in one commit: all of them or none. No rows, no commit.

    Formats are CSV with a header, JSON lines, Parquet and Arrow. A column `_row_kind` may hold +I, -U, +U or -D; what
    `lsmerge tail --json` prints can be written as it is. Lists, maps and structs in CSV are JSON, binary is base64.

    \b
      lsmerge write orders orders.csv
      psql -c "copy orders to stdout csv header" | lsmerge write orders - -F csv
    """
    if (dynamic or partitions) and not overwrite:
        raise click.UsageError("--dynamic and --partition go with --overwrite.")
    if columns and overwrite:
        raise click.UsageError("--overwrite takes whole rows: leave --columns out.")
    with incoming(settings, table, reading.source(source), columns) as (rows, tally):
        if tally.is_empty and not overwrite and commit_user is None:
            snapshot = None
        elif overwrite:
            mode = "dynamic" if dynamic else "static"
            named = partitions_of(table, partitions)
            snapshot = table.overwrite(
                rows, named, mode=mode, commit_user=commit_user, commit_id=commit_id
            )
        else:
            snapshot = table.write(
                rows, columns=columns, commit_user=commit_user, commit_id=commit_id
            )
    if settings.json:
        screen.document({"snapshot": snapshot and snapshot.id, "rows": tally.rows})
    elif snapshot is None:
        click.echo("0 rows: nothing written")
    else:
        click.echo(f"snapshot {snapshot.id}: {screen.count(tally.rows, 'row')} written")
