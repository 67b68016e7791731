"""Arrow types under DuckDB's names, for CAST."""

import re

import pyarrow as pa

_NAMES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.date32(): "DATE",
    pa.timestamp("s"): "TIMESTAMP_S",
    pa.timestamp("ms"): "TIMESTAMP_MS",
    pa.timestamp("us"): "TIMESTAMP",
    pa.timestamp("ns"): "TIMESTAMP_NS",
    pa.time64("ns"): "TIME_NS",
}


def duckdb_type(arrow: pa.DataType) -> str:
    """The DuckDB type that holds every value of an Arrow type of a table."""
    if arrow in _NAMES:
        return _NAMES[arrow]
    if pa.types.is_decimal(arrow):
        return f"DECIMAL({arrow.precision}, {arrow.scale})"
    if pa.types.is_timestamp(arrow):
        return "TIMESTAMPTZ_NS" if arrow.unit == "ns" else "TIMESTAMPTZ"
    if pa.types.is_time(arrow):
        return "TIME"
    if pa.types.is_fixed_size_binary(arrow):
        return "BLOB"
    return _nested(arrow)


# What DuckDB calls types that users know by another name.
_USERS_NAMES = {
    "BOOL": "BOOLEAN",
    "INT8": "TINYINT",
    "INT16": "SMALLINT",
    "INT32": "INT",
    "INTEGER": "INT",
    "INT64": "BIGINT",
    "VARCHAR": "STRING",
    "BLOB": "BYTES",
}


def users_type(name: str) -> str:
    """A type of DuckDB by the names that users of Flink and Spark know."""
    return re.sub(r"\w+", lambda word: _USERS_NAMES.get(word[0], word[0]), name)


def shown_type(arrow: pa.DataType) -> str:
    """A type for messages: as users know it, or Arrow's name where tables have no such type."""
    try:
        return users_type(duckdb_type(arrow))
    except AttributeError:
        return str(arrow)


def _nested(arrow: pa.DataType) -> str:
    if pa.types.is_map(arrow):
        return f"MAP({duckdb_type(arrow.key_type)}, {duckdb_type(arrow.item_type)})"
    if pa.types.is_list(arrow):
        return f"{duckdb_type(arrow.value_type)}[]"
    fields = (arrow.field(index) for index in range(arrow.num_fields))
    return f"STRUCT({', '.join(f'{quoted(f.name)} {duckdb_type(f.type)}' for f in fields)})"


def quoted(name: str) -> str:
    """An identifier in DuckDB's quotes."""
    return '"' + name.replace('"', '""') + '"'
