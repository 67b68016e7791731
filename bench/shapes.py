"""Keys and rows of other shapes beside the int64 case, per byte: `python -m bench.shapes`.

Every shape has a base of so many rows that its Arrow bytes are alike, and five upserts of a fifth each. A figure is
bytes a second of the shape over those of the int64 case, in processor time; works of all shapes are taken in turn.
Bytes are those of the rows as Arrow holds them: rows given for ingest, rows read for a scan and a compaction, rows
found for get_many.
"""

import argparse
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import lsmerge
from bench.measuring import Spent, best, spent

SEED = 5
UPSERTS = 5
LOOKUPS = 20_000
KEEP_RUNS = {"num-sorted-run.compaction-trigger": "20"}
WORKS = ("ingest", "merged scan", "full compaction", "compacted scan", "get_many")
GOAL = 0.4


@dataclass(frozen=True)
class Shape:
    """Columns of a table made from the numbers of its keys."""

    name: str
    key: tuple[str, ...]
    columns: Callable[[np.ndarray, np.random.Generator], dict[str, pa.Array]]

    def rows(self, numbers: np.ndarray, rng: np.random.Generator) -> pa.Table:
        return pa.table(self.columns(numbers, rng))


def _payload(numbers: np.ndarray, rng: np.random.Generator) -> dict[str, pa.Array]:
    """What the int64 case has beside its key."""
    count = len(numbers)
    return {
        "amount": pa.array(rng.integers(-1_000_000, 1_000_000, count)),
        "price": pa.array(rng.integers(0, 8_000_000, count) / 8),
        "name": _text("customer-", rng.integers(0, 5_000, count)),
        "note": _text("order/", rng.integers(0, 1 << 40, count)),
    }


def _text(prefix: str, numbers: np.ndarray) -> pa.Array:
    return pc.binary_join_element_wise(prefix, pa.array(numbers).cast(pa.string()), "")


def _wide(numbers: np.ndarray, rng: np.random.Generator, names: Sequence[str]) -> dict:
    """A column for each name: integers, doubles, short texts and nulls in turn."""
    count = len(numbers)

    def column(position: int) -> pa.Array:
        values = rng.integers(0, 1_000_000, count)
        if position % 4 == 0:
            return _text("v", values)
        if position % 4 == 1:
            return pa.array(values / 8)
        return pa.array(values, mask=rng.random(count) < 0.1 if position % 4 == 2 else None)

    return {name: column(position) for position, name in enumerate(names)}


