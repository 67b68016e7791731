"""Tables side by side in one place: which there are, and the end of one.

A table exists exactly when its schema 0 does. That file goes last, so a drop that was interrupted leaves what can be
dropped again, never files that belong to nothing.
"""

from lsmerge.errors import StorageError, TableNotFoundError
from lsmerge.storage import layout
from lsmerge.storage.object_store import ObjectStore

_FIRST_SCHEMA = "/" + layout.schema_path(0)


def table_names(store: ObjectStore) -> list[str]:
    """The names of the tables directly below a location, sorted."""
    try:
        listed = list(store.list(""))
    except StorageError as error:
        if isinstance(error.__cause__, NotADirectoryError):
            reason = "it is a file, or lies below one; name a directory"
            raise StorageError(store.uri, "list tables in", reason) from error
        raise
    found = (info.path.removesuffix(_FIRST_SCHEMA) for info in listed if _is_first(info.path))
    return sorted(name for name in found if "/" not in name)


def drop(store: ObjectStore) -> None:
    """Delete every object of a table, and its directories. Requires: nobody reads or writes it."""
    first = layout.schema_path(0)
    if not store.exists(first):
        raise TableNotFoundError(f"{store.uri} is not a table: it has no {first}")
    paths = [info.path for info in (*store.list_unfinished(""), *store.list(""))]
    for path in paths:
        if path != first:
            store.delete(path)
    store.delete(first, durable=True)
    store.remove_empty_directories()


def _is_first(path: str) -> bool:
    return path.endswith(_FIRST_SCHEMA)
