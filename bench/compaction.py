"""What compaction costs: `python -m bench.compaction`.

Four figures, each a ratio of two measurements of one run:

- a full compaction against decoding its inputs and encoding its output, the least it could take
- bytes written over bytes committed, over a stream of upserts that compacts by itself
- an upsert into a large table against the same upsert into one a tenth of its size
- memory that a compaction takes in a fresh process, against its budget
"""

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

import lsmerge
from lsmerge.engine.context import TableContext
from lsmerge.engine.parallel import ordered_map
from lsmerge.meta.data_file import DataFile
from lsmerge.storage.run_file import RunWriter

SEED = 7
BUDGET_MB = 64
WRITE_ONLY = {"write-only": "true"}


class Variant(NamedTuple):
    """Tables that upserts go into: their options, and whether what was loaded is compacted before."""

    name: str
    options: dict[str, str]
    is_compacted: bool = False


VARIANTS = [
    Variant("with its compactions", {}),
    Variant("the same, compacted before", {}, is_compacted=True),
    Variant("the same, `num-levels` = 9", {"num-levels": "9"}),
    Variant("the commit alone", WRITE_ONLY),
]


def rows(rng: np.random.Generator, keys: np.ndarray) -> pa.Table:
    count = len(keys)
    names = [f"name-{n}" for n in rng.integers(0, 100_000, count).tolist()]
    values = {"a": rng.integers(0, 1 << 40, count), "x": rng.random(count), "name": names}
    return pa.table({"k": keys} | values)


