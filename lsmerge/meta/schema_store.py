"""The schema files of a table. A table exists exactly when its schema 0 does."""

from lsmerge.errors import (
    CorruptFileError,
    ObjectExistsError,
    ObjectNotFoundError,
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
)
from lsmerge.schema import TableSchema
from lsmerge.storage import checked_json, layout
from lsmerge.storage.object_store import ObjectStore

_OWN_DIRS = tuple(
    f"{name}/" for name in (layout.SCHEMA_DIR, layout.SNAPSHOT_DIR, layout.MANIFEST_DIR)
)


def create_schema(store: ObjectStore, schema: TableSchema) -> None:
    """Publish the first schema of a new table, if no other creator was faster."""
    path = layout.schema_path(schema.id)
    if not store.exists(path):
        _check_empty(store)
    try:
        store.put(path, checked_json.dump(schema.to_json()))
    except ObjectExistsError:
        raise TableExistsError(
            f"{store.uri} already holds a table; open it with open_table, or pass exist_ok=True"
        ) from None


def _check_empty(store: ObjectStore) -> None:
    # A creator that loses a race may meet the winner's files here; anything else is somebody else's.
    for info in store.list(""):
        if not info.path.startswith(_OWN_DIRS):
            raise TableExistsError(
                f"{store.uri} is not empty: it holds {info.path!r}; create the table somewhere else"
            )


def latest_schema(store: ObjectStore) -> TableSchema:
    """The newest schema of the table at this store."""
    number = 0
    while store.exists(layout.schema_path(number + 1)):
        number += 1
    return read_schema(store, number)


def read_schema(store: ObjectStore, schema_id: int) -> TableSchema:
    """One schema by id."""
    path = layout.schema_path(schema_id)
    try:
        content = checked_json.load(path, store.get(path))
    except ObjectNotFoundError:
        raise TableNotFoundError(
            f"{store.uri} is not a table: it has no {path}; create one with create_table"
        ) from None
    try:
        schema = TableSchema.from_json(content)
    except (SchemaMismatchError, ValueError) as error:
        raise CorruptFileError(path, f"not a schema: {error}") from error
    if schema.id != schema_id:
        raise CorruptFileError(path, f"holds schema {schema.id}")
    return schema
