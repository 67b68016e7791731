"""The life of one store in one process: `python -m bench.run_store NAME WORKLOAD DIRECTORY`.

Prints one JSON object on the last line of standard output: the figures, and the digests of every
answer for `bench.compare` to check. An answer is digested outside the clock.
"""

import argparse
import gc
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.digest import Digest, digest
from bench.registry import StoreEntry, entry
from bench.stores import Store, open_store
from bench.stores.packed_rows import unpack_value
from bench.workload import SCHEMA, Workload, load

READ_TIMES = 3
ABSENT_KEY = -1


def measure(store: Store, workload: Workload, store_entry: StoreEntry, directory: Path) -> dict:
    """Runs every operation once in a fixed order; reads are the best of a few."""
    figures: dict[str, float] = {}
    answers: dict[str, Any] = {}

    ingest_seconds = sum(_timed_upsert(store, commit) for commit in workload.commits)
    figures["ingest_rows_per_s"] = workload.ingest_rows / ingest_seconds

    seconds, answers["after_ingest"] = _timed_scan(store)
    figures["scan_rows_per_s"] = answers["after_ingest"]["rows"] / seconds
    figures["size_bytes"] = disk_bytes(directory)

    seconds, answers["single_rows"] = _timed_gets(store, workload.single_keys[: store_entry.gets])
    figures["gets_per_s"] = len(answers["single_rows"]) / seconds
    answers["absent"] = store.get(ABSENT_KEY) is None

    seconds, answers["lookup"] = _timed_get_many(store, workload)
    figures["get_many_rows_per_s"] = len(workload.lookup_keys) / seconds

    figures["small_upsert_rows_per_s"] = workload.small_upsert.num_rows / _timed_upsert(
        store, workload.small_upsert
    )
    compact_seconds, compacted = _timed(store.compact)
    seconds, answers["after_small_upsert"] = _timed_scan(store)
    rows = answers["after_small_upsert"]["rows"]
    figures["scan_end_rows_per_s"] = rows / seconds
    if compacted:
        figures["compact_rows_per_s"] = rows / compact_seconds
    store.reclaim()
    store.close()
    figures["size_end_bytes"] = disk_bytes(directory)
    figures["peak_rss_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"figures": figures, "answers": answers}


def disk_bytes(directory: Path) -> int:
    """Allocated bytes under a directory; a sparse file counts for what it really takes."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return sum(path.stat().st_blocks * 512 for path in files)


def _timed(operation: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and the answer, with no collection of earlier garbage inside the clock."""
    gc.collect()
    start = time.perf_counter()
    answer = operation()
    return time.perf_counter() - start, answer


def _timed_upsert(store: Store, rows: Any) -> float:
    prepared = store.prepare(rows)
    seconds, _ = _timed(lambda: store.upsert(prepared))
    return seconds


def _timed_scan(store: Store) -> tuple[float, Digest]:
    return _best_read(store, store.scan)


def _timed_get_many(store: Store, workload: Workload) -> tuple[float, Digest]:
    keys = store.prepare_keys(workload.lookup_keys)
    return _best_read(store, lambda: store.get_many(keys))


def _best_read(store: Store, read: Callable[[], Any]) -> tuple[float, Digest]:
    """The best of a few reads, and the digest of the last; each answer is freed before the next."""
    best = float("inf")
    for _ in range(READ_TIMES):
        answer = None
        seconds, answer = _timed(read)
        best = min(best, seconds)
    return best, digest(store.to_arrow(answer), SCHEMA)


def _timed_gets(store: Store, keys: list[int]) -> tuple[float, list[Iterable[Any]]]:
    """Single gets, warm: the first pass is not timed."""
    for key in keys:
        store.get(key)
    seconds, found = _timed(lambda: [store.get(key) for key in keys])
    return seconds, [_row(key, answer) for key, answer in zip(keys, found, strict=True)]


def _row(key: int, answer: Any) -> list[Any]:
    """The answer of a single get as plain values, whatever the store's form of a row."""
    if isinstance(answer, bytes):
        return [key, *unpack_value(answer)]
    return list(answer.values() if isinstance(answer, dict) else answer or ())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("workload", type=Path)
    parser.add_argument("directory", type=Path)
    arguments = parser.parse_args()
    store_entry = entry(arguments.name)
    workload = load(arguments.workload)
    store = open_store(arguments.name, arguments.directory, SCHEMA)
    result = measure(store, workload, store_entry, arguments.directory)
    result["note"] = store.note
    result["version"] = version(arguments.name)
    # A library may have printed to standard output; the result is its last line.
    sys.stdout.write("\n" + json.dumps(result) + "\n")
    sys.stdout.flush()
    # Some peers keep threads that make an orderly exit slow; everything is closed by now.
    os._exit(0)


if __name__ == "__main__":
    main()
