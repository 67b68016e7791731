"""Reads of single keys beside rocksdict: `python -m bench.point_get`.

Both stores hold the same rows and are asked for the same keys in turn, warm; the best round counts, by processor
time of the process. rocksdict gives bytes, as in `bench.compare`; with `unpacked` its rows are made Python values
too, which is what a get of lsmerge returns. Read the ratios, never the times.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import lsmerge
from bench.stores.packed_rows import pack_key, pack_rows, unpack_value
from bench.stores.rocksdict_store import RocksdictStore
from bench.workload import KEY, SCHEMA, generate
from lsmerge_native.watch import DirectoryEvents, DirectoryWatch

SEED = 5
GETS = 2_000
MANY = 20_000
FEW = 10
KEEP_RUNS = {"bucket": "1", "num-sorted-run.compaction-trigger": "20"}
SHAPES = ("1 run", "6 runs", "compacted")


@dataclass(frozen=True)
class Keys:
    """A kind of key: the column, made of the workload's numbers, and its bytes for rocksdict."""

    name: str
    type: pa.DataType
    column: Callable[[pa.Array], pa.Array]
    pack: Callable[[Any], bytes]


def _texts(numbers: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise("customer-key", pc.cast(numbers, pa.string()), "/")


KEYS = (
    Keys("int64", pa.int64(), lambda numbers: numbers, pack_key),
    Keys("string", pa.string(), _texts, str.encode),
)


class Pair:
    """One table of lsmerge and one of rocksdict with the same rows."""

    def __init__(self, directory: Path, keys: Keys) -> None:
        self._keys = keys
        schema = pa.schema([pa.field(KEY, keys.type, nullable=False), *list(SCHEMA)[1:]])
        self.table = lsmerge.create_table(directory / "table", schema, KEY, options=KEEP_RUNS)
        directory.joinpath("rocks").mkdir()
        self.rocks = RocksdictStore(directory / "rocks", SCHEMA)
        self.directory = directory

    def upsert(self, rows: pa.Table) -> None:
        keys = self._keys.column(rows[KEY].combine_chunks())
        self.table.upsert(rows.set_column(0, pa.field(KEY, keys.type, nullable=False), keys))
        values = [value for _, value in pack_rows(rows)]
        self.rocks.upsert(list(zip(map(self._keys.pack, keys.to_pylist()), values, strict=True)))

    def compact(self) -> None:
        self.table.compact(full=True)
        self.rocks.compact()

    def contests(self, numbers: pa.Array) -> "list[Contest]":
        """What is measured with these keys, all of which have a row."""
        db, pack = self.rocks._db, self._keys.pack
        found = self._keys.column(numbers)
        keys = found.slice(0, GETS).to_pylist()
        absent = self._keys.column(pc.add(numbers.slice(0, GETS), 1)).to_pylist()
        packed = [pack(key) for key in found.to_pylist()]
        table = pa.table({KEY: found})
        few = [keys[i : i + FEW] for i in range(0, GETS, FEW)]
        few_packed = [packed[i : i + FEW] for i in range(0, GETS, FEW)]
        get = self.table.get
        return [
            Contest(
                "get", GETS, lambda: [get(k) for k in keys], lambda: [db.get(pack(k)) for k in keys]
            ),
            Contest(
                "get, unpacked",
                GETS,
                lambda: [get(k) for k in keys],
                lambda: [unpack_value(db.get(pack(k))) for k in keys],
            ),
            Contest(
                "get of absent keys",
                GETS,
                lambda: [get(k) for k in absent],
                lambda: [db.get(pack(k)) for k in absent],
            ),
            Contest(
                f"get_many of {FEW}",
                GETS,
                lambda: [self.table.get_many(some) for some in few],
                lambda: [db.get(some) for some in few_packed],
            ),
            Contest(
                f"get_many of {len(found):,}",
                len(found),
                lambda: self.table.get_many(table),
                lambda: db.get(packed),
            ),
        ]


@dataclass(frozen=True)
class Contest:
    """The same keys asked of both stores."""

    name: str
    count: int
    ours: Callable[[], Any]
    theirs: Callable[[], Any]


def best_seconds(works: Sequence[Callable[[], Any]], repeat: int) -> list[float]:
    """Processor time of each, best of some rounds in which they take turns; the first is not counted."""
    best = [float("inf")] * len(works)
    for turn in range(repeat + 1):
        for number, work in enumerate(works):
            start = time.process_time()
            work()
            seconds = time.process_time() - start
            best[number] = min(best[number], seconds) if turn else best[number]
    return best


def report(pair: Pair, keys: Keys, shape: str, numbers: pa.Array, repeat: int) -> None:
    time.sleep(0.2)  # a table that was changed just now is looked at more closely
    for contest in pair.contests(numbers):
        ours, theirs = best_seconds([contest.ours, contest.theirs], repeat)
        print(
            f"| {keys.name} | {shape} | {contest.name} | {contest.count / ours / 1e3:,.0f} "
            f"| {contest.count / theirs / 1e3:,.0f} | {theirs / ours:.2f}x |",
            flush=True,
        )


def report_watch(directory: Path, repeat: int) -> None:
    """What it costs to know that nothing has changed, as the kernel's events and as times tell."""
    table = directory / "table"
    by_events, by_times = (
        DirectoryWatch(
            [os.open(table / name, os.O_RDONLY) for name in ("snapshot", "schema")],
            10**9,
            0,
            events,
        )
        for events in (DirectoryEvents(), None)
    )
    seconds = best_seconds(
        [
            lambda: [by_events.is_unchanged() for _ in range(GETS)],
            lambda: [by_times.is_unchanged() for _ in range(GETS)],
        ],
        repeat,
    )
    events, times = (one / GETS * 1e9 for one in seconds)
    print(
        f"\nOf each get, to know that nothing changed takes {events:,.0f} ns; by times {times:,.0f} ns.\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=7)
    arguments = parser.parse_args()
    workload = generate(arguments.rows, SEED)
    numbers = workload.lookup_keys.slice(0, MANY)
    print(
        "| key | shape | work | lsmerge, k/s | rocksdict, k/s | ratio |\n|---|---|---|---:|---:|---:|"
    )
    for keys in KEYS:
        with tempfile.TemporaryDirectory() as directory:
            pair = Pair(Path(directory), keys)
            for shape in SHAPES:
                if shape == "1 run":
                    pair.upsert(workload.commits[0])
                elif shape == "6 runs":
                    for commit in workload.commits[1:]:
                        pair.upsert(commit)
                else:
                    pair.compact()
                report(pair, keys, shape, numbers, arguments.repeat)
            report_watch(pair.directory, arguments.repeat)
            pair.rocks.close()


if __name__ == "__main__":
    main()
