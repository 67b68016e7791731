"""Rows out of files and streams: CSV, JSON lines, Parquet, Arrow, batch by batch.

What has types of its own is passed on as it is; text becomes values of the columns' types here, and is refused by line
and column if it cannot. What the door of the table refuses, such as an unknown column or a null key, is left to it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from csv import Error as CsvError
from csv import reader as csv_lines
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import IO, Any

import click
import pyarrow as pa

from lsmerge import SchemaMismatchError
from lsmerge.cli import csv_fault, json_in, user_files
from lsmerge.cli.csv_fault import CsvFile
from lsmerge.cli.json_lines import JsonLines

FORMATS = ("csv", "json", "parquet", "arrow")
ROW_KIND = "_row_kind"
# What the changelog says of a change besides the row: not for the table it is written to.
ABOUT_CHANGES = ("_snapshot_id", "_commit_timestamp")
ARROW_FILE_MAGIC = b"ARROW1"
# A row must fit a block.
BLOCK_BYTES = 4 << 20
LINES_TO_INFER = 10_000


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """How the columns of a line are told apart, and what stands for null."""

    delimiter: str = ","
    null: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """A file or standard input, and how it is to be read."""

    path: str
    format: str
    dialect: CsvDialect = field(default_factory=CsvDialect)

    @property
    def name(self) -> str:
        return "standard input" if self.path == user_files.STDIO else self.path


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows to come; how many there are, if the file says so, and on which line of it a row is, if it has lines."""

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]
    count: int | None = None
    line_of: Callable[[int], int | None] = lambda _row: None


def source_of(path: str, form: str | None, dialect: CsvDialect) -> Source:
    """A source of the format named, or of the one that the name of the file tells."""
    found = Source(path, form or user_files.format_by_name(path) or "", dialect)
    if not found.format:
        raise click.UsageError(f"{found.name}: say what it is with --format {'|'.join(FORMATS)}.")
    return found


@contextmanager
def rows(
    source: Source, columns: Mapping[str, pa.DataType], *, with_kinds: bool = True
) -> Iterator[Rows]:
    """The rows of a source; `columns` are those that text may be for, with their types.

    `with_kinds` lets lines of JSON say what kind of row they hold; without, none of them does.
    """
    with user_files.reading(source.path) as stream, _located(source):
        if source.format == "json":
            found = _json(source, stream, columns, with_kinds=with_kinds)
        else:
            found = _columnar(source, stream, columns)
        with _by_line(source, found):
            yield _without(ABOUT_CHANGES, found)


def inferred_schema(source: Source) -> pa.Schema:
    """The columns of a source, those of text guessed from its beginning."""
    with user_files.reading(source.path) as stream, _located(source):
        found = _inferred_json(stream) if source.format == "json" else _columnar(source, stream, {})
        return _without((ROW_KIND, *ABOUT_CHANGES), found).schema


def _columnar(source: Source, stream: IO[bytes], columns: Mapping[str, pa.DataType]) -> Rows:
    if source.format == "csv":
        return _csv(source, user_files.seekable(stream), columns)
    return _parquet(stream) if source.format == "parquet" else _arrow(stream)


@contextmanager
def _located(source: Source) -> Iterator[None]:
    """Say of which file it is what Arrow cannot read."""
    try:
        yield
    except pa.ArrowException as error:
        reason = str(error).partition("\n")[0]
        raise SchemaMismatchError(f"{source.name}: {reason}") from error


@contextmanager
def _by_line(source: Source, found: Rows) -> Iterator[None]:
    """Say on which line the row is that the table refuses. It does so before it asks for another batch."""
    try:
        yield
    except SchemaMismatchError as error:
        line = None if error.row is None else found.line_of(error.row)
        if line is None:
            raise
        reason = error.args[0].replace(f" at row {error.row}", "", 1)
        raise SchemaMismatchError(f"{source.name}, line {line}: {reason}", error.row) from error


def _without(names: Sequence[str], found: Rows) -> Rows:
    kept = [i for i, name in enumerate(found.schema.names) if name not in names]
    if len(kept) == len(found.schema.names):
        return found
    schema = pa.schema([found.schema.field(i) for i in kept])
    return replace(found, schema=schema, batches=(batch.select(kept) for batch in found.batches))


# ------------------------------------------------------------------------------------------ typed


def _parquet(stream: IO[bytes]) -> Rows:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(user_files.seekable(stream))
    return Rows(file.schema_arrow, file.iter_batches(), file.metadata.num_rows)


