"""The input of `write` and `delete`: rows of a file on their way into a table, counted as they pass."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import click
import pyarrow as pa

from lsmerge import Table
from lsmerge.cli import progress, rows_in
from lsmerge.cli.progress import Hook, RowsDone
from lsmerge.cli.rows_in import CsvDialect, Rows
from lsmerge.cli.settings import Settings

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Source:
    """A file or standard input, and how it is to be read."""

    path: str
    format: str
    dialect: CsvDialect


@dataclass(slots=True)
class Tally:
    """How many rows went in."""

    rows: int = 0


def input_options(function: Function) -> Function:
    """How a file is read."""
    for option in (
        click.option(
            "--null",
            default="",
            metavar="TEXT",
            help="What stands for null in CSV; empty by default.",
        ),
        click.option(
            "--delimiter", default=",", metavar="CHAR", help="What separates the fields of CSV."
        ),
        click.option(
            "-F",
            "--format",
            "form",
            type=click.Choice(rows_in.FORMATS),
            help="What the rows are; else the extension of the file tells.",
        ),
    ):
        function = option(function)
    return function


def source_of(path: str, form: str | None, delimiter: str, null: str) -> Source:
    """What the arguments say together."""
    if len(delimiter) != 1:
        raise click.UsageError(f"--delimiter {delimiter!r}: give one character.")
    return Source(path, rows_in.format_of(path, form), CsvDialect(delimiter, null))


@contextmanager
def incoming(
    settings: Settings,
    table: Table,
    source: Source,
    columns: Sequence[str] | None = None,
    *,
    with_kinds: bool = True,
) -> Iterator[tuple[pa.RecordBatchReader, Tally]]:
    """The rows as an Arrow stream, and their number so far; `columns` are those that text may be for."""
    types = {field.name: field.type for field in table.schema}
    wanted = types if columns is None else {n: types[n] for n in columns if n in types}
    tally = Tally()
    opened = rows_in.rows(source.path, source.format, wanted, source.dialect, with_kinds=with_kinds)
    with opened as rows, progress.bar(settings, "write") as hook:
        batches = _counted(rows, tally, hook)
        yield pa.RecordBatchReader.from_batches(rows.schema, batches), tally


def _counted(rows: Rows, tally: Tally, hook: Hook | None) -> Iterator[pa.RecordBatch]:
    for batch in rows.batches:
        tally.rows += batch.num_rows
        if hook is not None:
            hook(RowsDone(tally.rows, rows.count))
        yield batch
