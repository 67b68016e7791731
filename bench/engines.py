"""Merged scans of six overlapping runs, engine by engine: `python -m bench.engines`.

The same rows are scanned with every engine, alternating; the best of the repetitions counts.
Read the ratios to deduplicate on the same columns, never the times.
"""

import argparse
import tempfile
import time
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

import lsmerge
from lsmerge.mergers import MergeGroups, Record

SEED = 11
RUNS = 6
KEEP_RUNS = {"num-sorted-run.compaction-trigger": "20"}


class Totals:
    """What the aggregation contest does, as a merger: sum and maximum, of the others the newest value."""

    sees_deletes = False

    def merge(self, older: Record, newer: Record) -> dict[str, object]:
        total = (older["total"] or 0) + (newer["total"] or 0)
        return newer.replace(total=total, peak=max(older["peak"] or 0, newer["peak"] or 0))


class TotalsInBatches(Totals):
    """The same for many keys at once."""

    def merge_batch(self, groups: MergeGroups) -> pa.RecordBatch:
        numbers = pa.table(
            {"g": groups.group_numbers(), **{n: groups.rows[n] for n in ("total", "peak")}}
        )
        by_key = numbers.group_by("g", use_threads=False)
        folded = by_key.aggregate([("total", "sum"), ("peak", "max")])
        merged = groups.newest()
        for name, values in (("total", folded["total_sum"]), ("peak", folded["peak_max"])):
            place = merged.schema.get_field_index(name)
            column = values.combine_chunks().fill_null(0)
            merged = merged.set_column(place, merged.schema.field(place), column)
        return merged


def registered(name: str, merger: type) -> dict[str, str]:
    """The options of a table with this merger."""
    lsmerge.register_merger(name, merger)
    return {"record.merge.mode": "custom", "record.merge.strategy-id": name}


@dataclass(frozen=True)
class Contest:
    """An engine, and the columns it and deduplicate are compared on."""

    name: str
    columns: dict[str, pa.DataType]
    options: dict[str, str] = field(default_factory=dict)


AGGREGATED = {
    "total": pa.int64(),
    "peak": pa.int64(),
    "latest": pa.float64(),
    "names": pa.string(),
}
WIDE = {f"c{i}": pa.int64() if i % 2 else pa.string() for i in range(20)}
CONTESTS = [
    Contest(
        "aggregation (sum, max, last_non_null, listagg)",
        AGGREGATED,
        {
            "merge-engine": "aggregation",
            "fields.total.aggregate-function": "sum",
            "fields.peak.aggregate-function": "max",
            "fields.names.aggregate-function": "listagg",
        },
    ),
    Contest("partial-update, 20 columns", WIDE, {"merge-engine": "partial-update"}),
    Contest("first-row", AGGREGATED, {"merge-engine": "first-row"}),
    Contest("custom, merge_batch", AGGREGATED, registered("totals-in-batches", TotalsInBatches)),
    Contest("custom, merge row by row", AGGREGATED, registered("totals", Totals)),
]


def batches(columns: dict[str, pa.DataType], rows: int) -> list[pa.Table]:
    """A base of `rows` keys, then upserts of a fifth each, a third of the values null."""
    rng = np.random.default_rng(SEED)
    sizes = [rows] + [rows // 5] * (RUNS - 1)
    keys = [rng.permutation(rows)] + [rng.integers(0, rows, size) for size in sizes[1:]]
    return [
        pa.table({"k": key} | {n: _values(rng, t, len(key)) for n, t in columns.items()})
        for key in keys
    ]


def _values(rng: np.random.Generator, type_: pa.DataType, count: int) -> pa.Array:
    numbers = rng.integers(0, 1000, count)
    absent = rng.random(count) < 1 / 3
    if type_ == pa.string():
        return pa.array([f"v{n}" for n in numbers.tolist()], type_, mask=absent)
    return pa.array(numbers.astype(type_.to_pandas_dtype()), type_, mask=absent)


def table(uri: str, data: list[pa.Table], options: dict[str, str]) -> lsmerge.Table:
    made = lsmerge.create_table(uri, data[0].schema, "k", options=options | KEEP_RUNS)
    for batch in data:
        made.upsert(batch)
    return made


def best_seconds(tables: list[lsmerge.Table], repeat: int) -> list[float]:
    best = [float("inf")] * len(tables)
    for _ in range(repeat):
        for number, made in enumerate(tables):
            started = time.perf_counter()
            made.scan().to_arrow()
            best[number] = min(best[number], time.perf_counter() - started)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", default="", help="contests whose name has this text")
    given = parser.parse_args()
    print("| merged scan of six runs | M rows/s | of deduplicate on the same columns |")
    print("|---|---:|---:|")
    for contest in [contest for contest in CONTESTS if given.only in contest.name]:
        with tempfile.TemporaryDirectory(prefix="engines-") as directory:
            data = batches(contest.columns, given.rows)
            pair = [
                table(f"{directory}/deduplicate", data, {}),
                table(f"{directory}/engine", data, contest.options),
            ]
            plain, merged = best_seconds(pair, given.repeat)
        rate = given.rows / merged / 1e6
        print(f"| {contest.name} | {rate:.2f} | {plain / merged:.0%} |")


if __name__ == "__main__":
    main()
