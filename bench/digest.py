"""A digest of rows that does not depend on their order, chunking or string width.

Two results with equal digests hold the same rows: the count, and per column the CRC-32 of its
values laid out in key order.
"""

import zlib
from typing import TypedDict

import pyarrow as pa


class Digest(TypedDict):
    rows: int
    columns: dict[str, int]


def digest(rows: pa.Table, schema: pa.Schema | None = None) -> Digest:
    """Digests rows whose first column is the key; `schema` is the one to compare under."""
    schema = schema or rows.schema
    key = schema.names[0]
    ordered = rows.select(schema.names).cast(schema).sort_by(key).combine_chunks()
    columns = {name: _column_crc(ordered[name]) for name in schema.names}
    return {"rows": ordered.num_rows, "columns": columns}


def _column_crc(column: pa.ChunkedArray) -> int:
    """CRC over the value buffers. A column with nulls cannot be equal to one of the workload."""
    if column.null_count:
        return -1
    # A fresh copy has offset zero and no slack, so that equal values are equal bytes.
    array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    crc = 0
    for buffer in array.buffers()[1:]:
        crc = zlib.crc32(buffer or b"", crc)
    return crc