def _arrow(stream: IO[bytes]) -> Rows:
    """An Arrow stream, or an Arrow file, which begins with its magic."""
    if user_files.head(stream, len(ARROW_FILE_MAGIC)) != ARROW_FILE_MAGIC:
        reader = pa.ipc.open_stream(stream)
        return Rows(reader.schema, reader)
    file = pa.ipc.open_file(user_files.seekable(stream))
    return Rows(file.schema, (file.get_batch(i) for i in range(file.num_record_batches)))


# ------------------------------------------------------------------------------------- JSON lines


def _json(
    source: Source, stream: IO[bytes], columns: Mapping[str, pa.DataType], *, with_kinds: bool
) -> Rows:
    """One object a line; a row without a kind is an insert."""
    kinds = {ROW_KIND: pa.string()} if with_kinds else {}
    reader = JsonLines(
        source.name,
        {**columns, **kinds},
        defaults=dict.fromkeys(kinds, "+I"),
        ignored=ABOUT_CHANGES,
    )
    return Rows(reader.schema, reader.batches(stream), line_of=reader.line_of)


def _inferred_json(stream: IO[bytes]) -> Rows:
    from pyarrow import json as arrow_json

    options = arrow_json.ReadOptions(block_size=BLOCK_BYTES)
    head = pa.BufferReader(b"".join(islice(stream, LINES_TO_INFER)))
    return Rows(arrow_json.read_json(head, read_options=options).schema, ())


# -------------------------------------------------------------------------------------------- CSV


def _csv(source: Source, file: IO[bytes], columns: Mapping[str, pa.DataType]) -> Rows:
    """Lines under a header; an empty field is null, an empty field in quotes is empty text. No header, no rows."""
    from pyarrow import csv

    if not user_files.head(file, 1):
        return Rows(pa.schema(list(columns.items())), ())
    dialect = source.dialect
    _check_quotes(source, file)
    types = {name: json_in.csv_type(arrow) for name, arrow in columns.items()}
    types[ROW_KIND] = pa.string()
    text = CsvFile(source.name, file, dialect.delimiter, dialect.null, types)
    with csv_fault.located(text):
        reader = csv.open_csv(
            user_files.native(file),
            read_options=csv.ReadOptions(block_size=BLOCK_BYTES),
            parse_options=csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=types,
                null_values=[dialect.null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    found = Rows(reader.schema, _held(text, reader), line_of=text.line_of)
    return _decoded_csv(text, found, columns)


def _held(text: CsvFile, reader: Any) -> Iterator[pa.RecordBatch]:
    """The batches; the file, which may be a copy that goes when it is closed, stays as long."""
    with text.bytes, csv_fault.located(text):
        yield from reader


def _check_quotes(source: Source, file: IO[bytes]) -> None:
    """Refuse a quote that nothing closes: Arrow would take all lines after it for one value.

    A pass of its own, before any row is read. Counting in the pass that reads would save a third of it (together
    about half a second of processor time a gigabyte), and tell of the quote only once Arrow has failed in its own
    words, or has taken the rest of the file into memory. It is also why a pipe is copied to disk: the line of the
    quote is found by looking again.
    """
    if user_files.count(file, b'"') % 2 == 0:
        return
    with user_files.decoded(file) as text:
        lines = csv_lines(text, delimiter=source.dialect.delimiter, strict=True)
        try:
            for _ in lines:
                pass
        except CsvError as error:
            raise SchemaMismatchError(
                f'{source.name} at line {lines.line_num}: a quote is not closed ({error}); close it, or write "" for '
                "a quote in a value"
            ) from error


def _decoded_csv(text: CsvFile, found: Rows, columns: Mapping[str, pa.DataType]) -> Rows:
    names = [name for name in found.schema.names if name in columns]
    coded = [name for name in names if json_in.csv_type(columns[name]) != columns[name]]
    schema = found.schema
    for name in coded:
        schema = schema.set(schema.get_field_index(name), pa.field(name, columns[name]))
    if not coded:
        return found
    batches = (_decoded(text, batch, schema, coded) for batch in found.batches)
    return replace(found, schema=schema, batches=batches)


def _decoded(
    text: CsvFile, batch: pa.RecordBatch, schema: pa.Schema, coded: Sequence[str]
) -> pa.RecordBatch:
    """The batch with values of the schema's types in the columns that came as text."""
    for name in coded:
        column = schema.field(name)
        array = _array(text, column, batch.column(name).to_pylist())
        batch = batch.set_column(schema.get_field_index(name), column, array)
    return batch


def _array(text: CsvFile, column: pa.Field, written: Sequence[str | None]) -> pa.Array:
    values = []
    for value in written:
        try:
            values.append(None if value is None else json_in.value_of_text(value, column.type))
        except ValueError as error:
            raise csv_fault.misread(text, column.name, str(value), str(error)) from error
    return pa.array(values, column.type)
