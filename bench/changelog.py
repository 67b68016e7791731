"""What a changelog costs the writer: `python -m bench.changelog`.

Commits of --commit rows with random keys into a compacted table of --rows rows, with each producer, alternating;
the best of the repetitions counts, and the first is shown. The mean shows what compactions cost, which come after some
commits only: give a multiple of ten repetitions. The first lookup decodes the blocks that it meets, later
ones find them in the cache, in memory (--cache) or on local disk. Read the ratios to no producer, never the times.
Where the time of a lookup goes is measured in further commits, of which again the best counts for each part. Threads
beside the one that commits write and sync the run and help to copy: its own processor time is given too.
"""

import argparse
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc

import lsmerge
from lsmerge.engine import difference, look_ahead, unpublished
from lsmerge.meta.commit import Committer
from lsmerge.storage.posix_disk import PosixDisk

SEED = 17
BATCH_ROWS = 1_000_000
PRODUCERS = {
    "none": {},
    "input": {"changelog-producer": "input"},
    "lookup": {"changelog-producer": "lookup"},
    "lookup, row-deduplicate": {
        "changelog-producer": "lookup",
        "changelog-producer.row-deduplicate": "true",
    },
    "full-compaction after 10": {
        "changelog-producer": "full-compaction",
        "full-compaction.delta-commits": "10",
    },
}
# What a commit consists of: who does it, under which name.
PARTS: dict[str, tuple[object, str]] = {
    "writing the run": (unpublished, "write_unsynced"),
    "finding old rows": (difference, "find_newest"),
    "copying them between the new ones": (difference, "changes"),
    "writing the changelog": (look_ahead, "write_unsynced_changelog"),
    "writing the manifest": (Committer, "_prepare"),
    "publishing the snapshot": (Committer, "_publish"),
    "syncing, beside these or in them": (PosixDisk, "sync"),
}


@dataclass
class Contestant:
    """A table with one producer, and the seconds that its commits took."""

    name: str
    table: lsmerge.Table
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    own_seconds: list[float] = field(default_factory=list)

    def commit(self, rows: pa.Table) -> None:
        started, cpu, own = time.perf_counter(), time.process_time(), time.thread_time()
        self.table.upsert(rows)
        self.seconds.append(time.perf_counter() - started)
        self.cpu_seconds.append(time.process_time() - cpu)
        self.own_seconds.append(time.thread_time() - own)


@contextmanager
def timed_parts(seconds: dict[str, float], cpu_seconds: dict[str, float]) -> Iterator[None]:
    """Add up what the parts of a commit take."""

    def timed(part: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            started, cpu = time.perf_counter(), time.thread_time()
            try:
                return work(*given, **named)
            finally:
                seconds[part] += time.perf_counter() - started
                cpu_seconds[part] += time.thread_time() - cpu

        return call

    patches = [
        mock.patch.object(owner, name, timed(part, getattr(owner, name)))
        for part, (owner, name) in PARTS.items()
    ]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()


def print_parts(table: lsmerge.Table, commits: Sequence[pa.Table]) -> None:
    """Where the time of a lookup commit goes."""
    seconds: dict[str, list[float]] = defaultdict(list)
    cpu_seconds: dict[str, list[float]] = defaultdict(list)
    for commit in commits:
        once, cpu_once = defaultdict(float), defaultdict(float)
        with timed_parts(once, cpu_once):
            table.upsert(commit)
        for part in once:
            seconds[part].append(once[part])
            cpu_seconds[part].append(cpu_once[part])
    print("\n| part of a lookup commit | ms | processor ms |\n|---|---:|---:|")
    for part in PARTS:
        if part in seconds:
            print(
                f"| {part} | {min(seconds[part]) * 1e3:.1f} | {min(cpu_seconds[part]) * 1e3:.1f} |"
            )


def numbers(seed: int, below: int, count: int) -> pa.Array:
    """Random whole numbers."""
    return pc.floor(pc.multiply(pc.random(count, initializer=seed), float(below))).cast(pa.int64())


def rows_of(keys: pa.Array, seed: int = SEED) -> pa.Table:
    """Five columns of about 50 bytes together."""
    count = len(keys)
    return pa.table(
        {
            "k": keys,
            "amount": numbers(seed, 1_000_000, count),
            "price": pc.random(count, initializer=seed + 1),
            "status": pa.array(["new", "paid", "sent", "done"]).take(numbers(seed + 2, 4, count)),
            "note": numbers(seed + 3, 10**9, count).cast(pa.string()),
        }
    )


def filled(uri: str, rows: int, options: dict[str, str], cache: str) -> lsmerge.Table:
    """A compacted table of so many keys."""
    schema = rows_of(pa.array([0])).schema
    made = lsmerge.create_table(
        uri, schema, "k", options=options | {"lookup.cache-max-memory-size": cache}
    )
    with made.writer() as writer:
        for start in range(0, rows, BATCH_ROWS):
            writer.write(rows_of(pa.array(range(start, min(rows, start + BATCH_ROWS)))))
    made.compact(full=True)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--commit", type=int, default=20_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--cache", default="256 mb")
    parser.add_argument("--producers", nargs="+", choices=PRODUCERS, default=list(PRODUCERS))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="changelog-") as directory:
        contestants = [
            Contestant(name, filled(f"{directory}/{i}", given.rows, PRODUCERS[name], given.cache))
            for i, name in enumerate(given.producers)
        ]
        for turn in range(given.repeat):
            keys = numbers(100 * turn, given.rows, given.commit)
            commit = rows_of(keys, 100 * turn + 1)
            for contestant in contestants:
                contestant.commit(commit)
        print_contestants(contestants, f"{given.commit:,} rows into {given.rows:,}")
        for one in contestants:
            if one.name == "lookup":
                seeds = range(10**6, 10**6 + 100 * given.repeat, 100)
                commits = [rows_of(numbers(s, given.rows, given.commit), s + 1) for s in seeds]
                print_parts(one.table, commits)


def print_contestants(contestants: Sequence[Contestant], title: str) -> None:
    """Times, and their ratios to the first."""
    plain = min(contestants[0].seconds)
    print(f"| {title} | ms | ratio | processor ms | own thread ms | mean processor ms | first ms |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for one in contestants:
        best, cpu, first = min(one.seconds), min(one.cpu_seconds), one.seconds[0]
        mean = sum(one.cpu_seconds) / len(one.cpu_seconds)
        own = min(one.own_seconds)
        figures = f"{best * 1e3:.0f} | {best / plain:.2f} | {cpu * 1e3:.0f} | {own * 1e3:.0f}"
        print(f"| {one.name} | {figures} | {mean * 1e3:.0f} | {first * 1e3:.0f} |")


if __name__ == "__main__":
    main()
