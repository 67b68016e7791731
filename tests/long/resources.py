"""M1, M2, M3: memory budgets at size, what open tables take after thousands of turns, how large things may be."""

import gc
import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import lsmerge
from tests.long.figures import Tally
from tests.long.scripts import SCHEMA, rows
from tests.long.stages import scratch

ROOT = Path(__file__).parent.parent.parent
MOST_BYTES_A_CYCLE = 1024
# Until then caches fill and allocators settle: marks of expiry alone remember 300 commits.
WARM_UP = 400
# What Python's own caches may take or give between two looks.
STRAY_OBJECTS = 50


def ceilings(rows: int) -> Tally:
    """M1: the paths of tests/test_memory.py, each in a process that may not take more than its budget and a quarter."""
    tally = Tally(tried=rows)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_memory.py"],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"LSMERGE_MEMORY_ROWS": str(rows)},
    )
    if done.returncode != 0:
        tally.violations.append(done.stdout[-3000:])
    return tally


def cycles(count: int) -> Tally:
    """M2: open, write, read, close, again and again: memory, objects and descriptors stay."""
    tally = Tally()
    with scratch() as root:
        uri = str(root / "table")
        options = {"snapshot.num-retained.max": "3", "num-sorted-run.compaction-trigger": "3"}
        lsmerge.create_table(uri, SCHEMA, "k", options=options).close()
        for number in range(WARM_UP):
            _cycle(uri, number)
        gc.collect()
        # The list of all objects is large, and its memory is kept: it is made before memory is looked at.
        objects, descriptors, before = len(gc.get_objects()), _descriptors(), _resident()
        for number in range(count):
            tally.attempt(number, partial(_cycle, uri, number))
        growth = (_resident() - before) / count
        more = len(gc.get_objects()) - objects
        tally.notes["bytes a cycle"] = round(growth)
        tally.notes["objects more"] = max(0, more)
        if growth > MOST_BYTES_A_CYCLE:
            tally.violations.append(f"memory grows by {growth:.0f} bytes a cycle")
        if more > STRAY_OBJECTS:
            tally.violations.append(f"{more} objects are left")
        if _descriptors() != descriptors:
            tally.violations.append("descriptors were left open")
    return tally


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _cycle(uri: str, number: int) -> None:
    with lsmerge.open_table(uri) as table:
        table.upsert(rows(number, [number % 50]))
        table.get(number % 50)
        table.scan().count()


def _resident() -> int:
    """Memory of our own in use; pages of libraries come as their code is run for the first time."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    with open("/proc/self/status") as status:
        return 1024 * next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))


def large_value(uri: str) -> None:
    _holds(uri, {"k": pa.int64(), "v": pa.string()}, [{"k": 1, "v": "x" * (64 << 20)}])


def long_key(uri: str) -> None:
    _holds(uri, {"k": pa.string(), "v": pa.int64()}, [{"k": "x" * (64 << 10), "v": 1}])


def many_columns(uri: str) -> None:
    names = [f"c{number}" for number in range(10_000)]
    columns = {"k": pa.int64(), **dict.fromkeys(names, pa.int64())}
    _holds(uri, columns, [{"k": 1, **dict.fromkeys(names, 7)}])


def many_partitions(uri: str) -> None:
    schema = pa.schema({"p": pa.int64(), "k": pa.int64()})
    table = lsmerge.create_table(uri, schema, ["p", "k"], partition_by="p")
    table.upsert({"p": list(range(4096)), "k": [1] * 4096})
    assert len(table.partitions()) == table.scan().count() == 4096


def many_buckets(uri: str) -> None:
    table = lsmerge.create_table(uri, pa.schema({"k": pa.int64()}), "k", options={"bucket": "1024"})
    table.upsert({"k": list(range(10_000))})
    assert table.scan().count() == 10_000


def many_snapshots(uri: str, count: int) -> None:
    table = lsmerge.create_table(uri, pa.schema({"k": pa.int64()}), "k")
    for number in range(count):
        table.upsert({"k": [number % 7]})
    assert len(lsmerge.open_table(uri).snapshots()) >= count
    assert table.scan().count() == 7


LIMITS: list[Callable[[str], None]] = [
    large_value,
    long_key,
    many_columns,
    many_partitions,
    many_buckets,
]
_names = itertools.count()


def limit(number: int) -> Tally:
    """M3: what is large works."""
    tally = Tally()
    tally.attempt(LIMITS[number].__name__, lambda: LIMITS[number](f"memory://limit-{next(_names)}"))
    return tally


def long_history(snapshots: int) -> Tally:
    """M3: a table with so many snapshots, all kept."""
    tally = Tally()
    uri = f"memory://limit-{next(_names)}"
    tally.attempt(f"{snapshots} snapshots", lambda: many_snapshots(uri, snapshots))
    return tally


def _holds(uri: str, columns: dict[str, Any], wanted: list[dict[str, Any]]) -> None:
    table = lsmerge.create_table(uri, pa.schema(columns), "k")
    table.upsert(wanted)
    table.compact(full=True)
    assert table.scan().to_arrow().to_pylist() == wanted
    assert table.get(wanted[0]["k"]) == wanted[0]
