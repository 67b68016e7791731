"""The door: whatever a user writes becomes batches in Arrow normal form, or is refused whole.

open the input → match its columns with the table's → per batch: validate, cast, read row kinds,
check nulls. Columns are matched and types checked before the first batch is asked for.

Ensures for every batch handed on: schema is `TableSchema.row_schema`; buffers are valid; no key is
null; no added row has a null in a NOT NULL column; lengths and precisions are kept. Data that is
in normal form already is handed on without a copy.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from lsmerge.engine import casting
from lsmerge.engine.casting import Place
from lsmerge.engine.python_rows import table_from_columns, table_from_rows
from lsmerge.errors import SchemaMismatchError
from lsmerge.rowkind import ROW_KIND_COLUMN, SYMBOLS, RowKind
from lsmerge.schema import Column, TableSchema, unknown_name

Kinds: TypeAlias = pa.Array | None
"""int8 row kinds, None where every row is an insert."""

MAX_BATCH_ROWS = 1 << 18
MAX_BATCH_BYTES = 16 << 20
MAX_KEY_BYTES = 1 << 16


def normalise(
    data: Any,
    schema: TableSchema,
    columns: Sequence[str] | None = None,
    *,
    default_kind: RowKind = RowKind.INSERT,
    rowkind_field: str | None = None,
) -> Iterator[tuple[pa.RecordBatch, Kinds]]:
    """Batches in normal form with their row kinds; batches without rows are left out.

    `columns`: the target columns; the data must hold exactly these, all others become null.
    `default_kind`: the kind of rows where the data says nothing.
    `rowkind_field`: a table column that holds the kind and overrides `_row_kind`.
    """
    source_schema, batches = _open(data, schema)
    layout = _match(source_schema, schema, columns)
    if layout.kind_index is None and rowkind_field is None and not default_kind & 1:
        _require_not_null_columns(layout)
    field_index = None if rowkind_field is None else schema.index(rowkind_field)
    kinds = _KindSource(default_kind, field_index)
    return _normalised(batches, layout, kinds)


# ------------------------------------------------------------------------------------ opening input


def _open(data: Any, schema: TableSchema) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    try:
        return _opened(data, schema)
    except pa.ArrowException as error:
        raise _unreadable(error) from error


def _unreadable(error: pa.ArrowException) -> SchemaMismatchError:
    # Arrow appends the traceback of a Python producer; the cause of this error has it anyway.
    reason = str(error).partition("\n")[0]
    return SchemaMismatchError(f"data cannot be read as Arrow: {reason}")


def _opened(data: Any, schema: TableSchema) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    data = _as_arrow(data, schema)
    if isinstance(data, pa.RecordBatch):
        return data.schema, [data]
    if isinstance(data, pa.Table):
        return data.schema, data.to_batches()
    if isinstance(data, pa.RecordBatchReader):
        return data.schema, data
    # The C interface has no buffer sizes: Arrow infers them from the last offset, which a foreign
    # producer is trusted for. What pyarrow holds itself must not come this way and lose its sizes.
    if hasattr(data, "__arrow_c_array__"):
        batch = pa.record_batch(data)
        return batch.schema, [batch]
    if hasattr(data, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(data)
        return reader.schema, reader
    raise SchemaMismatchError(
        f"data is a {type(data).__name__}; accepted: Arrow tables, batches, readers and anything "
        "with __arrow_c_stream__ or __arrow_c_array__, pandas, a list of dicts, a dict of lists"
    )


def _as_arrow(data: Any, schema: TableSchema) -> Any:
    """What is not a table, batch or stream of batches but can be made one; the rest as it is."""
    if isinstance(data, Mapping):
        return table_from_columns(data, schema)
    if isinstance(data, list | tuple):
        return table_from_rows(data, schema)
    if type(data).__module__.partition(".")[0] == "pandas":
        # pandas' own stream would add a column for an index that is not a plain range.
        return pa.Table.from_pandas(data, preserve_index=False)
    if isinstance(data, pa.StructArray):
        return pa.RecordBatch.from_struct_array(data)
    if isinstance(data, pa.ChunkedArray) and pa.types.is_struct(data.type):
        return pa.Table.from_struct_array(data)
    return data


# --------------------------------------------------------------------------------- matching columns


@dataclass(frozen=True)
class _Layout:
    """Where each table column lies in the input: `indices[i]` for column i, None if absent."""

    schema: TableSchema
    indices: tuple[int | None, ...]
    kind_index: int | None


def _match(source: pa.Schema, schema: TableSchema, columns: Sequence[str] | None) -> _Layout:
    given = {name: index for index, name in enumerate(source.names)}
    _check_names(source.names, schema, columns)
    for column in schema.columns:
        if column.name in given:
            arrow = source.field(given[column.name]).type
            casting.check_castable(arrow, Place(column.name, column.type, None))
    indices = tuple(given.get(name) for name in schema.column_names)
    return _Layout(schema, indices, given.get(ROW_KIND_COLUMN))


def _check_names(names: list[str], schema: TableSchema, columns: Sequence[str] | None) -> None:
    targets = schema.column_names if columns is None else check_targets(columns, schema)
    for position, name in enumerate(names):
        if name in names[:position]:
            raise SchemaMismatchError(f"column {name!r} appears twice in the data")
        if name not in targets and name != ROW_KIND_COLUMN:
            raise SchemaMismatchError(unknown_name("column", name, targets))
    required = schema.primary_key if columns is None else targets
    missing = [name for name in required if name not in names]
    if missing:
        what = "primary key" if missing[0] in schema.primary_key else "target"
        raise SchemaMismatchError(f"{what} column {missing[0]!r} is missing from the data")


def check_targets(columns: Any, schema: TableSchema) -> tuple[str, ...]:
    """The target columns, each of the table and once, the whole key among them."""
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise SchemaMismatchError(
            f"columns = {columns!r}: pass a list of names, such as ['k', 'v']"
        )
    targets = tuple(columns)
    for position, name in enumerate(targets):
        schema.column(name)
        if name in targets[:position]:
            raise SchemaMismatchError(f"target column {name!r} is listed twice")
    missing = [name for name in schema.primary_key if name not in targets]
    if missing:
        raise SchemaMismatchError(
            f"target columns {list(targets)} leave out primary key column {missing[0]!r}"
        )
    return targets


def _require_not_null_columns(layout: _Layout) -> None:
    for column, index in zip(layout.schema.columns, layout.indices, strict=True):
        if index is None and not column.nullable:
            raise SchemaMismatchError(
                f"column {column.name!r} ({column.type} NOT NULL) is missing from the data"
            )


# ------------------------------------------------------------------------------------------ batches


@dataclass(frozen=True)
class _KindSource:
    """Where row kinds come from if there is no `_row_kind` column, or in spite of it."""

    default: RowKind
    field_index: int | None


def _normalised(
    batches: Iterable[pa.RecordBatch], layout: _Layout, kind_source: _KindSource
) -> Iterator[tuple[pa.RecordBatch, Kinds]]:
    first_row = 0
    for batch in _read(batches):
        _validate(batch)
        arrays = _cast_columns(batch, layout, first_row)
        kinds = _row_kinds(batch, arrays, layout, kind_source, first_row)
        _check_nulls(arrays, kinds, layout.schema, first_row)
        _check_limits(arrays, layout.schema, first_row)
        yield pa.RecordBatch.from_arrays(arrays, schema=layout.schema.row_schema), kinds
        first_row += batch.num_rows


def _read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    iterator = iter(batches)
    while True:
        try:
            batch = next(iterator, None)
        except pa.ArrowException as error:
            raise _unreadable(error) from error
        if batch is None:
            return
        # A batch of any size is taken in portions, so that casts and buffers stay small beside the budget.
        step = _portion_rows(batch)
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, step)


def _portion_rows(batch: pa.RecordBatch) -> int:
    try:
        size = int(batch.nbytes)
    except pa.ArrowException:  # offsets that lead nowhere: validation will say so
        size = 0
    affordable: int = MAX_BATCH_BYTES * batch.num_rows // max(1, size)
    return max(1, min(MAX_BATCH_ROWS, affordable))


def _validate(batch: pa.RecordBatch) -> None:
    """Check every buffer: foreign offsets, indices and text are not trusted by later kernels."""
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        try:
            array.validate(full=True)
        except pa.ArrowException as error:
            raise SchemaMismatchError(
                f"column {name!r}: the Arrow data is malformed: {error}; accepted: valid Arrow"
            ) from error


def _cast_columns(batch: pa.RecordBatch, layout: _Layout, first_row: int) -> list[pa.Array]:
    return [
        pa.nulls(batch.num_rows, layout.schema.row_schema.field(position).type)
        if index is None
        else casting.cast(batch.column(index), Place(column.name, column.type, first_row))
        for position, (column, index) in enumerate(
            zip(layout.schema.columns, layout.indices, strict=True)
        )
    ]


def _row_kinds(
    batch: pa.RecordBatch,
    arrays: list[pa.Array],
    layout: _Layout,
    source: _KindSource,
    first_row: int,
) -> Kinds:
    if source.field_index is not None:
        name = layout.schema.columns[source.field_index].name
        return _kind_codes(arrays[source.field_index], name, first_row)
    if layout.kind_index is not None:
        return _kind_codes(batch.column(layout.kind_index), ROW_KIND_COLUMN, first_row)
    if source.default is RowKind.INSERT:
        return None
    return pa.repeat(pa.scalar(int(source.default), pa.int8()), batch.num_rows)


_TEXT_OR_NULL = (pa.string(), pa.large_string(), pa.string_view(), pa.null())


def _kind_codes(array: pa.Array, name: str, first_row: int) -> Kinds:
    """Codes of kinds given as text or as codes; null and anything unknown is refused."""
    import pyarrow.compute as pc

    given = casting.decoded(array)
    if pa.types.is_integer(given.type):
        codes = pc.index_in(given, value_set=pa.array(list(RowKind), given.type))
    elif given.type in _TEXT_OR_NULL:
        symbols = pa.array([SYMBOLS[kind] for kind in RowKind])
        codes = pc.index_in(given.cast(pa.string()), value_set=symbols)
    else:
        raise _bad_kind(name, f"data is {array.type}")
    if codes.null_count:
        row = codes.is_null().index(True).as_py()
        number = first_row + row
        raise _bad_kind(name, f"value {casting.shown(given[row])} at row {number}", number)
    inserts_only = pc.max(codes).as_py() == RowKind.INSERT
    return None if inserts_only else codes.cast(pa.int8())


def _bad_kind(name: str, found: str, row: int | None = None) -> SchemaMismatchError:
    accepted = ", ".join(f"{symbol} ({kind:d})" for kind, symbol in SYMBOLS.items())
    return SchemaMismatchError(f"row kind column {name!r}: {found}; accepted: {accepted}", row)


# -------------------------------------------------------------------------------------------- nulls


def _check_nulls(arrays: list[pa.Array], kinds: Kinds, schema: TableSchema, first_row: int) -> None:
    for column, array in zip(schema.columns, arrays, strict=True):
        if column.nullable or not array.null_count:
            continue
        in_key = column.name in schema.primary_key
        row = _first_null(array, None if in_key else kinds)
        if row is not None:
            raise _null_refused(column, first_row + row, in_key=in_key)


def _first_null(array: pa.Array, kinds: Kinds) -> int | None:
    """The first null, of the added rows only where kinds are given."""
    import pyarrow.compute as pc

    if kinds is None:
        return casting.first_true(array.is_null())
    adds = pc.equal(pc.bit_wise_and(kinds, pa.scalar(1, pa.int8())), 0)
    return casting.first_true(pc.and_(array.is_null(), adds))


def _null_refused(column: Column, row: int, *, in_key: bool) -> SchemaMismatchError:
    what = "primary key column" if in_key else "column"
    return SchemaMismatchError(
        f"{what} {column.name!r} ({column.type} NOT NULL): value null at row {row}; "
        "accepted: values that are not null",
        row,
    )


# ------------------------------------------------------------------------------------------- limits


_UNBOUNDED_KINDS = frozenset({"CHAR", "VARCHAR", "STRING", "VARBINARY", "BYTES"})


def _check_limits(arrays: list[pa.Array], schema: TableSchema, first_row: int) -> None:
    for column, array in zip(schema.columns, arrays, strict=True):
        if column.name in schema.primary_key and column.type.kind in _UNBOUNDED_KINDS:
            _check_key_length(column, array, first_row)
        if array.type == pa.timestamp("s") or array.type == pa.timestamp("s", "UTC"):
            _check_seconds(column, array, first_row)


def _check_key_length(column: Column, array: pa.Array, first_row: int) -> None:
    """A key is kept in every block's index, so it must be short beside a block."""
    import pyarrow.compute as pc

    row = casting.first_true(pc.greater(pc.binary_length(array), MAX_KEY_BYTES))
    if row is not None:
        raise SchemaMismatchError(
            f"primary key column {column.name!r} ({column.type}): {len(array[row].as_buffer())} bytes "
            f"at row {first_row + row}; accepted: at most {MAX_KEY_BYTES}",
            first_row + row,
        )


def _check_seconds(column: Column, array: pa.Array, first_row: int) -> None:
    """Parquet has no timestamps in seconds, so they must fit as milliseconds."""
    import pyarrow.compute as pc

    limit = pa.scalar((2**63 - 1) // 1000, pa.int64())
    row = casting.first_true(pc.greater(pc.abs(array.view(pa.int64())), limit))
    if row is not None:
        raise SchemaMismatchError(
            f"column {column.name!r} ({column.type}): {array[row].value} s since 1970 at row "
            f"{first_row + row}; accepted: at most {limit}",
            first_row + row,
        )
