"""Table and model driven together by Hypothesis: whatever is done, both give the same answers.

Every written value is new, so that a wrong winner shows. A failure prints the rules that lead to it;
keep it as a trace. LSMERGE_EXAMPLES=1000 makes a long run of it.
"""

import itertools
import random
from collections.abc import Sequence
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
from tests.filters import FILTERS, FILTERS_WITH_TEXT, SYMBOLS, Filter, both, compared
from tests.model import KINDS, Change, Key, Row
from tests.searches import examples
from tests.shapes import (
    BATCHES,
    KEYS,
    PLAIN_TEXTS,
    SEQUENCES,
    SHAPES,
    SMALL_BATCHES,
    TEXTS,
    Draft,
    Shape,
)

WINDOW_ROWS = 5
_uris = (f"memory://machine-{number}" for number in itertools.count(1))


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

    @rule(drafts=SMALL_BATCHES, kinds=st.permutations(KINDS), names=st.sets(st.sampled_from("sv")))
    def write_some_columns(self, drafts, kinds, names):
        columns = tuple(
            dict.fromkeys([*self.shape.key_types, *self.shape.sequence, *sorted(names)])
        )
        rows = zip(itertools.cycle(kinds), self._rows(drafts), strict=False)
        changes = [Change(kind, {n: row[n] for n in columns}, columns) for kind, row in rows]
        data = self._arrow_changes(changes).select([*columns, "_row_kind"])
        self._committed(changes, self.table.write(data, columns=columns))

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

    @rule(drafts=BATCHES)
    def overwrite(self, drafts):
        rows = self._rows(drafts)
        snapshot = self.table.overwrite(self._arrow(rows))
        self._overwritten([Change("+I", row) for row in rows], snapshot, lambda _row: True)

    @precondition(lambda self: self.shape.partition_by)
    @rule(drafts=BATCHES, text=TEXTS)
    def overwrite_partition(self, drafts, text):
        rows = [row for row in self._rows(drafts) if row["t"] == text]
        snapshot = self.table.overwrite(self._arrow(rows), {"t": text})
        self._overwritten([Change("+I", r) for r in rows], snapshot, lambda row: row["t"] == text)

    @precondition(lambda self: self.shape.partition_by)
    @rule(drafts=BATCHES)
    def overwrite_what_is_touched(self, drafts):
        rows = self._rows(drafts)
        texts = {row["t"] for row in rows}
        snapshot = self.table.overwrite(self._arrow(rows), mode="dynamic")
        self._overwritten([Change("+I", r) for r in rows], snapshot, lambda row: row["t"] in texts)

    @precondition(lambda self: self.shape.partition_by)
    @rule(text=TEXTS)
    def drop_partition(self, text):
        snapshot = self.table.drop_partition({"t": text})
        self._overwritten([], snapshot, lambda row: row["t"] == text)

    @precondition(lambda self: self.model.options.get("bucket") != "-1")
    @rule(count=st.integers(1, 5), text=st.none() | TEXTS)
    def rescale(self, count, text):
        partition = {"t": text} if self.shape.partition_by and text is not None else None
        self.table.rescale(count, partition)
        for found in self.table.partitions():
            if partition is None or found.values == partition:
                assert found.buckets == count
        self._note_compactions()

    @precondition(lambda self: self.model.options.get("bucket") == "-1")
    @rule(
        by=st.sampled_from([["s"], ["v"], ["v", "s"]]), order=st.sampled_from(["order", "zorder"])
    )
    def sort_compact(self, by, order):
        self.table.sort_compact(by, order=order, buckets=3)
        self._note_compactions()

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

    @rule(symbol=SYMBOLS, text=st.sampled_from(PLAIN_TEXTS))
    def filter_by_each_key(self, symbol, text):
        """Every number as a bound: some are the first or last key of a file or a block."""
        for number in range(-2, 6):
            condition = compared("k", symbol, number)
            if "t" in self.shape.key_types:
                condition = both(compared("t", "=", text), condition)
            found = self._by_key(self.table.scan(filter=condition.text).to_arrow())
            expected = {k: r for k, r in self.model.rows().items() if condition.holds(r)}
            assert found == expected, condition.text

    @precondition(lambda self: self.model.snapshots)
    @rule(data=st.data())
    def travel(self, data):
        snapshot_id = data.draw(st.sampled_from(sorted(self.model.snapshots)))
        condition = data.draw(self._filters)
        text = None if condition is None else condition.text
        found = self._by_key(self.table.scan(snapshot=snapshot_id, filter=text).to_arrow())
        rows = self.model.rows(snapshot_id)
        assert found == {k: r for k, r in rows.items() if not condition or condition.holds(r)}

    # Other engines may keep several changes of a key in a commit; a reader combines them.
    @precondition(lambda self: self.model.snapshots and self.model.rules.engine == "deduplicate")
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

    def _overwritten(self, changes: Sequence[Change], snapshot: Any, takes_away: Any) -> None:
        assert snapshot.kind == "overwrite"
        self.model.overwrite(changes, snapshot.id, takes_away)
        self._note_compactions()

    def _note_compactions(self) -> None:
        """Snapshots that no commit of ours made must be rewrites of files: they show nothing new."""
        for snapshot in self.table.snapshots():
            if snapshot.id not in self.model.snapshots:
                assert snapshot.kind in ("compact", "rescale", "sort-compact")
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
        settings=settings(max_examples=examples(3), stateful_step_count=20),
    )
