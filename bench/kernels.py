"""Nanoseconds per row of each native kernel: `python -m bench.kernels`.

For review, against regressions: run it before and after a change to a kernel, on the same machine.
Keys come in the two kinds that the kernels know: eight bytes (an int64) and longer ones, used in place (a string) or
encoded (a string, an int64 and an int32).
"""

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lsmerge_native.checksum import crc32c, stripe_checksums
from lsmerge_native.column_chunk import ValueShape, decode_chunk
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


def key_columns(rows: int) -> dict[str, list[pa.Array]]:
    """Key columns of each kind, in random order, about one in six rows repeated."""
    numbers = np.random.default_rng(SEED).integers(0, rows * 3, rows)
    composite = [
        _text("region", numbers % 50),
        pa.array(numbers // 1_000),
        pa.array((numbers % 1_000).astype(np.int32)),
    ]
    return {
        "int64": [pa.array(numbers)],
        "string": [_text("customer", numbers)],
        "composite": composite,
    }


def _text(prefix: str, numbers: np.ndarray) -> pa.Array:
    return pc.binary_join_element_wise(prefix, pc.cast(pa.array(numbers), pa.string()), "-")


def key_cases(kind: str, columns: list[pa.Array]) -> Iterator[Case]:
    """Kernels that see the keys of one commit."""
    rows = len(columns[0])
    keys = encode_keys(columns)
    order = argsort(keys)
    sorted_keys = keys.take(order)
    hashes = keys.hashes()
    filter_bytes = build_filter([hashes])
    yield f"encode_keys {kind}", rows, lambda: encode_keys(columns)
    yield f"hashes {kind}", rows, keys.hashes
    yield f"argsort {kind}", rows, lambda: argsort(keys)
    yield f"argsort {kind}, sorted already", rows, lambda: argsort(sorted_keys)
    yield f"plan_sorted {kind}", rows, lambda: plan_sorted(keys, order)
    yield f"murmur3 {kind}", rows, lambda: murmur3(columns)
    yield f"build_filter {kind}", rows, lambda: build_filter([hashes])
    yield f"probe_filter {kind}", rows, lambda: probe_filter(filter_bytes, hashes)


def merge_cases(kind: str, columns: list[pa.Array]) -> Iterator[Case]:
    """Kernels that merge overlapping sorted runs and fetch what was picked."""
    rows = len(columns[0])
    unsorted = [
        encode_keys([column.slice(i * (rows // RUNS), rows // RUNS) for column in columns])
        for i in range(RUNS)
    ]
    keys = [part.take(argsort(part)) for part in unsorted]
    parts = [columns[0].slice(i * (rows // RUNS), rows // RUNS) for i in range(RUNS)]
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
    yield f"gather a key column by {kind} key", len(picked), lambda: gather(parts, picked)
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


def chunk_cases(rows: int) -> Iterator[Case]:
    """Values of Parquet column chunks, not packed by any codec."""
    numbers = np.random.default_rng(SEED).integers(0, rows * 3, rows)
    sparse = pa.array(np.sqrt(numbers), mask=numbers % 3 == 0)
    whole, doubles, texts = (
        ValueShape(8, 8, True, True),
        ValueShape(8, 8, False, True),
        ValueShape(0, 0, False, True),
    )
    yield _chunk_case("int64, differences", pa.array(numbers), "DELTA_BINARY_PACKED", whole)
    yield _chunk_case("double, a third null", sparse, "PLAIN", doubles)
    yield _chunk_case("string", _text("customer", numbers), "PLAIN", texts)
    yield _chunk_case("string, dictionary", _text("region", numbers % 50), None, texts)


def _chunk_case(name: str, values: pa.Array, encoding: str | None, shape: ValueShape) -> Case:
    rows = len(values)
    sink = pa.BufferOutputStream()
    options = {"use_dictionary": encoding is None, "compression": "none", "row_group_size": rows}
    encodings = None if encoding is None else {"values": encoding}
    pq.write_table(pa.table({"values": values}), sink, column_encoding=encodings, **options)
    file = sink.getvalue()
    column = pq.read_metadata(pa.BufferReader(file)).row_group(0).column(0)
    start = column.dictionary_page_offset if encoding is None else column.data_page_offset
    chunk = file.slice(start, column.total_compressed_size)
    most_bytes = 1 << 30
    assert decode_chunk(chunk, None, shape, rows, most_bytes) is not None
    return f"decode_chunk {name}", rows, lambda: decode_chunk(chunk, None, shape, rows, most_bytes)


def cases(rows: int) -> Iterator[Case]:
    columns = key_columns(rows)
    for kind, key in columns.items():
        yield from key_cases(kind, key)
        yield from merge_cases(kind, key)
    yield from bucket_cases(columns["int64"][0])
    yield from checksum_cases(rows)
    yield from chunk_cases(rows)


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
