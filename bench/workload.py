"""The one seeded workload that every store gets.

A base commit of `rows` rows, then five upsert commits of `rows / 5` rows each, then one small
upsert. Each commit has distinct keys in random order; four upserts in five hit a key of the base,
the fifth is a new key. The truth is computed here, with numpy and apart from every store: the last
row per key wins.

Doubles are multiples of 1/8 so that they print and sum exactly; no value is null.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.digest import Digest, digest

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("amount", pa.int64()),
        pa.field("price", pa.float64()),
        pa.field("name", pa.string()),
        pa.field("note", pa.string()),
    ]
)
KEY = "id"
UPSERT_COMMITS = 5
BATCH_ROWS = 20_000
SINGLE_GETS = 1_000


@dataclass(frozen=True)
class Workload:
    """Input of a run, in the order in which it is written, and the keys to look up."""

    commits: tuple[pa.Table, ...]
    small_upsert: pa.Table
    lookup_keys: pa.Array
    single_keys: list[int]

    @property
    def ingest_rows(self) -> int:
        return sum(commit.num_rows for commit in self.commits)


@dataclass(frozen=True)
class Answers:
    """What every store must answer, as digests of the rows sorted by key."""

    after_ingest: Digest
    after_small_upsert: Digest
    lookup: Digest
    single_rows: list[tuple[int | float | str, ...]]


def generate(rows: int, seed: int) -> Workload:
    """Makes the workload; the same (rows, seed) always gives the same bytes."""
    random = np.random.default_rng(seed)
    key_space = random.permutation(rows + rows // 5).astype(np.int64) * 7
    base = rows_of_keys(random, random.permutation(key_space[:rows]))
    upserts = [
        rows_of_keys(random, _upsert_keys(random, key_space, rows, rows // 5))
        for _ in range(UPSERT_COMMITS)
    ]
    batch_rows = max(1, min(BATCH_ROWS, rows // 5))
    known = random.permutation(key_space[:rows])
    return Workload(
        commits=(base, *upserts),
        small_upsert=rows_of_keys(random, _upsert_keys(random, key_space, rows, batch_rows)),
        lookup_keys=pa.array(known[:batch_rows]),
        single_keys=known[-SINGLE_GETS:].tolist(),
    )


def answers(workload: Workload) -> Answers:
    """The truth, found without any store."""
    ingested = _last_per_key(pa.concat_tables(workload.commits))
    upserted = _last_per_key(pa.concat_tables([ingested, workload.small_upsert]))
    looked_up = ingested.filter(pc.is_in(ingested[KEY], value_set=workload.lookup_keys))
    return Answers(
        after_ingest=digest(ingested),
        after_small_upsert=digest(upserted),
        lookup=digest(looked_up),
        single_rows=_rows_of(ingested, workload.single_keys),
    )


def save(workload: Workload, directory: Path) -> None:
    """Writes the workload for the store processes, so that all read the very same rows."""
    parts = {f"commit-{i}": commit for i, commit in enumerate(workload.commits)}
    parts["small-upsert"] = workload.small_upsert
    parts["lookup-keys"] = pa.table({KEY: workload.lookup_keys})
    parts["single-keys"] = pa.table({KEY: workload.single_keys})
    for name, table in parts.items():
        with pa.ipc.new_file(directory / f"{name}.arrow", table.schema) as writer:
            writer.write_table(table, max_chunksize=len(table) or 1)


def load(directory: Path) -> Workload:
    """Reads back what `save` wrote, wholly into memory."""
    commits = len(list(directory.glob("commit-*.arrow")))
    return Workload(
        commits=tuple(_load_part(directory, f"commit-{i}") for i in range(commits)),
        small_upsert=_load_part(directory, "small-upsert"),
        lookup_keys=_load_part(directory, "lookup-keys")[KEY].combine_chunks(),
        single_keys=_load_part(directory, "single-keys")[KEY].to_pylist(),
    )


def _load_part(directory: Path, name: str) -> pa.Table:
    with pa.ipc.open_file(directory / f"{name}.arrow") as reader:
        return reader.read_all()


def _upsert_keys(
    random: np.random.Generator, key_space: np.ndarray, rows: int, count: int
) -> np.ndarray:
    fresh = min(count // 5, len(key_space) - rows)
    old_keys = random.choice(key_space[:rows], count - fresh, replace=False)
    new_keys = random.choice(key_space[rows:], fresh, replace=False)
    return random.permutation(np.concatenate([old_keys, new_keys]))


def rows_of_keys(random: np.random.Generator, keys: np.ndarray) -> pa.Table:
    count = len(keys)
    amount = random.integers(-1_000_000, 1_000_000, count)
    price = random.integers(0, 8_000_000, count) / 8
    # A name of few distinct values and a note of many: what dictionaries like, and what not.
    name = pc.binary_join_element_wise("customer", _text(random.integers(0, 5_000, count)), "-")
    note = pc.binary_join_element_wise(
        "order", _text(random.integers(0, 1 << 40, count)), _text(keys), "/"
    )
    return pa.table([keys, amount, price, name, note], schema=SCHEMA)


def _rows_of(rows: pa.Table, keys: list[int]) -> list[tuple[int | float | str, ...]]:
    positions = pc.index_in(pa.array(keys), value_set=rows[KEY])
    return [tuple(row.values()) for row in rows.take(positions).to_pylist()]


def _text(numbers: np.ndarray) -> pa.Array:
    return pc.cast(pa.array(numbers), pa.string())


def _last_per_key(rows: pa.Table) -> pa.Table:
    """The newest row of each key; rows come oldest first."""
    newest_first = rows[KEY].to_numpy()[::-1]
    _, first_seen = np.unique(newest_first, return_index=True)
    return rows.take(pa.array(len(rows) - 1 - first_seen))
