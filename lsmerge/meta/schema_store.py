"""The schema files of a table. A table exists exactly when its schema 0 does."""

from collections.abc import Iterator
from contextlib import contextmanager

from lsmerge.errors import (
    CorruptFileError,
    LsmergeError,
    ObjectExistsError,
    ObjectNotFoundError,
    SchemaMismatchError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
)
from lsmerge.failpoints import failpoint
from lsmerge.schema import TableSchema
from lsmerge.storage import checked_json, layout
from lsmerge.storage.object_store import ObjectStore


def create_schema(store: ObjectStore, schema: TableSchema) -> bool:
    """Publish the first schema of a new table: False if a table is there already, or another creator was faster.

    TableExistsError if something else is in the way.
    """
    with _naming_a_file(store, TableExistsError):
        if not _is_free(store):
            return False
    try:
        _put(store, schema)
    except ObjectExistsError:
        return False
    return True


def _is_free(store: ObjectStore) -> bool:
    if _table_exists(store):
        return False
    found = next(iter(store.list("")), None)
    if found is None:
        return True
    # Another creator's schema is there before any other file of its table, so what is listed while there is
    # none belongs to no table, or is left of one.
    if _table_exists(store):
        return False
    raise TableExistsError(
        f"{store.uri} is not a table and not empty: it holds {found.path!r}; "
        "choose another place, or clear this one"
    )


def _table_exists(store: ObjectStore) -> bool:
    return store.exists(layout.schema_path(0))


def latest_schema(store: ObjectStore) -> TableSchema:
    """The newest schema of the table at this store."""
    with _naming_a_file(store, TableNotFoundError):
        number = latest_schema_id(store)
    try:
        return read_schema(store, number)
    except ObjectNotFoundError as error:
        raise TableNotFoundError(
            f"{store.uri} is not a table: it has no {error.path}; create one with create_table"
        ) from None


def publish_schema(store: ObjectStore, schema: TableSchema) -> bool:
    """Publish the next schema of a table: False if another one took its number."""
    try:
        _put(store, schema)
    except ObjectExistsError:
        # A retry inside the store may have met its own first attempt.
        return read_schema(store, schema.id) == schema
    return True


def _put(store: ObjectStore, schema: TableSchema) -> None:
    failpoint("schema.before-publish")
    store.put(layout.schema_path(schema.id), checked_json.dump(schema.to_json()))
    failpoint("schema.after-publish")


def has_schema(store: ObjectStore, schema_id: int) -> bool:
    """Whether there is a schema of that number."""
    return store.exists(layout.schema_path(schema_id))


def latest_schema_id(store: ObjectStore) -> int:
    """The number of the newest schema, 0 where there is none at all."""
    number = 0
    while has_schema(store, number + 1):
        number += 1
    return number


def read_schema(store: ObjectStore, schema_id: int) -> TableSchema:
    """One schema by id; ObjectNotFoundError if its file is not there."""
    path = layout.schema_path(schema_id)
    content = checked_json.load(path, store.get(path))
    try:
        schema = TableSchema.from_json(content)
    except (SchemaMismatchError, ValueError) as error:
        raise CorruptFileError(path, f"not a schema: {error}") from error
    if schema.id != schema_id:
        raise CorruptFileError(path, f"holds schema {schema.id}")
    return schema


@contextmanager
def _naming_a_file(store: ObjectStore, refusal: type[LsmergeError]) -> Iterator[None]:
    """Turn the failure of a store whose root is a file into a `refusal` that says so."""
    try:
        yield
    except StorageError:
        if _is_file(store):
            raise refusal(
                f"{store.uri} is not a table: it is a file, or lies below one; name a directory"
            ) from None
        raise


def _is_file(store: ObjectStore) -> bool:
    # Listing opens the root and nothing below it, so a link or file inside a table is not taken for this.
    try:
        next(iter(store.list("")), None)
    except StorageError as error:
        return isinstance(error.__cause__, NotADirectoryError)
    return False
