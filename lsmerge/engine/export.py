"""Copies of a snapshot for other systems: read once, streamed out, and not part of the table any more.

Memory is that of the scan and of one row group on its way out.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lsmerge.engine.opening import Location, location_text, store_at
from lsmerge.engine.splits import target_bytes
from lsmerge.errors import (
    InvalidOptionError,
    LsmergeError,
    SchemaMismatchError,
    StorageError,
    TableExistsError,
)
from lsmerge.packages import needed
from lsmerge.storage.parquet_export import ParquetExport

DELTA_MODES = ("error", "overwrite")


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What was written: files by their paths inside the target, rows and bytes."""

    files: tuple[str, ...]
    rows: int
    size_bytes: int


def write_parquet(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    uri: Location,
    max_file_size: Any,
    storage_options: Mapping[str, str] | None,
) -> ExportReport:
    """The rows as Parquet files in a directory that holds nothing yet."""
    store = store_at(uri, storage_options)
    with ParquetExport(store, _plain(schema), target_bytes(max_file_size)) as export:
        for batch in batches:
            export.write(batch)
    return ExportReport(
        files=tuple(file.path for file in export.files),
        rows=sum(file.num_rows for file in export.files),
        size_bytes=sum(file.size_bytes for file in export.files),
    )


def write_delta(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    uri: Location,
    mode: str,
    storage_options: Mapping[str, str] | None,
) -> int:
    """The rows as one commit of a Delta table; the version that has them."""
    with needed("deltalake", "Scan.write_delta"):
        import deltalake
        from deltalake.exceptions import DeltaError
    if mode not in DELTA_MODES:
        raise InvalidOptionError(f"mode = {mode!r}: accepted: {', '.join(DELTA_MODES)}")
    _check_delta_types(schema)
    target, options = location_text(uri), dict(storage_options or {})
    if mode == "error" and deltalake.DeltaTable.is_deltatable(target, options):
        raise TableExistsError(
            f"{target} holds a Delta table already; mode='overwrite' replaces its rows and columns"
        )
    source = _Remembered(batches)
    rows = pa.RecordBatchReader.from_batches(_plain(schema), source)
    schema_mode = "overwrite" if mode == "overwrite" else None
    try:
        deltalake.write_deltalake(
            target, rows, mode=mode, schema_mode=schema_mode, storage_options=options
        )
        return int(deltalake.DeltaTable(target, storage_options=options).version())
    except DeltaError as error:
        raise source.failure or StorageError(target, "write Delta table", error) from error


class _Remembered:
    """Batches on their way through foreign code, which keeps only the text of what goes wrong with them."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = batches
        self.failure: LsmergeError | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._batches
        except LsmergeError as error:
            self.failure = error
            raise


def _check_delta_types(schema: pa.Schema) -> None:
    """Delta has no times of day, and cuts off what is finer than a microsecond."""
    for field in schema:
        if any(map(_is_lossy, _leaves(field.type))):
            raise SchemaMismatchError(
                f"column {field.name!r} of type {field.type}: Delta has no such type; scan(columns=...) without it"
            )


def _is_lossy(type_: pa.DataType) -> bool:
    return bool(pa.types.is_time(type_)) or (
        pa.types.is_timestamp(type_) and bool(type_.unit == "ns")
    )


def _leaves(type_: pa.DataType) -> Iterator[pa.DataType]:
    if type_.num_fields == 0:
        yield type_
    for number in range(type_.num_fields):
        yield from _leaves(type_.field(number).type)


def _plain(schema: pa.Schema) -> pa.Schema:
    """Without what only lsmerge reads: column ids and logical types in the metadata of fields."""
    return pa.schema([field.remove_metadata() for field in schema])
