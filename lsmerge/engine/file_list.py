"""The data files of a snapshot as values: where each lies in its tree, how large it is, which keys it covers."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lsmerge.engine.context import TableContext
from lsmerge.engine.key_values import key_columns
from lsmerge.engine.partitions import partition_values
from lsmerge.engine.schema_views import reading
from lsmerge.merge.user_code import python_values
from lsmerge.meta.data_file import BucketId, DataFile
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.version import SortedRun


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One data file; `path` is relative to the table.

    Files of a bucket with the same `run` have no key in common; runs count from 0, the newest. `rows` counts stored
    rows, older ones of a key and `retracts` among them. `min_key` and `max_key` hold the key columns outside the
    partition. `created` is when the file was written, before the commit that it came with.
    """

    path: str
    partition: dict[str, Any]
    bucket: int
    level: int
    run: int
    rows: int
    retracts: int
    size_bytes: int
    min_key: dict[str, Any]
    max_key: dict[str, Any]
    schema_id: int
    created: datetime


def files(context: TableContext, snapshot: Snapshot | None) -> list[FileInfo]:
    """The files of a snapshot, bucket by bucket, newest run first and in key order within a run."""
    if snapshot is None:
        return []
    with reading(context, snapshot):
        version = context.versions.load(snapshot)
    places = version.places()
    version.preload(places)
    return [info for place in places for info in _bucket_files(context, place, version.runs(place))]


def _bucket_files(
    context: TableContext, place: BucketId, runs: Sequence[SortedRun]
) -> list[FileInfo]:
    numbered = [(number, file) for number, run in enumerate(runs) for file in run.files]
    partition = partition_values(context, place.partition)
    keys = _keys(context, [file for _, file in numbered])
    return [
        FileInfo(
            path=context.file_path(file),
            partition=partition,
            bucket=place.bucket,
            level=file.level,
            run=number,
            rows=file.run.num_rows,
            retracts=file.run.num_retracts,
            size_bytes=file.run.size_bytes,
            min_key=min_key,
            max_key=max_key,
            schema_id=file.schema_id,
            created=datetime.fromtimestamp(file.created_ms / 1000, UTC),
        )
        for (number, file), (min_key, max_key) in zip(numbered, keys, strict=True)
    ]


def _keys(
    context: TableContext, listed: Sequence[DataFile]
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The smallest and the largest key of each file. Key columns never change, so any schema can read them."""
    names = context.schema.trimmed_key
    types = [context.schema.row_schema.field(name).type for name in names]
    encoded = [key for file in listed for key in (file.run.min_key, file.run.max_key)]
    columns = map(python_values, key_columns(encoded, types))
    rows = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
    return list(zip(rows[::2], rows[1::2], strict=True))
