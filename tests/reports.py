"""Tables and figures for tests of the report: none, usual, very many, and hostile ones."""

import dataclasses
import functools
import random
from datetime import UTC, datetime, timedelta

import pyarrow as pa

import lsmerge
from lsmerge.engine import opening
from lsmerge.env import Env
from lsmerge.report.figures import Bucket, Event, Figures, File
from lsmerge.storage.object_store import open_store
from lsmerge.table import Table

HOSTILE = (
    "<script>alert(1)</script>\"'&\u202e\x00]]>--><img src=http://evil.invalid/x onerror=alert(2)>"
)
START = datetime(2025, 6, 15, 12, tzinfo=UTC)


def orders(uri: str, commits: int = 48) -> lsmerge.Table:
    """A table that was written to for a day, always the same one."""
    clock, chance = [int(START.timestamp() * 1000)], random.Random(3)
    env = dataclasses.replace(Env.seeded(5), now_ms=lambda: clock[0])
    schema = pa.schema(
        {"day": pa.string(), "order_id": pa.int64(), "status": pa.string(), "amount": pa.float64()}
    )
    options = {
        "bucket": 2,
        "changelog-producer": "lookup",
        "target-file-size": "20 kb",
        "num-sorted-run.compaction-trigger": 4,
    }
    key = ["day", "order_id"]
    context = opening.create(open_store(uri), schema, key, "day", options, exist_ok=False, env=env)
    table = Table(context)
    for number in range(commits):
        clock[0] += chance.randint(20_000, 900_000)
        low = chance.randint(0, 12_000) if number % 3 else 0
        keys = chance.sample(range(low, low + 10_000), chance.choice([100, 500, 2000, 4000]))
        table.upsert(
            pa.table(
                {
                    "day": ["mon" if key % 3 else "tue" for key in keys],
                    "order_id": keys,
                    "status": [chance.choice(["new", "paid", "sent"]) for _ in keys],
                    "amount": [round(chance.random() * 100, 2) for _ in keys],
                }
            )
        )
    table.create_tag("end-of-day")
    return table


def figures(**changes) -> Figures:
    empty = Figures(
        uri="memory://shop/orders",
        primary_key=("k",),
        partition_by=(),
        columns=(("k", "int64"),),
        options=(),
        buckets=(),
        history=(),
        tags=(),
        consumers=(),
    )
    return dataclasses.replace(empty, **changes)


def bucket(number: int, num_runs: int = 3, num_files: int = 5) -> Bucket:
    def file(run: int, position: int) -> File:
        low = position * 100 + run
        return File(run, 1000, 10_000 * (run + 1), (low,), (low + 90,))

    runs = tuple(tuple(file(r, f) for f in range(num_files if r else 1)) for r in range(num_runs))
    return Bucket(f"day = {number % 7}, bucket {number}", runs)


def event(number: int, kind: str = "append", **changes) -> Event:
    usual = Event(
        id=number,
        time=START + timedelta(seconds=17 * number),
        kind=kind,
        user="writer",
        rows=100 + number % 50,
        bytes_added=5000 + number % 977,
        files_added=2,
        files_removed=0,
        changelog_rows=100,
        changelog_bytes=2000,
    )
    return dataclasses.replace(usual, **changes)


@functools.cache
def many() -> Figures:
    """1,000 buckets, some of very many files and runs, and 10,000 snapshots."""
    kinds = ("append", "append", "append", "compact")
    return figures(
        buckets=tuple(bucket(n, 40, 300) if n % 100 == 0 else bucket(n) for n in range(1000)),
        history=tuple(event(n, kinds[n % 4]) for n in range(1, 10_001)),
        tags=tuple((f"tag-{n}", n) for n in range(500)),
        options=(("changelog-producer", "lookup"),),
    )


def hostile() -> Figures:
    """Names that want to be more than names, everywhere one can be."""
    file = File(0, 1, 10, (HOSTILE,), (HOSTILE * 20,))
    return figures(
        uri=f"memory://{HOSTILE}",
        primary_key=(HOSTILE,),
        partition_by=(HOSTILE,),
        columns=((HOSTILE, HOSTILE),),
        options=((HOSTILE, HOSTILE), ("merge-engine", HOSTILE), ("changelog-producer", HOSTILE)),
        buckets=tuple(Bucket(f"{HOSTILE} = {n}", ((file,),)) for n in range(20)),
        history=(event(1, HOSTILE, user=HOSTILE),),
        tags=((HOSTILE, 1),),
        consumers=((HOSTILE, 1),),
    )
