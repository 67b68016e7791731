"""SQL as users of Paimon, Fluss and Hudi write it: sqlglot reads it, DuckDB evaluates what is computed.

    text -> statements -> words or a syntax tree -> tables, scans, writers of lsmerge -> Arrow

Uses public names of lsmerge only. The packages of the extra `sql` are imported with the first name that needs them.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lsmerge.statements.result import Result
    from lsmerge.statements.session import Session

__all__ = ["Result", "Session", "sql"]

DEFAULT_WAREHOUSE = "memory://warehouse"

_HOMES = {"Result": "result", "Session": "session"}
_NEEDED = ("duckdb", "sqlglot")


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lsmerge.statements' has no attribute {name!r}")
    try:
        return getattr(import_module(f"lsmerge.statements.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in _NEEDED:
            raise
        message = f"SQL needs {error.name}: pip install 'lsmerge[sql]'"
        raise ModuleNotFoundError(message, name=error.name) from error


def sql(
    text: str,
    *,
    warehouse: Any = DEFAULT_WAREHOUSE,
    storage_options: Mapping[str, str] | None = None,
) -> "Result":
    """Run SQL as users of Paimon, Fluss and Hudi write it; the result is that of the last statement.

    Tables lie side by side in `warehouse`, a directory or any place that `create_table` takes; by default in memory, to
    try things out. A `lsmerge.statements.Session` keeps tables open and settings made by SET. Needs the extra `sql`.

    >>> import lsmerge
    >>> _ = lsmerge.sql("CREATE TABLE hello (k INT PRIMARY KEY NOT ENFORCED, v STRING)")
    >>> _ = lsmerge.sql("INSERT INTO hello VALUES (1, 'a'), (2, 'b')")
    >>> lsmerge.sql("SELECT v FROM hello WHERE k = 2").to_pylist()
    [{'v': 'b'}]
    """
    session: Session = __getattr__("Session")(warehouse, storage_options=storage_options)
    return session.sql(text)
