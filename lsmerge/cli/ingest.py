"""The input of `write` and `delete`: rows of a file on their way into a table, counted as they pass."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import update_wrapper
from itertools import chain
from typing import Any

import click
import pyarrow as pa

from lsmerge import Table
from lsmerge.cli import progress, rows_in
from lsmerge.cli.progress import Hook, RowsDone
from lsmerge.cli.rows_in import CsvDialect, Rows, Source
from lsmerge.cli.settings import Settings


@dataclass(slots=True)
class Tally:
    """How many rows went in so far, and whether there are any at all."""

    rows: int = 0
    is_empty: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """How a file is to be read, as the options say."""

    format: str | None
    dialect: CsvDialect

    def source(self, path: str) -> Source:
        """The file, or standard input, read in this way."""
        return rows_in.source_of(path, self.format, self.dialect)


def input_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """--format, --delimiter and --null, which the function gets together as `reading`."""

    def combined(*args: Any, form: str | None, delimiter: str, null: str, **arguments: Any) -> Any:
        reading = Reading(form, CsvDialect(delimiter, null))
        return function(*args, reading=reading, **arguments)

    update_wrapper(combined, function)
    for option in (
        click.option(
            "--null",
            default="",
            metavar="TEXT",
            help="What stands for null in CSV; empty by default.",
        ),
        click.option(
            "--delimiter",
            default=",",
            metavar="CHAR",
            callback=_one_character,
            help="What separates the fields of CSV.",
        ),
        click.option(
            "-F",
            "--format",
            "form",
            type=click.Choice(rows_in.FORMATS),
            help="What the rows are; else the extension of the file tells.",
        ),
    ):
        combined = option(combined)
    return combined


def _one_character(_: click.Context, __: click.Parameter, value: str) -> str:
    if len(value) != 1:
        raise click.BadParameter(f"{value!r} is not one character")
    return value


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
    opened = rows_in.rows(source, wanted, with_kinds=with_kinds)
    with opened as rows, progress.bar(settings, "write") as hook:
        batches = _counted(rows, tally, hook)
        first = next(batches, None)
        tally.is_empty = first is None
        all_batches = batches if first is None else chain([first], batches)
        yield pa.RecordBatchReader.from_batches(rows.schema, all_batches), tally


def _counted(rows: Rows, tally: Tally, hook: Hook | None) -> Iterator[pa.RecordBatch]:
    for batch in filter(len, rows.batches):
        tally.rows += batch.num_rows
        if hook is not None:
            hook(RowsDone(tally.rows, rows.count))
        yield batch
