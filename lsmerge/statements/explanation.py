"""EXPLAIN: what a query would read of each table, after all that can be left out is left out."""

from typing import Any

import pyarrow as pa

from lsmerge.statements.query import Plan, Reading
from lsmerge.statements.result import Result

_INT, _TEXT = pa.int64(), pa.string()
_COLUMNS = pa.schema(
    {
        "table": _TEXT,
        "snapshot_id": _INT,
        "columns": _TEXT,
        "filter": _TEXT,
        "files": _INT,
        "files_read": _INT,
    }
)


def explained(plan: Plan) -> Result:
    """One row for each table of the query; no row of the tables is read."""
    rows = [_row(reading) for reading in plan.readings]
    return Result(_COLUMNS, lambda: iter([pa.RecordBatch.from_pylist(rows, schema=_COLUMNS)]))


def _row(reading: Reading) -> dict[str, Any]:
    told = reading.scan.explain()
    return {
        "table": reading.table,
        "snapshot_id": told["snapshot"],
        "columns": ", ".join(reading.scan.columns),
        "filter": reading.filter,
        "files": sum(bucket["files_total"] for bucket in told["buckets"]),
        "files_read": sum(bucket["files_read"] for bucket in told["buckets"]),
    }
