"""SQL as users of Paimon, Fluss and Hudi write it: sqlglot reads it, DuckDB evaluates what is computed.

    text -> statements -> words or a syntax tree -> tables, scans, writers of lsmerge -> Arrow

Uses public names of lsmerge only. Needs the extra `sql`.
"""

try:
    import duckdb as _duckdb  # noqa: F401 - asked for here, so that what is missing is said in one place
    import sqlglot as _sqlglot  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"lsmerge.sql needs {error.name}; install it: pip install 'lsmerge[sql]'", name=error.name
    ) from error

from lsmerge.statements.result import Result
from lsmerge.statements.session import Session, sql

__all__ = ["Result", "Session", "sql"]
