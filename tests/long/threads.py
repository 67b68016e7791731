"""X5: threads of one process that write, read, look up, follow and compact one open table.

`python -m tests.long.threads` under the thread sanitizer (`make tsan`) also tells of races in kernels. With `canary` it
makes one, so that it is known whether the sanitizer sees any.
"""

import sys
import threading
import traceback
from collections.abc import Callable

import pyarrow as pa

import lsmerge
from lsmerge_native.checksum import crc32c
from tests.long.figures import Tally
from tests.long.load import check_snapshot, transfer

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("n", pa.int64())])
OPTIONS = {
    "merge-engine": "aggregation",
    "fields.n.aggregate-function": "sum",
    "bucket": "4",
    "num-sorted-run.compaction-trigger": "3",
    "compaction.mode": "background",
    "changelog-producer": "lookup",
}


def together(rounds: int) -> Tally:
    """Eight threads on one table, so many rounds each; nobody fails, and all commits are there."""
    tally = Tally()
    uri = f"memory://threads-{threading.get_ident()}"
    table = lsmerge.create_table(uri, SCHEMA, "k", options=OPTIONS)
    table.upsert(transfer(99, 0))
    work: list[Callable[[int, int], object]] = [
        lambda thread, turn: table.write(transfer(thread, turn)),
        lambda thread, turn: table.write(transfer(thread, turn)),
        lambda _thread, _turn: check_snapshot(table.scan(), {}),
        lambda _thread, _turn: check_snapshot(table.scan(), {}),
        lambda _thread, turn: table.get(turn % 10),
        lambda _thread, _turn: table.get_many(list(range(10))),
        lambda _thread, _turn: sum(batch.num_rows for batch in table.changelog()),
        lambda _thread, turn: table.stats() if turn % 4 else table.verify(),
    ]

    def run(number: int) -> None:
        for turn in range(rounds):
            try:
                work[number](number, turn)
            except Exception:  # noqa: BLE001 - whatever it is, it is a violation
                tally.violations.append(traceback.format_exc(limit=-3))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tally.tried = rounds * len(work)
    rows = {row["k"]: row["n"] for row in table.scan().to_arrow().to_pylist()}
    tally.attempt("afterwards", lambda: _check(rows, rounds))
    table.close()
    return tally


def _check(rows: dict[int, int], rounds: int) -> None:
    if (rows[100], rows[101], rows[199]) != (rounds, rounds, 1):
        raise AssertionError(f"{rows} after {rounds} rounds of two writers")


def race() -> None:
    """A kernel reads memory that another thread writes."""
    data, other = bytearray(1 << 16), bytes(1 << 16)

    def read() -> None:
        for _ in range(200):
            crc32c(data)

    def write() -> None:
        for _ in range(200):
            data[:] = other

    threads = [threading.Thread(target=read), threading.Thread(target=write)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    if sys.argv[1:] == ["canary"]:
        sys.exit(race())
    found = together(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
    print(f"{found.tried} calls of 8 threads, {len(found.violations)} violations")
    print(*found.violations, sep="\n")
    sys.exit(bool(found.violations))
