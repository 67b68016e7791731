"""What becomes of each figure as the table grows: `python -m bench.growth --rows 1000000 3000000`.

One table at a time, deleted before the next: a base of so many rows in random order, fully compacted, then five
upserts of a fiftieth each, so that a scan merges six runs whatever the size. Figures are processor time:

- of work that grows with the table (ingest, compaction, scans), a row: near-linear if it stays the same
- of work that does not (an upsert of 20,000 rows, look-ups, the scan of a few keys, opening), a call: flat if it stays

Writes growth.json, and growth.svg with each figure as a multiple of its value at the first size.
"""

import argparse
import json
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa

import lsmerge
from bench.measuring import spent
from bench.plot import Panel, line_chart
from bench.registry import ROOT
from bench.workload import KEY, SCHEMA, rows_of_keys

SEED = 3
PORTION = 500_000
FEW = 20_000
GETS = 200
UPSERTS = 5
READS = 3
WRITE_ONLY = {"write-only": "true"}
A_ROW = ("ingest", "full compaction", "compacted scan", "merged scan of six runs")
A_CALL = (
    "upsert of 20,000 rows",
    "get_many of 20,000 keys",
    "single get",
    "scan of 1,000 neighbouring keys",
    "open and plan",
)


def portions(rng: np.random.Generator, keys: np.ndarray) -> Iterator[pa.Table]:
    """The rows of the keys, so many at once that memory stays small."""
    for start in range(0, len(keys), PORTION):
        yield rows_of_keys(rng, keys[start : start + PORTION])


def write(made: lsmerge.Table, rng: np.random.Generator, keys: np.ndarray) -> float:
    """Commit the rows at once; processor seconds of writing, without those of making the rows."""
    taken = 0.0
    writer = made.writer()
    for rows in portions(rng, keys):
        taken += spent(lambda rows=rows: writer.write(rows)).processor
    return taken + spent(writer.commit).processor


def scan(made: lsmerge.Table) -> None:
    for _ in made.scan().to_batches():
        pass


def least(work: Callable[[], object], times: int = READS) -> float:
    return min(spent(work).processor for _ in range(times))


def life(uri: str, count: int) -> dict[str, float]:
    """Every figure of one size, in seconds a row or a call."""
    rng = np.random.default_rng(SEED)
    made = lsmerge.create_table(uri, SCHEMA, KEY, options=WRITE_ONLY)
    figures = {"ingest": write(made, rng, rng.permutation(count)) / count}
    figures["full compaction"] = spent(lambda: made.compact(full=True)).processor / count
    made.expire_snapshots(retain_max=1, retain_min=1)
    figures["compacted scan"] = least(lambda: scan(made)) / count
    figures |= calls(made, rng, count)
    upserts = [rng.choice(count, count // 50, replace=False) for _ in range(UPSERTS)]
    for keys in upserts:
        write(made, rng, keys)
    read = count + sum(map(len, upserts))
    figures["merged scan of six runs"] = least(lambda: scan(made)) / read
    figures["open and plan"] = least(lambda: lsmerge.open_table(uri).scan(limit=1).explain(), 5)
    made.close()
    return figures


def calls(made: lsmerge.Table, rng: np.random.Generator, count: int) -> dict[str, float]:
    """Work of a fixed size on the compacted table. Upserts come last, and are compacted away."""
    keys = pa.table({KEY: rng.integers(0, count, FEW)})
    one_by_one = keys[KEY].to_pylist()[:GETS]
    begin = count // 2
    few = f"{KEY} >= {begin} and {KEY} < {begin + 1_000}"
    figures = {
        "get_many of 20,000 keys": least(lambda: made.get_many(keys)),
        "single get": least(lambda: [made.get(key) for key in one_by_one]) / GETS,
        "scan of 1,000 neighbouring keys": least(lambda: made.scan(filter=few).to_arrow()),
    }
    batches = [rows_of_keys(rng, rng.choice(count, FEW, replace=False)) for _ in range(READS)]
    taken = [spent(lambda rows=rows: made.upsert(rows)).processor for rows in batches]
    made.compact(full=True)
    return figures | {"upsert of 20,000 rows": min(taken)}


def measured(directory: Path, sizes: list[int]) -> Iterator[tuple[str, dict[str, float]]]:
    """The figures of each size; a table is deleted before the next is made."""
    for count in sizes:
        begun = time.monotonic()
        uri = directory / f"rows-{count}"
        yield str(count), life(str(uri), count)
        shutil.rmtree(uri)
        print(f"{count:,} rows: {time.monotonic() - begun:.0f} s", flush=True)


def chart(document: dict) -> str:
    sizes = [int(size) for size in document["figures"]]
    xs = [(size, f"{size / 1e6:g} M") for size in sizes]

    def lines(names: tuple[str, ...]) -> dict[str, list[float]]:
        values = {name: [document["figures"][str(size)][name] for size in sizes] for name in names}
        return {name: [v / of[0] for v in of] for name, of in values.items()}

    title = "Processor time as the table grows, as a multiple of that at the first size"
    panels = [Panel("a row, of work on all rows", lines(A_ROW)), Panel("a call", lines(A_CALL))]
    return line_chart(f"{title} ({document['date']})", xs, panels)


def print_table(document: dict) -> None:
    sizes = list(document["figures"])
    print("| figure | " + " | ".join(f"{int(size) / 1e6:g} M rows" for size in sizes) + " | |")
    print("|---|" + "---:|" * len(sizes) + "---|")
    for names, factor, unit in ((A_ROW, 1e9, "ns a row"), (A_CALL, 1e3, "ms a call")):
        for name in names:
            values = [document["figures"][size][name] * factor for size in sizes]
            cells = [f"{value:.3g}" for value in values]
            print(
                f"| {name}, {unit} | " + " | ".join(cells) + f" | {values[-1] / values[0]:.2f}x |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sizes = [1_000_000, 3_000_000, 10_000_000, 30_000_000]
    parser.add_argument("--rows", type=int, nargs="+", default=sizes)
    parser.add_argument("--to", type=Path, default=ROOT / "bench" / "results")
    given = parser.parse_args()
    document = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": {"platform": platform.machine(), "python": platform.python_version()},
        "unit": "seconds of the processor, a row or a call",
        "figures": {},
    }
    given.to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="growth-") as directory:
        for size, figures in measured(Path(directory), given.rows):
            document["figures"][size] = figures
            (given.to / "growth.json").write_text(json.dumps(document, indent=2) + "\n")
            (given.to / "growth.svg").write_text(chart(document))
    print_table(document)


if __name__ == "__main__":
    main()
