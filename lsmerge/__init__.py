"""lsmerge: an embedded LSM table store for keyed data.

>>> import lsmerge, pyarrow as pa
>>> schema = pa.schema({"id": pa.int64(), "name": pa.string()})
>>> t = lsmerge.create_table("memory://hello", schema, primary_key="id")
>>> snapshot = t.upsert([{"id": 1, "name": "ada"}, {"id": 2, "name": "bob"}])
>>> snapshot = t.upsert([{"id": 2, "name": "bea"}])
>>> t.scan().to_arrow().to_pylist()
[{'id': 1, 'name': 'ada'}, {'id': 2, 'name': 'bea'}]
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING

from lsmerge.errors import (
    ChangelogBrokenError,
    CommitConflictError,
    CommitUnknownError,
    CorruptFileError,
    InvalidFilterError,
    InvalidOptionError,
    InvalidStatementError,
    LsmergeError,
    MergeValueError,
    NotRegisteredError,
    SchemaMismatchError,
    SnapshotExpiredError,
    SnapshotNotFoundError,
    StorageError,
    TableClosedError,
    TableExistsError,
    TableNotFoundError,
    TagExistsError,
    UnsupportedFormatError,
)

if TYPE_CHECKING:
    from lsmerge.envelope import debezium
    from lsmerge.mergers import register_merger
    from lsmerge.schema import arrow_field
    from lsmerge.statements import sql
    from lsmerge.table import Table, create_table, drop_table, list_tables, open_table
    from lsmerge.user_functions import register_function
else:
    # Loaded when first asked for: a program that only may need tables does not pay for the engine.
    _HOMES = {
        "Table": "table",
        "arrow_field": "schema",
        "create_table": "table",
        "debezium": "envelope",
        "drop_table": "table",
        "list_tables": "table",
        "open_table": "table",
        "register_function": "user_functions",
        "register_merger": "mergers",
        "sql": "statements",
    }

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module 'lsmerge' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"lsmerge.{_HOMES[name]}"), name)
        return value

    def __dir__() -> list[str]:
        return [*globals(), *_HOMES]


# What happens on its own is logged; it is for the program to say whether and where that is shown.
logging.getLogger("lsmerge").addHandler(logging.NullHandler())

__version__ = "0.1.0"

__all__ = [
    "ChangelogBrokenError",
    "CommitConflictError",
    "CommitUnknownError",
    "CorruptFileError",
    "InvalidFilterError",
    "InvalidOptionError",
    "InvalidStatementError",
    "LsmergeError",
    "MergeValueError",
    "NotRegisteredError",
    "SchemaMismatchError",
    "SnapshotExpiredError",
    "SnapshotNotFoundError",
    "StorageError",
    "Table",
    "TableClosedError",
    "TableExistsError",
    "TableNotFoundError",
    "TagExistsError",
    "UnsupportedFormatError",
    "arrow_field",
    "create_table",
    "debezium",
    "drop_table",
    "list_tables",
    "open_table",
    "register_function",
    "register_merger",
    "sql",
]
