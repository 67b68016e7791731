"""A consumer of the changelog that counts every change once, although it crashes.

The consumer keeps the balance per branch of a bank in SQLite. It stores its place in the changelog in the same
transaction as its results: both are there or neither is. What lies between two places never changes, so a batch that
is read again after a crash has the same rows. The table itself is told only afterwards, so that it keeps what the
consumer still needs.

    python examples/exactly_once_consumer.py
"""

import json
import random
import sqlite3
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa

import lsmerge

SCHEMA = pa.schema({"account": pa.int64(), "branch": pa.string(), "balance": pa.int64()})
BRANCHES = ("lima", "oslo", "rome")
ROUNDS, MOMENTS = 30, 4
Position = Any  # a place in the changelog: JSON that means something to the feed only


class Crash(Exception):
    """Thrown where a process might die."""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="lsmerge-consumer-") as directory:
        # Old snapshots go after every commit, but never those that the consumer still needs.
        options = {"changelog-producer": "lookup", "snapshot.num-retained.max": 3}
        path, results = Path(directory) / "accounts", Path(directory) / "results.db"
        accounts = lsmerge.create_table(path, SCHEMA, primary_key="account", options=options)
        deaths, draw = 0, random.Random(3)  # noqa: S311 - the same accounts in every run
        for number in range(ROUNDS):
            accounts.upsert(some_accounts(draw))
            accounts.delete([draw.randrange(50)])
            deaths += has_died(path, results, Perils(number % MOMENTS))
        has_died(path, results, Perils(None))
        check(accounts, results)
        print(f"{ROUNDS * 2} commits, {deaths} crashes, balances: {dict(balances(results))}")


class Perils:
    """Throws at the chosen one of the consumer's dangerous moments."""

    def __init__(self, deadly: int | None) -> None:
        self._left = deadly

    def moment(self) -> None:
        if self._left == 0:
            raise Crash
        if self._left is not None:
            self._left -= 1


def has_died(path: Path, results: Path, perils: Perils) -> bool:
    """Run a consumer from where the last one came to; whether it crashed."""
    try:
        with lsmerge.open_table(path) as accounts, closing(sqlite3.connect(results)) as database:
            consume(accounts, database, perils)
    except Crash:
        return True
    return False


def consume(accounts: lsmerge.Table, database: sqlite3.Connection, perils: Perils) -> None:
    """Take in all that was committed, a snapshot or two at a time."""
    database.execute("CREATE TABLE IF NOT EXISTS balances (branch PRIMARY KEY, total)")
    database.execute("CREATE TABLE IF NOT EXISTS place (one PRIMARY KEY, position)")
    feed = accounts.feed(consumer="balances")
    begin = stored_place(database) or feed.start("earliest")
    while (end := feed.advance(begin, max_snapshots=2)) != begin:
        with database:  # one transaction: committed at its end, rolled back if anything is raised
            for part in feed.splits(begin, end):
                for batch in accounts.read_split(part):
                    add_up(database, batch)
                    perils.moment()
            store_place(database, end)
        perils.moment()
        feed.commit(end)  # what lies before it may expire now
        begin = end


def add_up(database: sqlite3.Connection, batch: pa.RecordBatch) -> None:
    changes: Counter[str] = Counter()
    for row in batch.to_pylist():
        sign = 1 if row["_row_kind"] in ("+I", "+U") else -1
        changes[row["branch"]] += sign * row["balance"]
    database.executemany(
        "INSERT INTO balances VALUES (?, ?) ON CONFLICT DO UPDATE SET total = total + excluded.total",
        changes.items(),
    )


def stored_place(database: sqlite3.Connection) -> Position | None:
    row = database.execute("SELECT position FROM place").fetchone()
    return None if row is None else json.loads(row[0])


def store_place(database: sqlite3.Connection, position: Position) -> None:
    database.execute("INSERT OR REPLACE INTO place VALUES (1, ?)", (json.dumps(position),))


def some_accounts(draw: random.Random) -> pa.Table:
    keys = draw.sample(range(50), 10)
    branches = [draw.choice(BRANCHES) for _ in keys]
    return pa.table(
        {"account": keys, "branch": branches, "balance": [draw.randrange(1000) for _ in keys]}
    )


def balances(results: Path) -> list[tuple[str, int]]:
    with closing(sqlite3.connect(results)) as database:
        return database.execute("SELECT branch, total FROM balances ORDER BY branch").fetchall()


def check(accounts: lsmerge.Table, results: Path) -> None:
    """What the consumer counted is what the table holds."""
    expected: Counter[str] = Counter()
    for row in accounts.scan().to_arrow().to_pylist():
        expected[row["branch"]] += row["balance"]
    assert dict(balances(results)) == expected


if __name__ == "__main__":
    main()