SHAPES = (
    Shape("int64 key", ("k",), lambda n, rng: {"k": pa.array(n)} | _payload(n, rng)),
    Shape(
        "string key",
        ("k",),
        lambda n, rng: {"k": _text("customer/2024/", n)} | _payload(n, rng),
    ),
    Shape(
        "composite key (string, int64, int32)",
        ("region", "day", "k"),
        lambda n, rng: (
            {
                "region": _text("region-", n % 50),
                "day": pa.array(n // 1_000),
                "k": pa.array((n % 1_000).astype(np.int32)),
            }
            | _payload(n, rng)
        ),
    ),
    Shape(
        "wide key (8 columns of 6 types)",
        tuple(f"k{i}" for i in range(8)),
        lambda n, rng: (
            {
                "k0": pa.array((n % 7).astype(np.int8)),
                "k1": pa.array((n % 1_000).astype(np.int16)),
                "k2": _text("part-", n % 97),
                "k3": pa.array((n % 100_003).astype(np.int32)),
                "k4": pa.array((n % 20_000).astype(np.int32)).cast(pa.date32()),
                "k5": _text("", n % 11),
                "k6": pa.array(n * 1_000).cast(pa.timestamp("us")),
                "k7": pa.array(n),
            }
            | _payload(n, rng)
        ),
    ),
    Shape(
        "100 columns, int64 key",
        ("k",),
        lambda n, rng: {"k": pa.array(n)} | _wide(n, rng, [f"c{i}" for i in range(99)]),
    ),
)


@dataclass(frozen=True)
class Data:
    """The commits of a shape, and keys to look up."""

    shape: Shape
    commits: list[pa.Table]
    lookups: pa.Table


def data_of(shape: Shape, total_bytes: int) -> Data:
    """Commits whose base has about so many bytes."""
    rng = np.random.default_rng(SEED)
    row_bytes = shape.rows(np.arange(1_000), rng).nbytes / 1_000
    count = max(1_000, int(total_bytes / row_bytes))
    keys = [rng.permutation(count)] + [
        rng.choice(count, count // 5, replace=False) for _ in range(UPSERTS)
    ]
    commits = [shape.rows(numbers, rng) for numbers in keys]
    wanted = commits[0].slice(0, min(LOOKUPS, count // 10)).select(list(shape.key))
    return Data(shape, commits, wanted)


def life(directory: str, data: Data) -> dict[str, tuple[Spent, int]]:
    """Every work once in a new table: what it took, and the bytes it was about."""
    uri = f"{directory}/table"
    made = lsmerge.create_table(uri, data.commits[0].schema, data.shape.key, options=KEEP_RUNS)
    given = sum(commit.nbytes for commit in data.commits)
    figures = {"ingest": (spent(lambda: [made.upsert(rows) for rows in data.commits]), given)}
    visible = made.scan().to_arrow().nbytes
    figures["merged scan"] = (_best_of_three(lambda: made.scan().to_arrow()), given)
    figures["full compaction"] = (spent(lambda: made.compact(full=True)), given)
    figures["compacted scan"] = (_best_of_three(lambda: made.scan().to_arrow()), visible)
    found = made.get_many(data.lookups)
    assert found.num_rows == data.lookups.num_rows, data.shape.name
    figures["get_many"] = (_best_of_three(lambda: made.get_many(data.lookups)), found.nbytes)
    made.close()
    shutil.rmtree(uri)
    return figures


def _best_of_three(work: Callable[[], object]) -> Spent:
    return best([spent(work) for _ in range(3)])


def measured(directory: str, shapes: list[Data], repeat: int) -> dict[str, dict[str, float]]:
    """Megabytes a second of the processor, by shape and work, the best of several lives taken in turn."""
    rates: dict[str, dict[str, float]] = {data.shape.name: {} for data in shapes}
    for _ in range(repeat):
        for data in shapes:
            ours = rates[data.shape.name]
            for work, (taken, num_bytes) in life(directory, data).items():
                ours[work] = max(ours.get(work, 0.0), num_bytes / taken.processor / 1e6)
    return rates


def print_table(shapes: list[Data], rates: dict[str, dict[str, float]]) -> None:
    print("| shape | bytes a row | " + " | ".join(WORKS) + " |")
    print("|---|---:|" + "---:|" * len(WORKS))
    usual = rates[SHAPES[0].name]
    for data in shapes:
        base, ours = data.commits[0], rates[data.shape.name]
        cells = [f"{ours[w]:.0f} MB/s" if ours is usual else _share(ours, usual, w) for w in WORKS]
        row_bytes = base.nbytes / base.num_rows
        print(f"| {data.shape.name} | {row_bytes:.0f} | " + " | ".join(cells) + " |")
    print(f"\ngoal: {GOAL:.0%} or more of the int64 case, per byte; less is marked with !")


def _share(ours: dict[str, float], usual: dict[str, float], work: str) -> str:
    share = ours[work] / usual[work]
    return f"{share:.0%}" + ("" if share >= GOAL else " !")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=40, help="of the base of each shape")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="", help="shapes whose name has this text, and int64")
    given = parser.parse_args()
    chosen = [shape for shape in SHAPES if shape is SHAPES[0] or given.only in shape.name]
    shapes = [data_of(shape, given.megabytes * 1_000_000) for shape in chosen]
    with tempfile.TemporaryDirectory(prefix="shapes-") as directory:
        print_table(shapes, measured(directory, shapes, given.repeat))


if __name__ == "__main__":
    main()