def table(uri: str, count: int, options: dict[str, str], upserts: int = 5) -> lsmerge.Table:
    """A base of `count` rows in random order, then upserts of a fifth each."""
    rng = np.random.default_rng(SEED)
    base = rows(rng, rng.permutation(count))
    made = lsmerge.create_table(uri, base.schema, "k", options=options)
    made.upsert(base)
    for _ in range(upserts):
        made.upsert(rows(rng, rng.integers(0, count, count // 5)))
    return made


def live_files(context: TableContext) -> list[DataFile]:
    latest = context.snapshots.latest()
    assert latest is not None
    version = context.versions.load(latest)
    return [file for place in version.places() for file in version.files(place)]


# -------------------------------------------------------------------------------------- throughput


def least_seconds(context: TableContext, inputs: list[DataFile]) -> float:
    """Decode every block of the inputs, then encode every row of the output, each on all cores."""
    started = time.perf_counter()
    columns = context.schema.file_schema
    for _ in ordered_map(lambda b: decoded(context, *b, columns), blocks(context, inputs)):
        pass
    decoding = time.perf_counter() - started
    outputs = live_files(context)
    batches = [[decoded(context, *b, columns) for b in blocks(context, [file])] for file in outputs]
    started = time.perf_counter()
    work = list(zip(outputs, batches, strict=True))
    list(ordered_map(lambda item: _encode(context, *item), work))
    return decoding + time.perf_counter() - started


def blocks(context: TableContext, files: list[DataFile]) -> Iterator[tuple[DataFile, int]]:
    """Every block of the files, by its number."""
    for file in files:
        reader = context.runs.reader(context.file_path(file), file.run)
        yield from ((file, number) for number in range(reader.num_blocks))


def decoded(
    context: TableContext, file: DataFile, number: int, columns: pa.Schema
) -> pa.RecordBatch:
    return context.reader(file).read_block(number, columns)


def _encode(context: TableContext, file: DataFile, batches: list[pa.RecordBatch]) -> None:
    path = context.bucket_path(file.place, f"data-{context.env.new_id()}-0.{file.run.format}")
    schema, fmt = context.schema.file_schema, context.run_format(file.level)
    with RunWriter(context.store, path, schema, fmt) as writer:
        for batch in batches:
            writer.write(batch, context.keys(batch))
        writer.finish()


def throughput(directory: str, count: int, buckets: int, repeat: int) -> tuple[float, float]:
    """Rows read per second, and the share of what decoding and encoding alone would allow."""
    best, least = float("inf"), float("inf")
    for attempt in range(repeat):
        options = WRITE_ONLY | {"bucket": str(buckets)}
        made = table(f"{directory}/throughput-{buckets}-{attempt}", count, options)
        inputs = live_files(made._context)
        started = time.perf_counter()
        report = made.compact(full=True)
        best = min(best, time.perf_counter() - started)
        least = min(least, least_seconds(made._context, inputs))
    return report.rows_read / best, least / best


# ------------------------------------------------------------------------------------ amplification


def stream(directory: str, count: int, commits: int) -> lsmerge.Table:
    """Upserts of a tenth of the keys each, into a table that compacts by itself."""
    made = table(f"{directory}/stream", count, {}, upserts=0)
    rng = np.random.default_rng(SEED)
    for _ in range(commits):
        made.upsert(rows(rng, rng.integers(0, count, count // 10)))
    return made


def rising(directory: str, count: int, commits: int) -> lsmerge.Table:
    """The same with keys that only grow, and files that are large for their size: most are moved."""
    options = {"target-file-size": "256 kb", "file.block-size": "64 kb"}
    rng = np.random.default_rng(SEED)
    share = count // 10
    first = rows(rng, np.arange(share))
    made = lsmerge.create_table(f"{directory}/rising", first.schema, "k", options=options)
    for number in range(commits):
        made.upsert(rows(rng, np.arange(number * share, (number + 1) * share)))
    return made


def upsert_seconds(directory: str, count: int, commits: int, variant: Variant) -> np.ndarray:
    """What an upsert takes on average: a row for `count` rows and one for a tenth, of processor time and the clock.

    Most of the clock's time is waiting for the disk, and for what else the machine does.
    """
    sizes = (count, count // 10)
    where = f"{directory}/upsert-{VARIANTS.index(variant)}"
    # What is loaded on first use is at nobody's expense.
    table(f"{where}-warm", 1000, variant.options)
    tables = [table(f"{where}-{n}", n, variant.options, upserts=0) for n in sizes]
    if variant.is_compacted:
        for made in tables:
            made.compact(full=True)
    rng = np.random.default_rng(SEED)
    spent = np.zeros((2, 2))
    for _ in range(commits):
        for place, (made, keys) in enumerate(zip(tables, sizes, strict=True)):
            batch = rows(rng, rng.integers(0, keys, count // 50))
            before = np.array([time.process_time(), time.perf_counter()])
            made.upsert(batch)
            spent[place] += np.array([time.process_time(), time.perf_counter()]) - before
    return spent / commits


def described(seconds: np.ndarray) -> str:
    processor, clock = seconds[0] / seconds[1]
    large, small = 1000 * seconds[:, 0]
    taken = f"{large:.1f} ms and {small:.1f} ms of processor time"
    return f"{processor:.2f}x | 1.3x or less; {taken}; by the clock {clock:.2f}x"


# ------------------------------------------------------------------------------------------ memory


def _peak_growth(uri: str) -> float:
    """Megabytes by which the process grows at most while it compacts; in a process of its own."""
    made = lsmerge.open_table(uri)
    made.scan(limit=1).to_arrow()
    before = _peak_mb()
    made.compact(full=True)
    return _peak_mb() - before


def _peak_mb() -> float:
    """The most memory that this process ever had; unlike ru_maxrss without its parent's."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def memory(directory: str, count: int, buckets: int) -> float:
    budget = {"scan.memory-budget": f"{BUDGET_MB} mb", "bucket": str(buckets)}
    uri = f"{directory}/memory-{buckets}"
    table(uri, count, WRITE_ONLY | budget).close()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_peak_growth, (uri,))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--commits", type=int, default=50)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    print("| compaction | figure | goal or remark |")
    print("|---|---:|---|")
    with tempfile.TemporaryDirectory(prefix="compaction-") as directory:
        for buckets in (1, 4):
            rate, share = throughput(directory, given.rows, buckets, given.repeat)
            print(f"| full, {buckets} buckets: M rows read/s | {rate / 1e6:.2f} | |")
            print(f"| of the rate that decoding and encoding allow | {share:.0%} | 50 % or more |")
        for name, run in (("random", stream), ("rising", rising)):
            stats = run(directory, given.rows, given.commits).stats()
            figures = f"{stats.write_amplification:.2f} | at most {stats.read_amplification} runs"
            print(f"| write amplification, {given.commits} upserts, {name} keys | {figures} |")
        for variant in VARIANTS:
            figures = described(upsert_seconds(directory, given.rows, given.commits, variant))
            name = f"upsert into a table ten times as large, {variant.name}"
            print(f"| {name} | {figures} |", flush=True)
        for buckets in (1, 4):
            grown = memory(directory, given.rows, buckets)
            print(f"| memory, {buckets} buckets, budget {BUDGET_MB} MB | {grown:.0f} MB | |")


if __name__ == "__main__":
    main()
