"""A tour of lsmerge's main job on a table on local disk. Run it with `make demo`."""

import tempfile
from pathlib import Path

import pyarrow as pa

import lsmerge


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="lsmerge-tour-") as directory:
        tour(Path(directory) / "orders")


def tour(path: Path) -> None:
    title("1. Create a table: a directory with a schema, a primary key and options")
    schema = pa.schema({"order_id": pa.int64(), "status": pa.string(), "amount": pa.float64()})
    orders = lsmerge.create_table(str(path), schema, primary_key="order_id", options={"bucket": 2})
    say(f"{orders!r}")
    say("Rows are spread over two buckets by a hash of the key; each bucket is one LSM tree.")

    title("2. Upsert: each write is one atomic commit, durable when it returns")
    first = orders.upsert(
        [
            {"order_id": 1, "status": "new", "amount": 10.0},
            {"order_id": 2, "status": "new", "amount": 25.5},
            {"order_id": 3, "status": "new", "amount": 7.25},
        ]
    )
    second = orders.upsert({"order_id": [2, 4], "status": ["paid", "new"], "amount": [25.5, 99.0]})
    orders.delete([3])
    say(f"Three commits gave snapshots {first.id}, {second.id} and {orders.latest_snapshot().id}.")

    title("3. Read: rows of one key are merged, the newest wins, order 3 is gone")
    show(orders.scan().to_arrow())
    say("The same table as of snapshot 1, before the update and the delete:")
    show(orders.scan(snapshot=1).to_arrow())
    say(
        "Columns and filters; filters on the key skip files and blocks, others run after the merge:"
    )
    show(orders.scan(columns=["order_id"], filter="status = 'new' and order_id >= 2").to_arrow())

    title("4. Look up single keys")
    say(f"get(2)           -> {orders.get(2)}")
    say(f"get(3)           -> {orders.get(3)}   (deleted)")
    say(f"get_many([4, 1]) -> {orders.get_many([4, 1]).to_pylist()}")

    title("5. Changelog: what every commit changed, for consumers that follow the table")
    for batch in orders.changelog():
        for row in batch.to_pylist():
            kind, number = row["_row_kind"], row["_snapshot_id"]
            say(
                f"snapshot {number}: {kind} order {row['order_id']} {row['status']} {row['amount']}"
            )
    say(
        "+I is an upserted row, -D a delete. `changelog(start=4, follow=True)` would wait for more."
    )

    title("6. Compaction: many sorted runs become one per bucket, the answer stays the same")
    before = orders.scan().to_arrow().sort_by("order_id")
    report = orders.compact(full=True)
    after = orders.scan().to_arrow().sort_by("order_id")
    say(f"{report.files_removed} level-0 files became {report.files_added} Parquet files;")
    say(
        f"{report.rows_read} rows became {report.rows_written}; same rows as before: {before == after}"
    )

    title("7. Verify: every byte is covered by a checksum")
    checked = orders.verify()
    say(
        f"{checked.files} files, {checked.bytes_read:,} bytes read, problems: {len(checked.problems)}"
    )
    damage(next(path.glob("bucket-*/*.parquet")))
    say("After flipping one bit of one file, a read does not return wrong rows, it says:")
    try:
        lsmerge.open_table(str(path)).scan().to_arrow()
    except lsmerge.CorruptFileError as error:
        say(f"CorruptFileError: {error}")


def damage(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def title(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")


def say(text: str) -> None:
    print(f"   {text}")


def show(table: pa.Table) -> None:
    for row in table.sort_by(table.column_names[0]).to_pylist():
        print("      " + "  ".join(f"{name}={value}" for name, value in row.items()))


if __name__ == "__main__":
    main()
