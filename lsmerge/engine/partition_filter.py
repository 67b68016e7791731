"""Which buckets belong to the partition that a user names by column and value."""

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from lsmerge.engine.buckets import partition_text
from lsmerge.errors import SchemaMismatchError
from lsmerge.meta.data_file import BucketId
from lsmerge.schema import TableSchema


def in_partition(
    schema: TableSchema, partition: Mapping[str, Any] | None
) -> Callable[[BucketId], bool]:
    """Whether a bucket lies in `partition`; columns left out may have any value, None is everything."""
    wanted = _texts(schema, {} if partition is None else partition)
    positions = {schema.partition_by.index(name): text for name, text in wanted.items()}
    return lambda place: all(place.partition[i] == text for i, text in positions.items())


def _texts(schema: TableSchema, partition: Mapping[str, Any]) -> dict[str, str | None]:
    if not isinstance(partition, Mapping):
        raise SchemaMismatchError(
            f"partition = {partition!r}: pass a mapping from partition columns to values"
        )
    for name in partition:
        if name not in schema.partition_by:
            columns = ", ".join(schema.partition_by) or "none"
            raise SchemaMismatchError(
                f"partition column {name!r} does not exist; the table's partition columns: {columns}"
            )
    return {name: _text(schema, name, value) for name, value in partition.items()}


def _text(schema: TableSchema, name: str, value: Any) -> str | None:
    type_ = schema.row_schema.field(name).type
    try:
        array = pa.array([value], type_)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise SchemaMismatchError(
            f"partition column {name!r} = {value!r}: not a value of type {type_}"
        ) from error
    return partition_text(array)[0]
