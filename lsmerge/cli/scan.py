"""`lsmerge scan`: rows of a snapshot."""

from typing import Any

import click

from lsmerge import Table
from lsmerge.cli import screen
from lsmerge.cli.rows_out import output_of, output_options, write_rows
from lsmerge.cli.settings import Command, Settings, at_options, columns_option, on_table


@click.command("scan", cls=Command)
@on_table
@columns_option("Only these columns, in this order.")
@click.option(
    "-f",
    "--filter",
    "condition",
    metavar="TEXT",
    help='Only these rows: "amount > 10 and status is not null".',
)
@click.option("-n", "--limit", type=click.IntRange(min=0), help="At most so many rows.")
@at_options
@output_options()
@click.option("--count", is_flag=True, help="Only say how many rows there are.")
@click.option("--explain", is_flag=True, help="Only say what would be read.")
def command(
    settings: Settings,
    table: Table,
    columns: list[str] | None,
    condition: str | None,
    limit: int | None,
    form: str | None,
    output: str | None,
    count: bool,
    explain: bool,
    **at: Any,
) -> None:
    """Read rows: all, or those a filter lets through.

    Rows are written as they are read, so memory stays bounded and `lsmerge scan TABLE | head` ends early.
    """
    scan = table.scan(columns, condition, limit=limit, **at)
    if explain:
        _explain(settings, scan.explain())
    elif count:
        rows = scan.count()
        screen.document({"rows": rows}) if settings.json else click.echo(rows)
    else:
        write_rows(output_of(settings, form, output), scan.schema, scan.to_batches())


def _explain(settings: Settings, plan: dict[str, Any]) -> None:
    if settings.json:
        screen.document(plan)
        return
    click.echo(
        f"snapshot {plan['snapshot']}, {plan.get('partitions', 0)} of "
        f"{screen.count(plan.get('partitions_total', 0), 'partition')}"
    )
    names = ("files_total", "files_read", "blocks", "blocks_read")
    screen.listing(
        ("bucket", *(name.replace("_", " ") for name in names)),
        [
            (screen.bucket_name(bucket["partition"], bucket["bucket"]), *(bucket[n] for n in names))
            for bucket in plan["buckets"]
        ],
    )
