"""Rows out of files and streams: CSV, JSON lines, Parquet, Arrow, batch by batch.

What has types of its own is passed on as it is; text becomes values of the columns' types here, and is refused by line
and column if it cannot. What the door of the table refuses, such as an unknown column or a null key, is left to it.
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any

import click
import pyarrow as pa

from lsmerge import SchemaMismatchError
from lsmerge.cli import json_in, user_files

FORMATS = ("csv", "json", "parquet", "arrow")
ROW_KIND = "_row_kind"
# What the changelog says of a change besides the row: not for the table it is written to.
ABOUT_CHANGES = ("_snapshot_id", "_commit_timestamp")
LINES_AT_ONCE = 8192
ARROW_FILE_MAGIC = b"ARROW1"
JSON_BLOCK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """How the columns of a line are told apart, and what stands for null."""

    delimiter: str = ","
    null: str = ""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows to come; how many there are, if the file says so."""

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]
    count: int | None = None


def format_of(source: str, given: str | None) -> str:
    """The format named, or the one that the name of the file tells."""
    found = given or user_files.format_by_name(source)
    if found is None:
        raise click.UsageError(
            f"{_named(source)}: say what it is with --format {'|'.join(FORMATS)}."
        )
    return found


@contextmanager
def rows(
    source: str,
    form: str,
    columns: Mapping[str, pa.DataType],
    dialect: CsvDialect,
    *,
    with_kinds: bool = True,
) -> Iterator[Rows]:
    """The rows of a file or of standard input; `columns` are those that text may be for, with their types.

    `with_kinds` lets lines of JSON say what kind of row they hold; without, none of them does.
    """
    with user_files.reading(source) as stream, _located(source):
        if form == "csv":
            found = _csv(stream, columns, dialect)
        elif form == "json":
            kinds = {ROW_KIND: pa.string()} if with_kinds else {}
            found = _json(source, stream, {**columns, **kinds})
        elif form == "parquet":
            found = _parquet(user_files.seekable(stream))
        else:
            found = _arrow(stream)
        yield _without(ABOUT_CHANGES, found)


def inferred_schema(source: str, form: str, dialect: CsvDialect) -> pa.Schema:
    """The columns of a file, those of text guessed from its beginning."""
    with user_files.reading(source) as stream, _located(source):
        if form == "json":
            return _inferred_json(stream)
        found = (
            _csv(stream, {}, dialect)
            if form == "csv"
            else _parquet(user_files.seekable(stream))
            if form == "parquet"
            else _arrow(stream)
        )
        return _without((ROW_KIND, *ABOUT_CHANGES), found).schema


@contextmanager
def _located(source: str) -> Iterator[None]:
    """Say of which file it is what Arrow cannot read."""
    try:
        yield
    except pa.ArrowException as error:
        reason = str(error).partition("\n")[0]
        raise SchemaMismatchError(f"{_named(source)}: {reason}") from error


def _named(source: str) -> str:
    return "standard input" if source == user_files.STDIO else source


def _without(names: Sequence[str], found: Rows) -> Rows:
    kept = [name for name in found.schema.names if name not in names]
    if len(kept) == len(found.schema.names):
        return found
    schema = pa.schema([found.schema.field(name) for name in kept])
    return Rows(schema, (batch.select(kept) for batch in found.batches), found.count)


# ------------------------------------------------------------------------------------------ typed


def _parquet(stream: IO[bytes]) -> Rows:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(stream)
    return Rows(file.schema_arrow, file.iter_batches(), file.metadata.num_rows)


def _arrow(stream: IO[bytes]) -> Rows:
    """An Arrow stream, or an Arrow file, which begins with its magic."""
    if user_files.head(stream, len(ARROW_FILE_MAGIC)) != ARROW_FILE_MAGIC:
        reader = pa.ipc.open_stream(stream)
        return Rows(reader.schema, reader)
    file = pa.ipc.open_file(user_files.seekable(stream))
    return Rows(file.schema, (file.get_batch(i) for i in range(file.num_record_batches)))


# -------------------------------------------------------------------------------------------- CSV


