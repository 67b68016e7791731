"""S2: one list of operations under many sets of options that must not change an answer.

What is compared: rows after each tenth of the list, every point read, and the rows of a tag.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

import lsmerge
from tests.long.figures import Tally
from tests.long.scripts import ENGINES, SCHEMA, register
from tests.long.stages import scratch

KEYS = 60
KINDS = ("upsert", "upsert", "upsert", "write", "delete", "compact", "full", "reopen", "get")


@dataclass(frozen=True)
class Operation:
    kind: str
    rows: tuple[tuple[int, int, int, str], ...] = ()


def operations(seed: int, count: int) -> Iterator[Operation]:
    """A list that depends on the seed alone. No two rows share their place in an order by `s`."""
    draw = random.Random(seed)
    moment = 0
    for _ in range(count):
        rows = []
        for _ in range(draw.randint(1, 8)):
            moment += 1
            text = "x" * draw.choice([0, 3, 200])
            rows.append((draw.randrange(KEYS), moment, draw.randint(-5, 5), f"{moment} {text}"))
        yield Operation(draw.choice(KINDS), tuple(rows))


def option_sets(seed: int, count: int) -> Iterator[dict[str, str]]:
    """Options that say how rows are stored, never what they mean."""
    draw = random.Random(seed)
    for _ in range(count):
        yield {
            "bucket": draw.choice(["1", "2", "7", "-1"]),
            "file.format": draw.choice(["arrow", "parquet"]),
            "file.block-size": draw.choice(["4 kb", "64 kb", "1 mb"]),
            "file.compression": draw.choice(["none", "lz4", "zstd"]),
            "target-file-size": draw.choice(["4 kb", "64 kb", "128 mb"]),
            "write-buffer-size": draw.choice(["4 kb", "64 kb", "16 mb"]),
            "scan.memory-budget": draw.choice(["64 kb", "1 mb", "64 mb"]),
            "num-sorted-run.compaction-trigger": draw.choice(["2", "3", "5"]),
            "write-only": draw.choice(["true", "false"]),
            "lookup.cache-max-memory-size": draw.choice(["64 kb", "64 mb"]),
            "lookup.cache-max-disk-size": draw.choice(["0", "256 kb", "10 gb"]),
        }


def answers(uri: str, engine: str, options: dict[str, str], seed: int, count: int) -> list[Any]:
    """All that a user is told on the way."""
    lsmerge.create_table(uri, SCHEMA, "k", options=ENGINES[engine] | options).close()
    table = lsmerge.open_table(uri)
    told: list[Any] = []
    for number, operation in enumerate(operations(seed, count)):
        table = _apply(table, uri, engine, operation, told)
        if number == count // 2:
            table.create_tag("middle")
        if number % max(1, count // 10) == 0:
            told.append(_rows(table.scan()))
    told.append(_rows(table.scan(tag="middle")))
    table.close()
    return told


def _apply(
    table: lsmerge.Table, uri: str, engine: str, operation: Operation, told: list[Any]
) -> lsmerge.Table:
    rows = [dict(zip(SCHEMA.names, row, strict=True)) for row in operation.rows]
    if operation.kind == "compact" or operation.kind == "full":
        table.compact(full=operation.kind == "full")
    elif operation.kind == "reopen":
        table.close()
        return lsmerge.open_table(uri)
    elif operation.kind == "get":
        found = table.get_many([row["k"] for row in rows]).to_pylist()
        told.append(sorted(tuple(row.values()) for row in found))
    elif operation.kind == "delete" and engine in ("deduplicate", "custom"):
        table.delete([row["k"] for row in rows])
    elif operation.kind == "write":
        with table.writer() as writer:
            for row in rows:
                writer.write(pa.Table.from_pylist([row], schema=SCHEMA))
    else:
        table.upsert(pa.Table.from_pylist(rows, schema=SCHEMA))
    return table


def _rows(scan: Any) -> list[Any]:
    return sorted(tuple(row.values()) for row in scan.to_arrow().to_pylist())


def compare(engine: str, seed: int, sets: int, count: int) -> Tally:
    """The same list under so many sets of options gives the same answers."""
    register()
    tally = Tally()
    with scratch() as root:
        right = answers(str(root / "plain"), engine, {}, seed, count)
        for number, options in enumerate(option_sets(seed, sets)):
            check = partial(_same, right, str(root / f"t{number}"), engine, options, seed, count)
            tally.attempt((engine, seed, options), check)
    tally.notes["operations"] = count * (sets + 1)
    return tally


def _same(
    right: list[Any], uri: str, engine: str, options: dict[str, str], seed: int, count: int
) -> None:
    found = answers(uri, engine, options, seed, count)
    different = [n for n, pair in enumerate(zip(found, right, strict=True)) if pair[0] != pair[1]]
    if different:
        raise AssertionError(f"answers {different[:5]} differ")
