"""System tables: what a table knows of itself, as `t$snapshots`, `t$files` and so on.

Columns have the names that users of Paimon know where they mean the same.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from lsmerge import Table

_MOMENT = pa.timestamp("ms", "UTC")
_KIND = pa.field("_row_kind", pa.string())
_ORIGIN = (pa.field("_snapshot_id", pa.int64()), pa.field("_commit_timestamp", _MOMENT))


@dataclass(frozen=True, slots=True)
class SystemTable:
    """Rows that are made when they are read."""

    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]


def system_table(table: Table, name: str) -> SystemTable | None:
    """The system table of that name; None if there is none such."""
    make = _TABLES.get(name.lower())
    return None if make is None else make(table)


def names() -> list[str]:
    """The system tables that every table has."""
    return sorted(_TABLES)


def _listed(
    schema: pa.Schema, rows: Callable[[Table], list[dict[str, Any]]]
) -> Callable[[Table], SystemTable]:
    """A system table whose rows are few and made at once."""

    def make(table: Table) -> SystemTable:
        def batches() -> Iterator[pa.RecordBatch]:
            yield pa.RecordBatch.from_pylist(rows(table), schema=schema)

        return SystemTable(schema, batches)

    return make


def _snapshots(table: Table) -> list[dict[str, Any]]:
    return [
        {
            "snapshot_id": entry.id,
            "schema_id": entry.schema_id,
            "commit_user": entry.commit_user,
            "commit_identifier": entry.commit_id,
            "commit_kind": entry.kind.value.upper(),
            "commit_time": entry.time,
            "delta_record_count": entry.rows_added,
            "added_file_count": entry.files_added,
            "removed_file_count": entry.files_removed,
        }
        for entry in table.history()
    ]


def _files(table: Table) -> list[dict[str, Any]]:
    return [
        {
            "partition": _named_values(file.partition),
            "bucket": file.bucket,
            "file_path": file.path,
            "file_format": file.format,
            "schema_id": file.schema_id,
            "level": file.level,
            "run": file.run,
            "record_count": file.rows,
            "delete_record_count": file.deletes,
            "file_size_in_bytes": file.size_bytes,
            "min_key": _named_values(file.min_key),
            "max_key": _named_values(file.max_key),
            "min_sequence_number": file.sequence_min,
            "max_sequence_number": file.sequence_max,
            "creation_time": file.created,
        }
        for file in table.files()
    ]


def _schemas(table: Table) -> list[dict[str, Any]]:
    return [
        {
            "schema_id": schema.id,
            "fields": json.dumps([column.to_json() for column in schema.columns]),
            "partition_keys": json.dumps(list(schema.partition_by)),
            "primary_keys": json.dumps(list(schema.primary_key)),
            "options": json.dumps(dict(schema.options)),
        }
        for schema in table.schemas()
    ]


def _options(table: Table) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in sorted(table.options.items())]


def _tags(table: Table) -> list[dict[str, Any]]:
    return [
        {
            "tag_name": tag.name,
            "snapshot_id": tag.snapshot.id,
            "schema_id": tag.snapshot.schema_id,
            "commit_time": _moment(tag.snapshot.timestamp_ms),
            "create_time": _moment(tag.created_ms),
            "expire_time": None if tag.expires_ms is None else _moment(tag.expires_ms),
        }
        for tag in table.tags().values()
    ]


def _partitions(table: Table) -> list[dict[str, Any]]:
    return [
        {
            "partition": _named_values(partition.values),
            "record_count": partition.rows,
            "file_size_in_bytes": partition.size_bytes,
            "file_count": partition.files,
            "bucket_count": partition.buckets,
        }
        for partition in table.partitions()
    ]


def _buckets(table: Table) -> list[dict[str, Any]]:
    return [
        {
            "partition": _named_values(dict(bucket.partition)),
            "bucket": bucket.bucket,
            "record_count": bucket.rows,
            "file_size_in_bytes": bucket.size_bytes,
            "file_count": bucket.files,
            "run_count": len(bucket.runs),
        }
        for bucket in table.stats().buckets
    ]


def _consumers(table: Table) -> list[dict[str, Any]]:
    return [
        {"consumer_id": name, "next_snapshot_id": place}
        for name, place in sorted(table.consumers().items())
    ]


def _changelog(table: Table) -> SystemTable:
    """The changes of all snapshots there are, in commit order, as `Table.changelog` gives them."""
    return _changes(table, pa.schema([_KIND, *table.schema, *_ORIGIN]), {})


def _audit_log(table: Table) -> SystemTable:
    """The same with the columns that Paimon shows."""
    rowkind = _KIND.with_name("rowkind")
    return _changes(table, pa.schema([rowkind, *table.schema]), {"rowkind": _KIND.name})


def _changes(table: Table, columns: pa.Schema, renamed: dict[str, str]) -> SystemTable:
    # A delete may hold nulls where the table has none.
    schema = pa.schema([field.with_nullable(True) for field in columns])

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in table.changelog("earliest"):
            arrays = [batch[renamed.get(name, name)] for name in schema.names]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return SystemTable(schema, batches)


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _named_values(values: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{name}={value}" for name, value in values.items()) + "}"


_INT, _TEXT = pa.int64(), pa.string()
_TABLES: dict[str, Callable[[Table], SystemTable]] = {
    "snapshots": _listed(
        pa.schema(
            {
                "snapshot_id": _INT,
                "schema_id": _INT,
                "commit_user": _TEXT,
                "commit_identifier": _INT,
                "commit_kind": _TEXT,
                "commit_time": _MOMENT,
                "delta_record_count": _INT,
                "added_file_count": _INT,
                "removed_file_count": _INT,
            }
        ),
        _snapshots,
    ),
    "files": _listed(
        pa.schema(
            {
                "partition": _TEXT,
                "bucket": _INT,
                "file_path": _TEXT,
                "file_format": _TEXT,
                "schema_id": _INT,
                "level": _INT,
                "run": _INT,
                "record_count": _INT,
                "delete_record_count": _INT,
                "file_size_in_bytes": _INT,
                "min_key": _TEXT,
                "max_key": _TEXT,
                "min_sequence_number": _INT,
                "max_sequence_number": _INT,
                "creation_time": _MOMENT,
            }
        ),
        _files,
    ),
    "schemas": _listed(
        pa.schema(
            {
                "schema_id": _INT,
                "fields": _TEXT,
                "partition_keys": _TEXT,
                "primary_keys": _TEXT,
                "options": _TEXT,
            }
        ),
        _schemas,
    ),
    "options": _listed(pa.schema({"key": _TEXT, "value": _TEXT}), _options),
    "tags": _listed(
        pa.schema(
            {
                "tag_name": _TEXT,
                "snapshot_id": _INT,
                "schema_id": _INT,
                "commit_time": _MOMENT,
                "create_time": _MOMENT,
                "expire_time": _MOMENT,
            }
        ),
        _tags,
    ),
    "partitions": _listed(
        pa.schema(
            {
                "partition": _TEXT,
                "record_count": _INT,
                "file_size_in_bytes": _INT,
                "file_count": _INT,
                "bucket_count": _INT,
            }
        ),
        _partitions,
    ),
    "buckets": _listed(
        pa.schema(
            {
                "partition": _TEXT,
                "bucket": _INT,
                "record_count": _INT,
                "file_size_in_bytes": _INT,
                "file_count": _INT,
                "run_count": _INT,
            }
        ),
        _buckets,
    ),
    "consumers": _listed(pa.schema({"consumer_id": _TEXT, "next_snapshot_id": _INT}), _consumers),
    "changelog": _changelog,
    "audit_log": _audit_log,
}
