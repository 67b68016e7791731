"""Whether budgets hold as the table grows: `python -m bench.memory --rows 1000000 10000000 50000000`.

One size after the other, each in a process of its own that loads all code on a small table and then limits its
address space to what it has mapped and 1.25 times the budget: what asks for more fails with MemoryError, and is told.
The limit is exact because the process uses the C allocator. Works: one commit of so many rows in random order, three
upserts of a tenth each, a merged scan, a full compaction, and a scan of what it made. For each, the peak of the
resident memory above what the process had at the beginning, as a share of the budget.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

import lsmerge
from bench.registry import ROOT
from tests.memory_paths import ALLOWED, EXACT_ALLOCATOR, SMALL_STACK, limit_to

STEP = 20_000
UPSERTS = 3
SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        ("a", pa.int64()),
        ("b", pa.float64()),
        ("c", pa.string()),
    ]
)


def batches(count: int, total: int) -> Iterator[pa.RecordBatch]:
    """Rows of `count` keys out of `total`, in an order that has nothing to do with them."""
    # A multiplier that shares no factor with a power of two visits every key once.
    mask = (1 << max(1, (total - 1).bit_length())) - 1
    for start in range(0, count, STEP):
        numbers = pa.array(range(start, min(count, start + STEP)), pa.int64())
        keys = pc.bit_wise_and(pc.multiply(numbers, 2_654_435_761), mask)
        text = pc.binary_join_element_wise("note", keys.cast(pa.string()), "-")
        yield pa.RecordBatch.from_arrays(
            [keys, numbers, pc.divide(keys.cast(pa.float64()), 8.0), text], schema=SCHEMA
        )


def write(table: lsmerge.Table, count: int, total: int) -> int:
    with table.writer() as writer:
        for batch in batches(count, total):
            writer.write(batch)
    return count


def upsert(table: lsmerge.Table, rows: int) -> int:
    return sum(write(table, rows // 10, rows) for _ in range(UPSERTS))


def scan(table: lsmerge.Table) -> int:
    return sum(batch.num_rows for batch in table.scan().to_batches())


WORKS: dict[str, Callable[[lsmerge.Table, int], int]] = {
    "write": lambda table, rows: write(table, rows, rows),
    "upserts": upsert,
    "merged scan": lambda table, _: scan(table),
    "full compaction": lambda table, _: table.compact(full=True).rows_written,
    "compacted scan": lambda table, _: scan(table),
}


def create(uri: str, budget: str) -> lsmerge.Table:
    options = {"write-buffer-size": budget, "scan.memory-budget": budget, "write-only": "true"}
    return lsmerge.create_table(uri, SCHEMA, "k", options=options | {"bucket": "1"})


def resident(field: str) -> int:
    """VmRSS, or VmHWM for its peak, in bytes."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith(field))
    return int(line.split()[1]) << 10


def forget_peak() -> None:
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")


def measure(directory: str, rows: int, budget_mb: int) -> dict[str, float]:
    """Peak of each work above the beginning, in bytes; what fails raises."""
    threading.stack_size(SMALL_STACK)
    warm = create("memory://warm", "1 mb")
    for work in WORKS.values():
        work(warm, STEP)
    limit_to(int(budget_mb * ALLOWED * 2**20))
    begun, peaks = resident("VmRSS"), {}
    table = create(f"{directory}/table", f"{budget_mb} mb")
    for name, work in WORKS.items():
        forget_peak()
        work(table, rows)
        peaks[name] = resident("VmHWM") - begun
    return peaks


def measured_apart(rows: int, budget_mb: int) -> dict[str, float] | str:
    """The peaks of a size, or why there are none."""
    with tempfile.TemporaryDirectory(prefix="memory-") as directory:
        command = [sys.executable, "-m", "bench.memory", "--inside", directory]
        command += ["--rows", str(rows), "--budget-mb", str(budget_mb)]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | EXACT_ALLOCATOR,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or ["no message"])[-1]
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000, 50_000_000])
    parser.add_argument("--budget-mb", type=int, default=64)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        print(json.dumps(measure(given.inside, given.rows[0], given.budget_mb)))
        return
    print(f"Budget {given.budget_mb} MB, address space limited to {ALLOWED} times that.\n")
    print("| rows | " + " | ".join(WORKS) + " |")
    print("|---|" + "---:|" * len(WORKS))
    for rows in given.rows:
        peaks = measured_apart(rows, given.budget_mb)
        if isinstance(peaks, str):
            print(f"| {rows:,} | failed: {peaks} |", flush=True)
            continue
        shares = (f"{peaks[name] / 2**20 / given.budget_mb:.0%}" for name in WORKS)
        print(f"| {rows:,} | " + " | ".join(shares) + " |", flush=True)


if __name__ == "__main__":
    main()
