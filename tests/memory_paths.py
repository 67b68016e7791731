"""Paths of a table in this process, with what it may allocate limited: `memory_paths URI BYTES PATH...`.

Prints a number of rows or runs for each path; the table is opened anew for each. Rows take about 150 bytes.
"""

import os
import resource
import sys
import threading
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

import lsmerge

# Of a budget, what a process may take beyond what it has.
ALLOWED = 1.25
# Freed memory goes back at once, so that the limit is that of what is in use.
EXACT_ALLOCATOR = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
}
SMALL_STACK = 256 << 10
BUDGET_MB = 16
OVERLAPPING_RUNS = 24
SCHEMA = pa.schema(
    [pa.field("k", pa.int64(), nullable=False), ("n", pa.float64()), ("t", pa.string())]
)
OPTIONS = {
    "write-buffer-size": f"{BUDGET_MB} mb",
    "scan.memory-budget": f"{BUDGET_MB} mb",
    "lookup.cache-max-memory-size": "1 mb",
    "write-only": "true",  # runs that overlap are to stay until they are compacted
}
STEP = 4_000
# Beside its budget a clustering has the index of its buckets, some 5 bytes a key, which is small for these.
CLUSTERED_ROWS = 300_000
# The reliability programme (tests/long) has more of them.
ROWS = int(os.environ.get("LSMERGE_MEMORY_ROWS", "300000"))


def batches(count: int, seed: int = 0) -> Iterator[pa.RecordBatch]:
    """Rows whose keys are spread over one range whatever the seed."""
    text = "x" * 120
    for start in range(0, count, STEP):
        numbers = pa.array(range(start, start + STEP), pa.int64())
        scattered = pc.multiply(pc.add(numbers, seed * count), 2_654_435_761)
        keys = pc.bit_wise_and(scattered, (1 << 40) - 1)
        yield pa.RecordBatch.from_arrays(
            [keys, keys.cast(pa.float64()), pa.repeat(text, STEP)], schema=SCHEMA
        )


def write(table: lsmerge.Table, count: int = ROWS) -> int:
    with table.writer() as writer:
        for batch in batches(count):
            writer.write(batch)
    return count


def write_clustered(table: lsmerge.Table) -> int:
    return write(table, CLUSTERED_ROWS)


def commit(table: lsmerge.Table) -> int:
    """Old rows again, of which every block of the table has some."""
    with table.writer() as writer:
        for batch in batches(ROWS):
            writer.write(batch.slice(0, STEP // 4))
    return sum(batch.num_rows for batch in table.changelog(table.latest_snapshot().id))


def runs(table: lsmerge.Table) -> int:
    for seed in range(1, OVERLAPPING_RUNS + 1):
        table.upsert(pa.Table.from_batches(batches(8_000, seed)))
    return OVERLAPPING_RUNS


def scan(table: lsmerge.Table) -> int:
    return sum(batch.num_rows for batch in table.scan().to_batches())


def compact(table: lsmerge.Table) -> int:
    return table.compact(full=True).rows_written


def cluster(table: lsmerge.Table) -> int:
    return table.sort_compact(["n", "t"], order="zorder", buckets=4).rows_written


def export(table: lsmerge.Table) -> int:
    report = table.scan().write_parquet(f"{table.uri}-export", max_file_size="4 mb")
    return report.rows


def hold(table: lsmerge.Table) -> int:
    return int(table.scan().to_arrow().num_rows)


def warm_up() -> None:
    """Load the code and start the threads of all paths, on a table too small to matter."""
    table = lsmerge.create_table(
        "memory://warm", SCHEMA, "k", options={"scan.memory-budget": "64 kb"}
    )
    for seed in range(4):
        table.upsert(pa.Table.from_batches(batches(STEP, seed)))
    scan(table)
    compact(table)
    scan(table)
    export(table)
    clustered = lsmerge.create_table("memory://clustered", SCHEMA, "k", options={"bucket": "-1"})
    clustered.upsert(pa.Table.from_batches(batches(STEP)))
    cluster(clustered)


def limit_to(nbytes: int) -> None:
    """Nothing beyond what is mapped now and `nbytes` more."""
    with open("/proc/self/statm") as statm:
        mapped = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + nbytes, mapped + nbytes))


PATHS = {
    "write": write,
    "lookup-write": write,
    "lookup-commit": commit,
    "runs": runs,
    "scan": scan,
    "compact": compact,
    "clustered-write": write_clustered,
    "cluster": cluster,
    "export": export,
    "hold": hold,
}


def walk(path: str, uri: str) -> int:
    options = OPTIONS | {
        "changelog-producer": "lookup" if "lookup" in path else "none",
        "bucket": "-1" if "cluster" in path else "1",
    }
    with lsmerge.create_table(uri, SCHEMA, "k", options=options, exist_ok=True) as table:
        return PATHS[path](table)


def main(uri: str, nbytes: str, *paths: str) -> None:
    threading.stack_size(SMALL_STACK)
    warm_up()
    limit_to(int(nbytes))
    for path in paths:
        print(walk(path, uri))


if __name__ == "__main__":
    main(*sys.argv[1:])
