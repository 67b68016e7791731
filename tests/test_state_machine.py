"""Table and model driven together by Hypothesis: whatever is done, both give the same answers.

Keys are few, so that rows meet; every written value is new, so that a wrong winner shows. The
option sets make small data take every path: several runs per commit, several blocks per file, both
formats, both kinds of key kernels, compactions in between. A failure prints the rules that lead to
it; keep it as a trace. LSMERGE_EXAMPLES=1000 makes a long run of it.
"""

import itertools
import operator
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import lsmerge
from lsmerge.engine import merging
from tests.model import KINDS, Change, Key, Model, Row

EXAMPLES = int(os.environ.get("LSMERGE_EXAMPLES", "15"))
_uris = (f"memory://machine-{number}" for number in itertools.count(1))


@dataclass(frozen=True)
class Shape:
    """A table to try: its key, its options and how the model sees them."""

    key_types: dict[str, pa.DataType]
    options: dict[str, str] = field(default_factory=dict)
    sequence: Sequence[str] = ()
    descending: bool = False
    partition_by: Sequence[str] = ()
    value_length: int = 0

    @property
    def schema(self) -> pa.Schema:
        key = [pa.field(name, type_, nullable=False) for name, type_ in self.key_types.items()]
        values = [("s", pa.int32()), ("v", pa.string()), ("tags", pa.list_(pa.string()))]
        return pa.schema([*key, *(pa.field(name, type_) for name, type_ in values)])

    def model(self) -> Model:
        names = self.schema.names
        return Model(names, list(self.key_types), self.sequence, self.descending)


ONE_INTEGER = {"k": pa.int64()}
TEXT_AND_INTEGER = {"t": pa.string(), "k": pa.int32()}
# The smallest sizes there are; together with long values they cut a few rows into several pieces.
MANY_RUNS = {"write-buffer-size": "4 kb"}
MANY_BLOCKS = {"file.block-size": "4 kb", "target-file-size": "4 kb"}
LONG = 1000
WINDOW_ROWS = 5
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
        MANY_BLOCKS | DESCENDING | {"file.format": "arrow", "bucket": "3"},
        ["s"],
        descending=True,
        value_length=LONG,
    ),
    "eager-compaction": Shape(
        ONE_INTEGER,
        MANY_RUNS | SEQUENCE | {"num-sorted-run.compaction-trigger": "2", "bucket": "2"},
        ["s"],
    ),
    "partitioned": Shape(TEXT_AND_INTEGER, MANY_RUNS, partition_by=["t"]),
}

# Texts that share prefixes, hold the escape byte, sort oddly, and try to leave the table.
ODD_TEXTS = ["", "a", "ab", "a\x00", "a\x00b", "é", "..", "b/c"]
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


@dataclass(frozen=True)
class Filter:
    """A condition as text for the table and as three-valued logic for the model."""

    text: str
    holds: Callable[[Row], bool | None]


def compared(name: str, symbol: str, value: int | str) -> Filter:
    def holds(row: Row) -> bool | None:
        return None if row[name] is None else OPERATORS[symbol](row[name], value)

    return Filter(f"{name} {symbol} {value!r}", holds)


def both(left: Filter, right: Filter) -> Filter:
    def holds(row: Row) -> bool | None:
        answers = {left.holds(row), right.holds(row)}
        return False if False in answers else None if None in answers else True

    return Filter(f"({left.text}) and ({right.text})", holds)


def either(left: Filter, right: Filter) -> Filter:
    def holds(row: Row) -> bool | None:
        answers = {left.holds(row), right.holds(row)}
        return True if True in answers else None if None in answers else False

    return Filter(f"({left.text}) or ({right.text})", holds)


def negated(inner: Filter) -> Filter:
    def holds(row: Row) -> bool | None:
        answer = inner.holds(row)
        return None if answer is None else not answer

    return Filter(f"not ({inner.text})", holds)


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
SYMBOLS = st.sampled_from(sorted(OPERATORS))
NUMBER_FILTERS = st.builds(compared, st.sampled_from(["k", "s"]), SYMBOLS, NUMBERS)
TEXT_FILTERS = st.builds(compared, st.just("t"), SYMBOLS, st.sampled_from(["", "a", "ab", "é"]))
NULL_FILTERS = st.sampled_from(
    [
        Filter("v is null", lambda row: row["v"] is None),
        Filter("s is not null", lambda row: row["s"] is not None),
    ]
)


def filters(simple: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter | None]:
    """None, simple conditions, and what and, or and not make of them."""
    return st.none() | st.recursive(
        simple,
        lambda inner: (
            st.builds(both, inner, inner)
            | st.builds(either, inner, inner)
            | st.builds(negated, inner)
        ),
        max_leaves=3,
    )


