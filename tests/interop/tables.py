"""Tables for other libraries to read: of many types, with rows that must be merged, and in several blocks."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa

import lsmerge

SCHEMA = pa.schema(
    {
        "day": pa.string(),
        "k": pa.int64(),
        "i": pa.int32(),
        "s": pa.string(),
        "d": pa.date32(),
        "t": pa.timestamp("us"),
        "z": pa.timestamp("us", "UTC"),
        "x": pa.decimal128(10, 2),
        "f": pa.float64(),
        "b": pa.bool_(),
        "raw": pa.binary(),
        "tags": pa.list_(pa.string()),
    }
)
NUM_ROWS = 3000
MOMENT = dt.datetime(2024, 1, 1)


def rows(numbers, version: int = 0) -> pa.Table:
    """Rows of these keys; every third has nulls, every fifth a NaN."""
    numbers = list(numbers)

    def column(value):
        return [None if n % 3 == 0 else value(n) for n in numbers]

    return pa.table(
        {
            "day": ["mon" if n % 2 else "tue" for n in numbers],
            "k": numbers,
            "i": column(lambda n: n % 50 + version),
            "s": column(lambda n: f"name {n % 20}"),
            "d": column(lambda n: MOMENT.date() + dt.timedelta(days=n // 100)),
            "t": column(lambda n: MOMENT + dt.timedelta(seconds=n)),
            "z": column(lambda n: (MOMENT + dt.timedelta(seconds=n)).replace(tzinfo=dt.UTC)),
            "x": column(lambda n: Decimal(n) / 4),
            "f": column(lambda n: float("nan") if n % 5 == 0 else n / 2),
            "b": column(lambda n: n % 7 == 0),
            "raw": column(lambda n: n.to_bytes(4, "big")),
            "tags": column(lambda n: [f"t{n % 3}"]),
        },
        schema=SCHEMA,
    )


def without_nan(rows: pa.Table) -> pa.Table:
    """Rows that can be compared: NaN equals nothing."""
    return rows.drop_columns("f")


def create(uri: str) -> lsmerge.Table:
    """Two partitions; most rows compacted, some updated and some deleted after that."""
    options = {"bucket": 2, "file.block-size": "16 kb", "write-only": True}
    table = lsmerge.create_table(uri, SCHEMA, ["day", "k"], partition_by="day", options=options)
    table.upsert(rows(range(NUM_ROWS)))
    table.compact(full=True)
    table.upsert(rows(range(0, 200, 7), version=1))
    table.delete([{"day": "mon", "k": k} for k in range(1, 100, 10)])
    return table
