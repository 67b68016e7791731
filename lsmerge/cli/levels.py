"""`lsmerge levels`: the LSM tree of each bucket, drawn in the terminal."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import click

from lsmerge import LsmergeError, Table
from lsmerge.cli import screen
from lsmerge.cli.arguments import partition_option, partitions_of
from lsmerge.cli.settings import Command, Settings, at_options, on_table
from lsmerge.cli.tree_view import Bucket, TreeView

BUCKETS_SHOWN = 20


@click.command("levels", cls=Command)
@on_table
@partition_option
@click.option("-b", "--bucket", type=int, multiple=True, metavar="N", help="Only this bucket.")
@click.option("--files", is_flag=True, help="List each file with its size and keys.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=1),
    default=BUCKETS_SHOWN,
    show_default=True,
    help="Draw at most so many buckets, the largest ones.",
)
@click.option(
    "--width",
    type=click.IntRange(min=20),
    metavar="N",
    help="Columns to draw in; those of the terminal by default.",
)
@at_options
def command(
    settings: Settings,
    table: Table,
    partitions: tuple[str, ...],
    bucket: tuple[int, ...],
    files: bool,
    limit: int,
    width: int | None,
    **at: Any,
) -> None:
    """Draw the LSM tree of each bucket: a line for each sorted run, the newest on top.

    From left to right are the keys of the bucket, so what lies below each other may hold the same keys; files of one
    run, which never do, are told apart by their shade. Behind them are size, stored rows and files.
    """
    wanted = partitions_of(table, partitions)
    for name in {name for partition in wanted or () for name in partition}:
        if name not in table.partition_by:
            hint = LsmergeError.hint(name, table.partition_by)
            raise click.UsageError(f"--partition: unknown partition column {name!r}; {hint}")
    buckets = [
        found
        for found in _buckets(table.files(**at))
        if _is_wanted(found, wanted) and (not bucket or found.number in bucket)
    ]
    if settings.json:
        screen.document([_values(found) for found in buckets])
        return
    TreeView(width, with_files=files).draw(_largest(buckets, limit))
    hidden = len(buckets) - limit
    if hidden > 0:
        click.echo(f"\nand {screen.count(hidden, 'smaller bucket')}; --limit shows more")
    if not buckets:
        click.echo("no files")


def _buckets(listed: Sequence[Any]) -> list[Bucket]:
    """Files come bucket by bucket and run by run."""
    grouped = groupby(listed, key=lambda file: (file.partition, file.bucket))
    return [
        Bucket(
            partition=partition,
            number=number,
            runs=[list(run) for _, run in groupby(files, key=lambda file: file.run)],
        )
        for (partition, number), files in grouped
    ]


def _is_wanted(bucket: Bucket, partitions: Sequence[dict[str, Any]] | None) -> bool:
    if partitions is None:
        return True
    return any(wanted.items() <= bucket.partition.items() for wanted in partitions)


def _largest(buckets: Sequence[Bucket], limit: int) -> list[Bucket]:
    """The largest ones, in the order of the table."""
    kept = sorted(range(len(buckets)), key=lambda i: -buckets[i].size_bytes)[:limit]
    return [buckets[i] for i in sorted(kept)]


def _values(bucket: Bucket) -> dict[str, Any]:
    return {
        "partition": bucket.partition,
        "bucket": bucket.number,
        "runs": [
            {
                "level": files[0].level,
                "rows": sum(file.rows for file in files),
                "size_bytes": sum(file.size_bytes for file in files),
                "files": [screen.values_of(file) for file in files],
            }
            for files in bucket.runs
        ],
    }
