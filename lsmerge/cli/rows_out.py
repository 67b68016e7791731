"""Rows to people and programs: a table on the terminal, JSON lines, CSV, Arrow, Parquet, documents of changes.

Batches are written as they come and forgotten: memory does not grow with the table. What was written has left the
process before the next batch is asked for, so that a follower of changes never waits for a buffer to fill.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any, TypeVar

import click
import pyarrow as pa

import lsmerge
from lsmerge import SchemaMismatchError
from lsmerge.cli import json_columns, json_in, user_files
from lsmerge.cli.settings import Settings
from lsmerge.cli.table_view import TableView

FORMATS = ("table", "json", "csv", "arrow", "parquet")
CHANGE_FORMATS = (*FORMATS, "debezium")
STREAM_EXTENSION = ".arrows"
BINARY = ("arrow", "parquet")

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Output:
    """Where rows go, and how."""

    format: str
    path: str | None

    @property
    def is_file(self) -> bool:
        return self.path is not None and self.path != user_files.STDIO


def output_options(formats: tuple[str, ...] = FORMATS) -> Callable[[Function], Function]:
    """--format and --output."""

    def decorate(function: Function) -> Function:
        function = click.option(
            "-O",
            "--output",
            metavar="FILE",
            type=click.Path(dir_okay=False, allow_dash=True),
            help="Write to a file; its extension tells the format.",
        )(function)
        return click.option(
            "-F", "--format", "form", type=click.Choice(formats), help="How rows are written."
        )(function)

    return decorate


def output_of(settings: Settings, form: str | None, path: str | None) -> Output:
    """What the options ask for together; a table by default."""
    if settings.json and form not in (None, "json"):
        raise click.UsageError(f"--json and --format {form} contradict each other.")
    by_name = user_files.format_by_name(path) if path else None
    found = Output(form or ("json" if settings.json else None) or by_name or "table", path)
    if found.format in BINARY and not found.is_file:
        _check_binary(found)
    return found


def _check_binary(output: Output) -> None:
    if output.format == "parquet":
        raise click.UsageError("--format parquet needs a file: --output FILE.")
    if sys.stdout.isatty():
        raise click.UsageError(f"--format {output.format} is not for a terminal: --output FILE.")


def write_rows(
    output: Output,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    at_once: bool = False,
) -> None:
    """Write all batches as they come; a table is drawn page by page, unless `at_once`."""
    with user_files.writing(output.path) as stream:
        if output.format == "table":
            with user_files.as_text(stream) as text:
                TableView(text, at_once=at_once).show(schema, batches)
        elif output.format == "json":
            _write_lines(stream, batches)
        elif output.format == "debezium":
            _write_documents(stream, batches)
        elif output.format == "csv":
            _write_csv(stream, schema, batches)
        elif output.format == "parquet":
            _write_parquet(stream, schema, batches)
        else:
            _write_arrow(output, stream, schema, batches)


def _write_lines(stream: IO[bytes], batches: Iterable[pa.RecordBatch]) -> None:
    for batch in batches:
        for piece in json_columns.lines(batch):
            stream.write(piece)
        stream.flush()


def _write_documents(stream: IO[bytes], batches: Iterable[pa.RecordBatch]) -> None:
    """An update is told whole, so its two rows must be seen together: line by line, over the ends of batches."""
    for document in lsmerge.debezium(batches):
        stream.write(f"{document}\n".encode())
        stream.flush()


def _write_csv(stream: IO[bytes], schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    from pyarrow import csv

    flat = pa.schema([pa.field(field.name, json_in.csv_type(field.type)) for field in schema])
    with csv.CSVWriter(stream, flat) as writer:
        stream.flush()
        for batch in _of_one_schema(schema, batches):
            writer.write_batch(_flat(batch, flat))
            stream.flush()


def _flat(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [
        column if column.type == field.type else _as_json(column)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _as_json(column: pa.Array) -> pa.Array:
    """Lists, structs and maps as JSON, binary as base64."""
    is_nested = pa.types.is_nested(column.type)
    return json_columns.texts_or_null(column) if is_nested else json_columns.base64_texts(column)


def _write_parquet(stream: IO[bytes], schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(stream, schema) as writer:
        for batch in _of_one_schema(schema, batches):
            writer.write_batch(batch)


def _write_arrow(
    output: Output, stream: IO[bytes], schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> None:
    """A file that readers may jump in; a stream where it goes to a pipe or is called so."""
    is_stream = not output.is_file or str(output.path).endswith(STREAM_EXTENSION)
    make = pa.ipc.new_stream if is_stream else pa.ipc.new_file
    with make(stream, schema) as writer:
        for batch in _of_one_schema(schema, batches):
            writer.write_batch(batch)
            stream.flush()


def _of_one_schema(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The batches, which must all have the columns that were announced."""
    for batch in batches:
        if not batch.schema.equals(schema):
            raise SchemaMismatchError(
                f"the columns of the table changed while it was followed, to {', '.join(batch.schema.names)}: "
                "start again from the snapshot that this output ends with, or use --format json"
            )
        yield batch
