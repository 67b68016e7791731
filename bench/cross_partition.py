"""What it costs to know where keys live: `python -m bench.cross_partition --keys 1000000 --partitions 10,100,1000`.

Tables whose key leaves the partition open, fully compacted, get commits of 10,000 random keys (`--rows`). All rows name
one of ten partitions (a hundred where ten have too few keys), so that what is written is the same however many
partitions there are:

    plain       keys that stay, of a table whose key has the partition column: nothing to find, for comparison
    stay        keys of the ten, each in its own
    new         keys that are nowhere
    move        keys of the ten, each to another one of them
    back        the same keys again, to where they came from: two buckets know their hashes by then
    gather      keys of all partitions to the ten, which writes deletes to all of them

Each line is a process of its own on its own copy of the table: milliseconds of processor time of its first commit and
the best of five later ones, and by how much its memory grew at most. `--settings` tries other caches as well.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import lsmerge
from bench.measuring import spent

SCHEMA = pa.schema(
    [("p", pa.int32()), pa.field("k", pa.int64(), nullable=False), ("v", pa.float64())]
)
NEAR = 10
LATER = 5
FILL_ROWS = 1_000_000
SCRAMBLE = np.uint64(0x9E3779B97F4A7C15)
CASES = ("plain", "stay", "new", "move", "back", "gather")
SETTINGS = {
    "default": {},
    "16 MB": {"lookup.cache-max-memory-size": "16 mb"},
    "16 MB, disk": {"lookup.cache-max-memory-size": "16 mb", "lookup.cache-max-disk-size": "4 gb"},
}


def batch(numbers: np.ndarray, partitions: np.ndarray) -> pa.Table:
    """The rows of some keys, which are in no order."""
    keys = (numbers.astype(np.uint64) * SCRAMBLE) >> np.uint64(1)
    columns = [partitions.astype(np.int32), keys.astype(np.int64), numbers.astype(np.float64)]
    return pa.table(columns, schema=SCHEMA)


def fill(root: Path, count: int, partitions: int, key: list[str]) -> None:
    """Key number n lives in partition n % partitions."""
    options = {"bucket": "-1", "write-only": "true"}
    table = lsmerge.create_table(root, SCHEMA, key, partition_by=["p"], options=options)
    with table.writer() as writer:
        for start in range(0, count, FILL_ROWS):
            numbers = np.arange(start, min(count, start + FILL_ROWS))
            writer.write(batch(numbers, numbers % partitions))
    table.compact(full=True)


def commits(case: str, count: int, partitions: int, rows: int) -> Iterator[pa.Table]:
    """What is written, one commit after the other."""
    rng = np.random.default_rng(7)
    each = count // partitions
    near = NEAR if each * NEAR >= (1 + LATER) * rows else 10 * NEAR
    picked, share = rng.permutation(each), rows // near
    for number in range(1 + LATER):
        turn = number // 2 if case == "back" else number
        some = picked[turn * share : (turn + 1) * share]
        numbers = (some[:, None] * partitions + np.arange(near)).ravel()
        if case == "new":
            yield batch(count + number * rows + np.arange(rows), np.arange(rows) % NEAR)
        elif case == "gather":
            anywhere = rng.choice(count, size=rows, replace=False)
            yield batch(anywhere, (anywhere + 1) % NEAR)
        else:
            is_away = case == "move" or (case == "back" and number % 2 == 0)
            yield batch(numbers, (numbers % partitions + is_away) % near)


def measure(root: str, case: str, count: int, partitions: int, rows: int) -> None:
    """Run one line in this process; prints its figures as JSON."""
    _load_modules()
    table = lsmerge.open_table(root)
    before = _reset_peak()
    taken = [
        spent(lambda some=some: table.upsert(some)).processor
        for some in commits(case, count, partitions, rows)
    ]
    if case == "back":
        taken = [taken[1], *taken[3::2]]
    figures = {"first": taken[0], "later": min(taken[1:]), "kilobytes": _peak() - before}
    print(json.dumps(figures))


def _load_modules() -> None:
    """What a first commit imports is no matter of the table's size."""
    with tempfile.TemporaryDirectory(prefix="cross-") as directory:
        fill(Path(directory) / "small", 100, NEAR, ["k"])
        small = lsmerge.open_table(f"{directory}/small")
        for case in ("stay", "move"):
            for some in commits(case, 600, NEAR, 100):
                small.upsert(some)


def _reset_peak() -> int:
    """Kilobytes that this process takes; its peak is counted from here (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


def line(directory: Path, case: str, setting: str, size: tuple[int, int, int]) -> str:
    source = directory / ("plain" if case == "plain" else "open")
    copy = directory / "copy"
    shutil.copytree(source, copy, copy_function=os.link)
    if SETTINGS[setting]:
        lsmerge.open_table(copy).alter(options=SETTINGS[setting])
    command = [sys.executable, "-m", "bench.cross_partition", "--measure", str(copy), case]
    output = subprocess.run(
        [*command, *map(str, size)], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    shutil.rmtree(copy)
    figures = json.loads(output)
    count, partitions, _ = size
    return (
        f"| {count:,} | {partitions:,} | {setting} | {case} | {1000 * figures['first']:.0f} "
        f"| {1000 * figures['later']:.0f} | {figures['kilobytes'] / 1024:.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", default="1000000")
    parser.add_argument("--partitions", default="10,100,1000")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--settings", default="default", help=" | ".join(SETTINGS))
    parser.add_argument("--measure", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        root, case, *size = given.measure
        measure(root, case, *map(int, size))
        return
    print("| keys | partitions | caches | case | first, ms | later, ms | memory, MB |")
    print("|---:|---:|---|---|---:|---:|---:|", flush=True)
    for count in map(int, given.keys.split(",")):
        for partitions in map(int, given.partitions.split(",")):
            with tempfile.TemporaryDirectory(prefix="cross-") as directory:
                root = Path(directory)
                fill(root / "open", count, partitions, ["k"])
                fill(root / "plain", count, partitions, ["p", "k"])
                for setting in given.settings.split(";"):
                    for case in given.cases.split(","):
                        print(
                            line(root, case, setting, (count, partitions, given.rows)), flush=True
                        )


if __name__ == "__main__":
    main()