FILTERS = filters(NUMBER_FILTERS | NULL_FILTERS)
FILTERS_WITH_TEXT = filters(NUMBER_FILTERS | TEXT_FILTERS | NULL_FILTERS)


class DeliberateFailure(Exception):
    """Raised inside a writer block."""


class TableMachine(RuleBasedStateMachine):
    """One table and its model."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.model = shape.model()
        self.written = itertools.count(1)
        self.commit_id = 0

    @initialize()
    def create(self) -> None:
        self.uri = next(_uris)
        self.table = lsmerge.create_table(
            self.uri,
            self.shape.schema,
            list(self.shape.key_types),
            partition_by=self.shape.partition_by,
            options=self.shape.options,
        )

    @rule(drafts=BATCHES)
    def upsert(self, drafts):
        rows = self._rows(drafts)
        self._committed([Change("+I", row) for row in rows], self.table.upsert(self._arrow(rows)))

    @rule(drafts=BATCHES, kinds=st.permutations(KINDS))
    def write_kinds(self, drafts, kinds):
        rows = zip(itertools.cycle(kinds), self._rows(drafts), strict=False)
        changes = [Change(kind, row) for kind, row in rows]
        self._committed(changes, self.table.write(self._arrow_changes(changes)))

    @rule(keys=KEYS, sequence=SEQUENCES)
    def delete(self, keys, sequence):
        # A delete has its place in the order of a sequence field.
        place = dict.fromkeys(self.shape.sequence, sequence)
        rows = [self._key(text, number) | place for text, number in keys]
        self._committed([Change("-D", row) for row in rows], self.table.delete(rows))

    @rule(batches=st.lists(BATCHES, min_size=1, max_size=3))
    def write_several_batches(self, batches):
        changes = []
        with self.table.writer() as writer:
            for drafts in batches:
                batch = [Change("+U", row) for row in self._rows(drafts)]
                writer.write(self._arrow_changes(batch))
                changes += batch
        self._committed(changes, self._append_unknown())

    @rule(batches=st.lists(BATCHES, min_size=1, max_size=3))
    def fail_while_writing(self, batches):
        with pytest.raises(DeliberateFailure):
            self._write_and_fail(batches)
        self._nothing_happened()

    @rule(drafts=SMALL_BATCHES)
    def commit_twice(self, drafts):
        rows, self.commit_id = self._rows(drafts), self.commit_id + 1
        identity = {"commit_user": "machine", "commit_id": self.commit_id}
        snapshot = self.table.write(self._arrow(rows), **identity)
        self._committed([Change("+I", row) for row in rows], snapshot)
        assert self.table.write(self._arrow(self._rows(drafts)), **identity).id == snapshot.id
        self._nothing_happened()

    @rule()
    def compact(self):
        self.table.compact()
        self._note_compactions()

    @rule()
    def compact_fully(self):
        self.table.compact(full=True)
        self._note_compactions()
        self.table.verify()

    @rule()
    def reopen(self):
        self.table = lsmerge.open_table(self.uri)

    @rule(keys=KEYS)
    def get(self, keys):
        rows = self.model.rows()
        distinct = {tuple(key.values()): key for key in (self._key(*key) for key in keys)}
        wanted = list(distinct.values())
        expected = [rows.get(self.model.key_of(key)) for key in wanted]
        assert [self.table.get(key) for key in wanted] == expected
        found = self.table.get_many(wanted).to_pylist()
        assert found == [row for row in expected if row is not None]

    @rule(data=st.data())
    def scan(self, data):
        condition = data.draw(self._filters)
        columns = data.draw(
            st.none() | st.lists(st.sampled_from(self.shape.schema.names), min_size=1, unique=True)
        )
        limit = data.draw(st.none() | st.integers(0, 4))
        text = None if condition is None else condition.text
        found = self.table.scan(columns=columns, filter=text, limit=limit).to_arrow()
        names = columns or self.shape.schema.names
        assert found.column_names == names
        matching = [r for r in self.model.rows().values() if not condition or condition.holds(r)]
        expected = [{name: row[name] for name in names} for row in matching]
        self._same_rows(found.to_pylist(), expected, limit)

    @precondition(lambda self: self.model.snapshots)
    @rule(data=st.data())
    def travel(self, data):
        snapshot_id = data.draw(st.sampled_from(sorted(self.model.snapshots)))
        condition = data.draw(self._filters)
        text = None if condition is None else condition.text
        found = self._by_key(self.table.scan(snapshot=snapshot_id, filter=text).to_arrow())
        rows = self.model.rows(snapshot_id)
        assert found == {k: r for k, r in rows.items() if not condition or condition.holds(r)}

    @precondition(lambda self: self.model.snapshots)
    @rule(data=st.data())
    def read_changes(self, data):
        start = data.draw(st.sampled_from(sorted(self.model.snapshots)))
        end = data.draw(st.none() | st.integers(start, max(self.model.snapshots)))
        batches = list(self.table.changelog(start=start, end=end))
        found = [row for batch in batches for row in batch.to_pylist()]
        ids = [row["_snapshot_id"] for row in found]
        assert ids == sorted(ids)
        expected = [
            (snapshot_id, change.kind, repr(change.row))
            for snapshot_id, change in self.model.changelog(start, end)
        ]
        assert sorted(self._change(row) for row in found) == sorted(expected)

    @invariant()
    def rows_agree(self):
        if hasattr(self, "table"):
            assert self._by_key(self.table.scan().to_arrow()) == self.model.rows()

    @property
    def _filters(self) -> st.SearchStrategy[Filter | None]:
        return FILTERS_WITH_TEXT if "t" in self.shape.key_types else FILTERS

    def _write_and_fail(self, batches: Sequence[Any]) -> None:
        with self.table.writer() as writer:
            for drafts in batches:
                writer.write(self._arrow(self._rows(drafts)))
            raise DeliberateFailure

    def _committed(self, changes: Sequence[Change], snapshot: Any) -> None:
        self.model.commit(changes, snapshot.id)
        self._note_compactions()

    def _note_compactions(self) -> None:
        """Snapshots that no commit of ours made must be compactions: they show nothing new."""
        for snapshot in self.table.snapshots():
            if snapshot.id not in self.model.snapshots:
                assert snapshot.kind == "compact"
                self.model.publish(snapshot.id)

    def _nothing_happened(self) -> None:
        assert self._latest_id() == max(self.model.snapshots, default=0)

    def _append_unknown(self) -> Any:
        """The one commit that the model does not know yet."""
        new = [s for s in self.table.snapshots() if s.id not in self.model.snapshots]
        return next(snapshot for snapshot in new if snapshot.kind == "append")

    def _latest_id(self) -> int:
        latest = self.table.latest_snapshot()
        return 0 if latest is None else latest.id

    def _key(self, text: str, number: int) -> Row:
        values = {"t": text, "k": number}
        return {name: values[name] for name in self.shape.key_types}

    def _rows(self, drafts: Sequence[Draft]) -> list[Row]:
        rows = []
        for text, number, sequence, is_null in drafts:
            value = None if is_null else self._new_value()
            tags = None if is_null else [text, None][: number % 3]
            rows.append({**self._key(text, number), "s": sequence, "v": value, "tags": tags})
        return rows

    def _new_value(self) -> str:
        """Never the same twice; long ones do not compress well, so that files grow with them."""
        number = next(self.written)
        return f"v{number}" + random.Random(number).randbytes(self.shape.value_length // 2).hex()

    def _arrow(self, rows: Sequence[Row]) -> pa.Table:
        """In chunks, as each may overflow the writer's buffer."""
        table = pa.Table.from_pylist(list(rows), schema=self.shape.schema)
        return pa.Table.from_batches(table.to_batches(max_chunksize=16), self.shape.schema)

    def _arrow_changes(self, changes: Sequence[Change]) -> pa.Table:
        rows = self._arrow([change.row for change in changes])
        kinds = pa.array([change.kind for change in changes], pa.string())
        return rows.append_column("_row_kind", kinds)

    def _by_key(self, table: pa.Table) -> dict[Key, Row]:
        rows = table.to_pylist()
        by_key = {self.model.key_of(row): row for row in rows}
        assert len(by_key) == len(rows), "a key came twice"
        return by_key

    def _change(self, row: Row) -> tuple[Any, Any, str]:
        values = {name: row[name] for name in self.shape.schema.names}
        return row["_snapshot_id"], row["_row_kind"], repr(values)

    def _same_rows(self, found: list[Row], expected: list[Row], limit: int | None) -> None:
        remaining = [repr(row) for row in expected]
        assert len(found) == min(len(expected), len(expected) if limit is None else limit)
        for row in found:
            remaining.remove(repr(row))


@pytest.mark.parametrize("name", SHAPES)
def test_table_answers_as_the_model(name, monkeypatch):
    # A real window holds far more rows than an example: without this none would ever end.
    monkeypatch.setattr(merging, "_window_rows", lambda _context, _blocks: WINDOW_ROWS)
    run_state_machine_as_test(
        lambda: TableMachine(SHAPES[name]),
        settings=settings(max_examples=EXAMPLES, stateful_step_count=20),
    )
