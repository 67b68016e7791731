"""What clustering costs and gives: `python -m bench.clustering`.

A table with dynamic buckets is compacted fully and sort-compacted, each with what it takes beside the other; then
filters on columns outside the key are run, with the files and the time that each reads.
"""

import argparse
import tempfile
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

import lsmerge

SEED = 7
OPTIONS = {"bucket": "-1", "write-only": "true"}


def made(uri: str, count: int) -> lsmerge.Table:
    """Rows in random order, in four commits."""
    rng = np.random.default_rng(SEED)
    keys = rng.permutation(count)
    columns = {
        "k": keys,
        "x": rng.integers(0, 1_000_000, count),
        "y": rng.integers(0, 1_000_000, count),
        "name": [f"name-{n}" for n in rng.integers(0, 100_000, count).tolist()],
    }
    rows = pa.table(columns)
    table = lsmerge.create_table(uri, rows.schema, "k", options=OPTIONS)
    for start in range(0, count, count // 4):
        table.upsert(rows.slice(start, count // 4))
    return table


def seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def show(table: lsmerge.Table, condition: str) -> str:
    scan = table.scan(filter=condition)
    buckets = scan.explain()["buckets"]
    read, total = (sum(b[name] for b in buckets) for name in ("files_read", "files_total"))
    return f"{read} of {total} files, {1000 * min(seconds(scan.count) for _ in range(3)):.0f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    given = parser.parse_args()
    conditions = ("x < 10000", "y < 10000", "x < 100000 and y < 100000")
    print("| after | processor seconds |", " | ".join(conditions), "|")
    print("|---|---:|" + "---|" * len(conditions))
    work = {
        "compact(full=True)": lambda table: table.compact(full=True),
        'sort_compact("x")': lambda table: table.sort_compact("x"),
        'sort_compact(["x", "y"], order="zorder")': lambda table: table.sort_compact(
            ["x", "y"], order="zorder"
        ),
        'sort_compact(["x", "y"], order="hilbert")': lambda table: table.sort_compact(
            ["x", "y"], order="hilbert"
        ),
    }
    for name, run in work.items():
        with tempfile.TemporaryDirectory(prefix="clustering-") as directory:
            table = made(f"{directory}/table", given.rows)
            took = seconds(lambda table=table, run=run: run(table))
            figures = " | ".join(show(table, condition) for condition in conditions)
            print(f"| `{name}` | {took:.1f} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
