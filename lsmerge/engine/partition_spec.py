"""Partitions as users name them: from `{"day": "2024-01-31"}` to a test on partitions.

A spec may leave partition columns out; it then names every partition that has the given values. Values are taken as
filters take them: a date may be given as text, a decimal as a number. None is the partition of nulls.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from lsmerge.engine.buckets import partition_text
from lsmerge.engine.cast_policy import accepted_for
from lsmerge.errors import InvalidFilterError, SchemaMismatchError
from lsmerge.literal import place
from lsmerge.meta.data_file import Partition
from lsmerge.schema import TableSchema, unknown_name


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """One or several sets of partition values, each as (position of the column, text of the value)."""

    columns: tuple[str, ...]
    alternatives: tuple[tuple[tuple[int, str | None], ...], ...]

    @classmethod
    def parse(cls, schema: TableSchema, given: Any) -> Self:
        """A mapping from partition columns to values, or a list of them, checked against the schema."""
        specs = [given] if isinstance(given, Mapping) else given
        if not isinstance(specs, list | tuple) or not specs:
            raise SchemaMismatchError(
                f"partition = {given!r}: pass a mapping from partition columns to values, or a list of such"
            )
        return cls(schema.partition_by, tuple(_values(schema, spec) for spec in specs))

    def matches(self, partition: Partition) -> bool:
        """Whether the spec names a partition."""
        return any(
            all(partition[position] == text for position, text in values)
            for values in self.alternatives
        )

    def __str__(self) -> str:
        return " or ".join(
            ", ".join(f"{self.columns[position]}={text!r}" for position, text in values)
            for values in self.alternatives
        )


def select(schema: TableSchema, given: Any, partitions: Sequence[Partition]) -> list[Partition]:
    """The partitions that a user names; None names all."""
    if given is None:
        return list(partitions)
    spec = PartitionSpec.parse(schema, given)
    return [partition for partition in partitions if spec.matches(partition)]


def _values(schema: TableSchema, spec: Any) -> tuple[tuple[int, str | None], ...]:
    if not isinstance(spec, Mapping) or not spec:
        raise SchemaMismatchError(
            f"partition = {spec!r}: name at least one partition column and its value"
        )
    if not schema.partition_by:
        raise SchemaMismatchError(f"partition = {spec!r}: the table has no partition columns")
    return tuple((_position(schema, name), _text(schema, name, spec[name])) for name in spec)


def _position(schema: TableSchema, name: Any) -> int:
    if name not in schema.partition_by:
        raise SchemaMismatchError(unknown_name("partition column", name, schema.partition_by))
    return schema.partition_by.index(name)


def _text(schema: TableSchema, name: str, value: Any) -> str | None:
    """The text that rows with this value have in the column."""
    column = schema.column(name)
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if value is None:
        return None
    if (
        isinstance(value, float) and value != value
    ):  # no filter compares with it, yet rows may have it
        return _stored_text(schema, name, value)
    try:
        placed = place(column, value)
    except InvalidFilterError:
        placed = None
    if placed is None or placed.side != 0:
        raise SchemaMismatchError(
            f"partition column {name!r} ({column.type}): {str(value)[:80]!r} ({type(value).__name__}) is not "
            f"one of its values; accepted: {accepted_for(column.type)}"
        )
    return _stored_text(schema, name, placed.value)


def _stored_text(schema: TableSchema, name: str, value: Any) -> str | None:
    return partition_text(pa.array([value], schema.row_schema.field(name).type))[0]
