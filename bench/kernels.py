"""Nanoseconds per row of each native kernel: `python -m bench.kernels`.

For review, against regressions: run it before and after a change to a kernel, on the same machine.
Keys come in the two kinds that the kernels know: eight bytes (an int64) and longer ones (a string).
"""

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmerge_native.checksum import crc32c, stripe_checksums
from lsmerge_native.filter import build_filter, probe_filter
from lsmerge_native.gather import gather
from lsmerge_native.hashing import bucket_ids, group_ids, murmur3
from lsmerge_native.keys import Keys, encode_keys
from lsmerge_native.plan import merge_runs, plan_sorted
from lsmerge_native.reduce import keep_adds, pick_last
from lsmerge_native.sort import argsort

RUNS = 6
STRIPE_BYTES = 64 << 10
SEED = 11

Case = tuple[str, int, Callable[[], object]]


def key_columns(rows: int) -> dict[str, pa.Array]:
    """One key column of each kind, in random order, about one in six rows repeated."""
    numbers = np.random.default_rng(SEED).integers(0, rows * 3, rows)
    text = pc.binary_join_element_wise("customer", pc.cast(pa.array(numbers), pa.string()), "-")
    return {"int64": pa.array(numbers), "string": text}


def key_cases(kind: str, column: pa.Array) -> Iterator[Case]:
    """Kernels that see the keys of one commit."""
    rows = len(column)
    keys = encode_keys([column])
    order = argsort(keys)
    sorted_keys = keys.take(order)
    hashes = keys.hashes()
    filter_bytes = build_filter([hashes])
    yield f"encode_keys {kind}", rows, lambda: encode_keys([column])
    yield f"hashes {kind}", rows, keys.hashes
    yield f"argsort {kind}", rows, lambda: argsort(keys)
    yield f"argsort {kind}, sorted already", rows, lambda: argsort(sorted_keys)
    yield f"plan_sorted {kind}", rows, lambda: plan_sorted(keys, order)
    yield f"murmur3 {kind}", rows, lambda: murmur3([column])
    yield f"build_filter {kind}", rows, lambda: build_filter([hashes])
    yield f"probe_filter {kind}", rows, lambda: probe_filter(filter_bytes, hashes)


def merge_cases(kind: str, column: pa.Array) -> Iterator[Case]:
    """Kernels that merge overlapping sorted runs and fetch what was picked."""
    rows = len(column)
    parts = [column.slice(i * (rows // RUNS), rows // RUNS) for i in range(RUNS)]
    sorted_parts = [part.take(pc.sort_indices(part)) for part in parts]
    keys = [encode_keys([part]) for part in sorted_parts]
    sequences = [(pa.array(np.arange(len(p))), i * rows) for i, p in enumerate(parts)]
    kinds = [pa.array(np.zeros(len(part), np.int8)) for part in parts]
    plan = merge_runs(keys, None, sequences)
    picked = pick_last(plan)
    doubles = [pa.array(np.random.default_rng(SEED).random(len(part))) for part in parts]
    yield (
        f"merge_runs {kind}, {RUNS} runs",
        plan.num_rows,
        lambda: merge_runs(keys, None, sequences),
    )
    yield f"pick_last {kind}", plan.num_rows, lambda: pick_last(plan)
    yield f"keep_adds {kind}", len(picked), lambda: keep_adds(picked, kinds)
    yield f"gather double by {kind} key", len(picked), lambda: gather(doubles, picked)
    yield f"gather {kind} by {kind} key", len(picked), lambda: gather(sorted_parts, picked)
    yield from _match_cases(kind, keys)


def _match_cases(kind: str, keys: list[Keys]) -> Iterator[Case]:
    probes, run = keys[0].slice(0, len(keys[0]) // 10), keys[1]
    yield f"match {kind}, per probe", len(probes), lambda: run.match(probes)


def bucket_cases(column: pa.Array) -> Iterator[Case]:
    ids = bucket_ids([column], 16)
    yield "bucket_ids int64", len(column), lambda: bucket_ids([column], 16)
    yield "group_ids, 16 buckets", len(column), lambda: group_ids(ids, 16)


def checksum_cases(rows: int) -> Iterator[Case]:
    """Per eight bytes, so that the figures stand beside those of an int64 column."""
    data = np.random.default_rng(SEED).bytes(rows * 8)
    yield "crc32c, per 8 bytes", rows, lambda: crc32c(data)
    yield (
        "stripe_checksums, per 8 bytes",
        rows,
        lambda: stripe_checksums(data, b"file", 0, STRIPE_BYTES),
    )


def cases(rows: int) -> Iterator[Case]:
    columns = key_columns(rows)
    for kind, column in columns.items():
        yield from key_cases(kind, column)
        yield from merge_cases(kind, column)
    yield from bucket_cases(columns["int64"])
    yield from checksum_cases(rows)


def best_seconds(kernel: Callable[[], object], repeat: int) -> float:
    best = float("inf")
    for _ in range(repeat):
        started = time.perf_counter()
        kernel()
        best = min(best, time.perf_counter() - started)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    for name, rows, kernel in cases(arguments.rows):
        nanoseconds = best_seconds(kernel, arguments.repeat) / max(rows, 1) * 1e9
        print(f"{name:36} {nanoseconds:8.2f} ns/row")


if __name__ == "__main__":
    main()
