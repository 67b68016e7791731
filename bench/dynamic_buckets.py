"""What dynamic buckets cost: `python -m bench.dynamic_buckets --keys 2000000,20000000 --rows 200000`.

1. The index by itself, of so many random keys in buckets of 2,000,000: bytes a key in memory and in its file, and
   rows placed a second of processor time, new keys and known ones.
2. Tables on a local disk, of so many rows: rows written a second with fixed and dynamic buckets, and with keys that
   leave the partition open, where they are new, stay and move.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import lsmerge
from lsmerge.engine.bucket_assignment import BucketRules, assign
from lsmerge.engine.hash_index import HashIndex, ascending
from lsmerge.meta.bucket_index import write_index
from lsmerge.storage.object_store import open_store
from lsmerge_native.hashing import murmur3

BATCH_ROWS = 100_000
RULES = BucketRules(target=2_000_000, initial=1, most=32_767)
SCHEMA = pa.schema(
    [("p", pa.int32()), pa.field("k", pa.int64(), nullable=False), ("v", pa.float64())]
)


def key_hashes(start: int, count: int) -> pa.Array:
    """The hashes of keys in no order."""
    scrambled = [(start + i) * 0x9E3779B97F4A7C15 % 2**63 for i in range(count)]
    hashes = murmur3([pa.array(scrambled, pa.int64())])
    return pa.Array.from_buffers(pa.uint32(), count, [None, pa.py_buffer(hashes)])


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    started = clock()
    work()
    return clock() - started


class Placement:
    """The index of one partition, as a writer fills it."""

    def __init__(self) -> None:
        self.index = HashIndex()

    def place(self, hashes: pa.Array) -> None:
        found = self.index.buckets_of(hashes)
        new = hashes.filter(pc.less(found, pa.scalar(0, pa.int32()))).unique()
        for bucket, some in assign(self.index.counts, new, RULES):
            self.index = self.index.with_hashes(bucket, ascending(some))


def measure_index(sizes: list[int]) -> None:
    placement, placed, took = Placement(), 0, 0.0
    print(
        f"{'keys':>12} {'buckets':>8} {'memory B/key':>13} {'file B/key':>11} {'new/s':>12} {'known/s':>12}"
    )
    for size in sizes:
        before, took = placed, 0.0
        while placed < size:
            hashes = key_hashes(placed, min(BATCH_ROWS, size - placed))
            took += seconds(partial(placement.place, hashes), time.process_time)
            placed += len(hashes)
        index = placement.index.merged()
        with tempfile.TemporaryDirectory() as root:
            file = write_index(open_store(root), f"{size:032x}", (), index.stored(), 0)
        known = key_hashes(random.Random(1).randrange(size - BATCH_ROWS), BATCH_ROWS)
        known_took = seconds(partial(placement.place, known), time.process_time)
        print(
            f"{size:>12,} {len(index.counts):>8} {placement.index.nbytes / len(index):>13.2f} "
            f"{file.seal.size_bytes / len(index):>11.2f} {(size - before) / took:>12,.0f} "
            f"{len(known) / known_took:>12,.0f}",
            flush=True,
        )


def rows(count: int, partition: Callable[[int], int]) -> Iterator[pa.RecordBatch]:
    for start in range(0, count, BATCH_ROWS):
        keys = range(start, min(count, start + BATCH_ROWS))
        columns = [pa.array([partition(k) for k in keys], pa.int32()), pa.array(keys, pa.int64())]
        values = pa.array([float(k) for k in keys])
        yield pa.RecordBatch.from_arrays([*columns, values], schema=SCHEMA)


def measure_table(count: int, partitions: int) -> None:
    cases = {
        "fixed buckets": (["p", "k"], {"bucket": "4"}),
        "dynamic buckets": (["p", "k"], {"bucket": "-1"}),
        "partition left open": (["k"], {"bucket": "-1"}),
    }
    print(
        f"\n{count:,} rows in {partitions} partitions{'new/s':>12} {'again/s':>12} {'moved/s':>12}"
    )
    for name, (key, options) in cases.items():
        with tempfile.TemporaryDirectory() as root:
            table = lsmerge.create_table(
                Path(root) / "table", SCHEMA, key, partition_by=["p"], options=options
            )
            steps = [lambda k: k % partitions, lambda k: k % partitions]
            if key == ["k"]:
                steps.append(lambda k: (k + 1) % partitions)
            data = [pa.Table.from_batches(rows(count, step)) for step in steps]
            rates = [count / seconds(partial(table.upsert, some)) for some in data]
            print(f"{name:<22}" + "".join(f"{rate:>13,.0f}" for rate in rates), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", default="2000000,20000000")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--partitions", type=int, default=10)
    arguments = parser.parse_args()
    measure_index([int(size) for size in arguments.keys.split(",")])
    measure_table(arguments.rows, arguments.partitions)


if __name__ == "__main__":
    main()