def _csv(stream: IO[bytes], columns: Mapping[str, pa.DataType], dialect: CsvDialect) -> Rows:
    """Lines under a header; an empty field is null, an empty field in quotes is empty text."""
    from pyarrow import csv

    types = {ROW_KIND: pa.string(), **columns}
    reader = csv.open_csv(
        stream,
        parse_options=csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types={name: _csv_type(arrow) for name, arrow in types.items()},
            null_values=[dialect.null],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return _decoded_csv(Rows(reader.schema, reader), columns)


def _csv_type(arrow: pa.DataType) -> pa.DataType:
    return pa.string() if _is_json_in_csv(arrow) else arrow


def _is_json_in_csv(arrow: pa.DataType) -> bool:
    """Whether Arrow cannot read the type from a field, or not safely."""
    is_bytes = pa.types.is_binary(arrow) or pa.types.is_fixed_size_binary(arrow)
    return bool(pa.types.is_nested(arrow) or is_bytes)


def _decoded_csv(found: Rows, columns: Mapping[str, pa.DataType]) -> Rows:
    coded = [name for name in found.schema.names if name in columns]
    coded = [name for name in coded if _is_json_in_csv(columns[name])]
    if not coded:
        return found
    schema = found.schema
    for name in coded:
        position = schema.get_field_index(name)
        schema = schema.set(position, pa.field(name, columns[name]))
    return Rows(schema, (_decoded(batch, schema, coded) for batch in found.batches))


def _decoded(batch: pa.RecordBatch, schema: pa.Schema, coded: Sequence[str]) -> pa.RecordBatch:
    """The batch with values of the schema's types in the columns that came as text."""
    arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
    for name in coded:
        arrow = schema.field(name).type
        texts = arrays[name].to_pylist()
        values = [None if text is None else _field_value(name, text, arrow) for text in texts]
        arrays[name] = pa.array(values, arrow)
    return pa.RecordBatch.from_arrays(list(arrays.values()), schema=schema)


def _field_value(name: str, text: str, arrow: pa.DataType) -> Any:
    try:
        return json_in.value_of_text(text, arrow)
    except ValueError as error:
        raise SchemaMismatchError(f"column {name!r}: {error}") from error


# ------------------------------------------------------------------------------------- JSON lines


def _json(source: str, stream: IO[bytes], types: Mapping[str, pa.DataType]) -> Rows:
    """One object a line. A column that a line leaves out is null there; a row without a kind is an insert."""
    schema = pa.schema(list(types.items()))
    return Rows(schema, _JsonLines(source, types).batches(stream, schema))


class _JsonLines:
    """Turns lines into batches, and says in which line something was wrong."""

    def __init__(self, source: str, types: Mapping[str, pa.DataType]) -> None:
        self._source = source
        self._types = types
        self._readers = {name: json_in.reader_of(arrow) for name, arrow in types.items()}
        self._ignored = frozenset(ABOUT_CHANGES)

    def batches(self, stream: IO[bytes], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        numbered = enumerate(stream, start=1)
        while lines := list(islice(numbered, LINES_AT_ONCE)):
            found = [(number, self._row(number, line)) for number, line in lines if line.strip()]
            arrays = [self._column(name, found) for name in self._types]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _row(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            row = json_in.loads(line.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise self._refusal(number, f"not JSON: {error}") from error
        if not isinstance(row, dict):
            raise self._refusal(number, "a line must hold one object, such as {...}")
        for name in row.keys() - self._types.keys() - self._ignored:
            raise self._refusal(number, f"unknown column {name!r}; {self._nearest(name)}")
        row.setdefault(ROW_KIND, "+I")
        return row

    def _column(self, name: str, rows: Sequence[tuple[int, dict[str, Any]]]) -> pa.Array:
        read, arrow = self._readers[name], self._types[name]
        found = json_in.in_bulk([row.get(name) for _, row in rows], arrow)
        if found is not None:
            return found
        values = []
        for number, row in rows:
            try:
                values.append(read(row.get(name)))
            except ValueError as error:
                raise self._refusal(number, f"column {name!r}: {error}") from error
        try:
            return pa.array(values, arrow)
        except (pa.ArrowInvalid, OverflowError) as error:
            first, last = rows[0][0], rows[-1][0]
            where = f"column {name!r} up to line {last}: {error}"
            raise self._refusal(first, where) from error

    def _nearest(self, name: str) -> str:
        known = [column for column in self._types if column != ROW_KIND]
        nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        return f"did you mean {nearest[0]!r}?" if nearest else f"known: {', '.join(known)}"

    def _refusal(self, number: int, reason: str) -> SchemaMismatchError:
        return SchemaMismatchError(f"{_named(self._source)}, line {number}: {reason}")


def _inferred_json(stream: IO[bytes]) -> pa.Schema:
    from pyarrow import json as arrow_json

    options = arrow_json.ReadOptions(block_size=JSON_BLOCK_BYTES)
    head = pa.BufferReader(b"".join(islice(stream, LINES_AT_ONCE)))
    schema: pa.Schema = arrow_json.read_json(head, read_options=options).schema
    for name in (ROW_KIND, *ABOUT_CHANGES):
        if name in schema.names:
            schema = schema.remove(schema.get_field_index(name))
    return schema
