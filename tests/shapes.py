"""Tables worth trying, and rows to try them with.

Keys are few, so that rows meet. The option sets make small data take every path: several runs per
commit, several blocks per file, both formats, both kinds of key kernels.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from hypothesis import strategies as st

from tests.model import Model


@dataclass(frozen=True)
class Shape:
    """A table to try: its key, its options, and the columns that give a delete its place."""

    key_types: dict[str, pa.DataType]
    options: dict[str, str] = field(default_factory=dict)
    sequence: Sequence[str] = ()
    partition_by: Sequence[str] = ()
    value_length: int = 0

    @property
    def schema(self) -> pa.Schema:
        key = [pa.field(name, type_, nullable=False) for name, type_ in self.key_types.items()]
        values = [("s", pa.int32()), ("v", pa.string()), ("tags", pa.list_(pa.string()))]
        return pa.schema([*key, *(pa.field(name, type_) for name, type_ in values)])

    def model(self) -> Model:
        return Model(self.schema.names, list(self.key_types), self.options)


ONE_INTEGER = {"k": pa.int64()}
TEXT_AND_INTEGER = {"t": pa.string(), "k": pa.int32()}
# The smallest sizes there are; together with long values they cut a few rows into several pieces.
MANY_RUNS = {"write-buffer-size": "4 kb"}
MANY_BLOCKS = {"file.block-size": "4 kb", "target-file-size": "4 kb"}
LONG = 1000
SEQUENCE = {"sequence.field": "s"}
DESCENDING = {"sequence.field": "s", "sequence.field.sort-order": "descending"}

SHAPES = {
    "plain": Shape(ONE_INTEGER),
    "text-key": Shape(TEXT_AND_INTEGER, {"bucket": "3"}),
    "many-runs": Shape(ONE_INTEGER, MANY_RUNS | SEQUENCE, ["s"]),
    "many-blocks": Shape(TEXT_AND_INTEGER, MANY_RUNS | MANY_BLOCKS, value_length=LONG),
    "parquet": Shape(
        ONE_INTEGER,
        MANY_BLOCKS | SEQUENCE | {"file.format": "parquet"},
        ["s"],
        value_length=LONG,
    ),
    "arrow": Shape(
        TEXT_AND_INTEGER,
        # One format and small targets: what overlaps nothing is moved from level to level.
        MANY_BLOCKS
        | DESCENDING
        | {"file.format": "arrow", "bucket": "3", "num-sorted-run.compaction-trigger": "3"},
        ["s"],
        value_length=LONG,
    ),
    "eager-compaction": Shape(
        ONE_INTEGER,
        MANY_RUNS | SEQUENCE | {"num-sorted-run.compaction-trigger": "2", "bucket": "2"},
        ["s"],
    ),
    "dynamic-buckets": Shape(
        TEXT_AND_INTEGER,
        MANY_RUNS | {"bucket": "-1", "dynamic-bucket.target-row-num": "2"},
    ),
    "partial-update": Shape(
        ONE_INTEGER,
        MANY_RUNS
        | {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    ),
    "sequence-group": Shape(
        TEXT_AND_INTEGER,
        MANY_RUNS | {"merge-engine": "partial-update", "fields.s.sequence-group": "v"},
        ["s"],
    ),
    "aggregation": Shape(
        ONE_INTEGER,
        MANY_BLOCKS | SEQUENCE | {"merge-engine": "aggregation"},
        ["s"],
        value_length=LONG,
    ),
    "partitioned": Shape(TEXT_AND_INTEGER, MANY_RUNS, partition_by=["t"]),
}

# Texts that share prefixes, hold the escape byte, sort oddly, and try to leave the table.
ODD_TEXTS = ["", "a", "ab", "a\x00", "a\x00b", "é", "..", "b/c"]
PLAIN_TEXTS = ["", "a", "ab", "é"]
TEXTS = st.sampled_from(ODD_TEXTS)
NUMBERS = st.integers(-2, 5)
SEQUENCES = st.none() | st.integers(-3, 3)
Draft = tuple[str, int, int | None, bool]
"""Text, number and sequence of a row, and whether its values are null."""


def large_batch(seed: int) -> list[Draft]:
    """Enough rows to overflow buffers and blocks, without a decision of Hypothesis for each."""
    draw = random.Random(seed)
    return [
        (
            draw.choice(ODD_TEXTS),
            draw.randint(-2, 25),
            draw.choice([None, *range(-3, 4)]),
            draw.random() < 0.2,
        )
        for _ in range(draw.randint(30, 100))
    ]


SMALL_BATCHES = st.lists(
    st.tuples(TEXTS, NUMBERS, SEQUENCES, st.booleans()), min_size=1, max_size=5
)
BATCHES = SMALL_BATCHES | st.builds(large_batch, st.integers(0, 10_000))
KEYS = st.lists(st.tuples(TEXTS, NUMBERS), min_size=1, max_size=6)
