"""The table that a DataFrame is written to: opened, or made for it; and the check that its rows fit.

Everything here runs on the driver, before any task starts.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, overload

from pyspark.sql.types import StructType

from lsmerge import (
    Table,
    TableExistsError,
    TableNotFoundError,
    create_table,
    open_table,
)
from lsmerge.spark.options import spelled, with_column_names
from lsmerge.spark.types_in import ROW_KIND, arriving_schema, table_schema


@dataclass(frozen=True, slots=True)
class Definition:
    """What a writer says of the table, for the case that it must be made."""

    primary_key: Sequence[str] | None
    partition_by: Sequence[str] | None
    options: dict[str, str]

    def spelled(self, columns: Sequence[str]) -> dict[str, Any]:
        """What create_table and check_definition take, with names as `columns` spell them."""
        lists = {"primary_key": self.primary_key, "partition_by": self.partition_by}
        named = {
            what: spelled(names, columns) for what, names in lists.items() if names is not None
        }
        return {**named, "options": with_column_names(self.options, columns)}


def open_or_create(
    uri: str, storage_options: dict[str, str], schema: StructType, definition: Definition
) -> Table:
    """The table at `uri`, which has what the definition says; made if there is none and the key is known."""
    try:
        return _open(uri, storage_options, schema, definition)
    except TableNotFoundError as error:
        if definition.primary_key is None:
            raise TableNotFoundError(
                f"{uri} holds no table; to make one of these columns give its key: "
                ".option('primary-key', 'id')"
            ) from error
    with suppress(TableExistsError):  # somebody else has just made it: it must fit like any other
        return create_table(
            uri,
            table_schema(schema),
            storage_options=storage_options,
            **definition.spelled(schema.names),
        )
    return _open(uri, storage_options, schema, definition)


def _open(
    uri: str, storage_options: dict[str, str], schema: StructType, definition: Definition
) -> Table:
    table = open_table(uri, storage_options=storage_options)
    table.check_definition(**definition.spelled([*schema.names, *table.schema.names]))
    return table


def check_rows(table: Table, schema: StructType, columns: Sequence[str] | None, **how: Any) -> None:
    """Refuse columns that the table does not have, or whose values it could not hold; `how` is as for task_writer."""
    arriving = arriving_schema(schema)
    with table.task_writer(as_in_table(table, columns), **how) as task:
        task.write(arriving.empty_table().rename_columns(as_in_table(table, arriving.names)))


@overload
def as_in_table(table: Table, names: Sequence[str]) -> list[str]: ...
@overload
def as_in_table(table: Table, names: None) -> None: ...
def as_in_table(table: Table, names: Sequence[str] | None) -> list[str] | None:
    """Names of columns as the table spells them."""
    return None if names is None else spelled(names, [*table.schema.names, ROW_KIND])
