"""Change data capture: three tables of a shop become one wide table, with one row per order.

`data/shop.debezium.jsonl` holds what Debezium told of the tables orders, payments and shipments, some of it late. An
event knows the columns of its own table only. A partial-update table puts them together without reading a row: each
source is a *sequence group*, ordered by the position in its database's log, so that late events lose.

    python examples/cdc_wide_table.py
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import lsmerge

EVENTS = Path(__file__).parent / "data" / "shop.debezium.jsonl"
EVENTS_PER_COMMIT = 4
GROUPS = {
    "orders": ["customer", "amount", "status"],
    "payments": ["method", "paid"],
    "shipments": ["carrier", "delivered"],
}
SCHEMA = pa.schema(
    {
        "order_id": pa.int64(),
        "customer": pa.string(),
        "amount": pa.float64(),
        "status": pa.string(),
        "method": pa.string(),
        "paid": pa.float64(),
        "carrier": pa.string(),
        "delivered": pa.bool_(),
        **{f"{table}_lsn": pa.int64() for table in GROUPS},
    }
)
OPTIONS = {
    "merge-engine": "partial-update",
    **{f"fields.{table}_lsn.sequence-group": columns for table, columns in GROUPS.items()},
    # A deleted payment empties its columns; a deleted order takes the whole row with it.
    "partial-update.remove-record-on-sequence-group": "orders_lsn",
}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="lsmerge-cdc-") as directory:
        path = Path(directory) / "wide_orders"
        wide = lsmerge.create_table(path, SCHEMA, primary_key="order_id", options=OPTIONS)
        load(wide)
        show(wide)
        check(wide)

        load(wide)  # the whole file once more, as after a crash: every commit is known already
        check(wide)
        print("The second load changed nothing.")


def load(wide: lsmerge.Table) -> None:
    """Write the file in commits of a few events, each of which happens once however often it is tried."""
    rows = [row_of(json.loads(line)) for line in EVENTS.read_text(encoding="utf-8").splitlines()]
    for number, start in enumerate(range(0, len(rows), EVENTS_PER_COMMIT), 1):
        chunk = rows[start : start + EVENTS_PER_COMMIT]
        wide.write(chunk, commit_user="debezium", commit_id=number)


def row_of(event: dict[str, Any]) -> dict[str, Any]:
    """What an event says of the wide row: its own columns, its place in the log, and whether it is a delete."""
    source = event["source"]
    place = {f"{source['table']}_lsn": source["lsn"]}
    if event["op"] == "d":
        return {"order_id": event["before"]["order_id"], **place, "_row_kind": "-D"}
    return {**event["after"], **place, "_row_kind": "+I"}


def check(wide: lsmerge.Table) -> None:
    assert list(described(wide)) == [
        "1: ada 30.0 paid, card 30.0, no carrier",
        "2: bob 12.5 cancelled, unpaid, no carrier",  # cancelled came before paid in the file
        "3: cem 99.0 new, unpaid, bike delivered",  # the shipment came before the order
    ]


def show(wide: lsmerge.Table) -> None:
    print(*described(wide), sep="\n")


def described(wide: lsmerge.Table) -> Iterator[str]:
    for row in wide.scan().to_arrow().sort_by("order_id").to_pylist():
        paid = f"{row['method']} {row['paid']}" if row["method"] else "unpaid"
        carried = f"{row['carrier']} {'delivered' if row['delivered'] else 'under way'}"
        sent = carried if row["carrier"] else "no carrier"
        yield f"{row['order_id']}: {row['customer']} {row['amount']} {row['status']}, {paid}, {sent}"


if __name__ == "__main__":
    main()
