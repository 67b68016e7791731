"""A table that is altered while it is written, beside a model that knows columns by id alone.

The model never hears of names: a column is added to it and stays. What the table shows under its names of the
day must be what the model has under the ids behind them, now and at every snapshot, whoever wrote under
which schema. LSMERGE_EXAMPLES=1000 makes a long run of it.
"""

import itertools
from collections.abc import Iterable
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
from tests.model import Change, Model
from tests.searches import examples

ENGINES = ["deduplicate", "partial-update", "aggregation"]
NAMES = ["a", "b", "c", "d"]
WIDTHS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
KEYS = st.integers(0, 4)
VALUES = st.none() | st.integers(-3, 3)
_uris = (f"memory://evolution-{number}" for number in itertools.count(1))

Columns = dict[str, int]
"""Names of the day, and the id behind each."""


class EvolvingTable(RuleBasedStateMachine):
    """One table under changing names, and its model."""

    def __init__(self, engine: str) -> None:
        super().__init__()
        self.engine = engine

    @initialize()
    def create(self) -> None:
        self.uri = next(_uris)
        schema = pa.schema({"k": pa.int64(), "a": pa.int8()})
        options = {"merge-engine": self.engine, "bucket": "2"}
        self.table = lsmerge.create_table(self.uri, schema, "k", options=options)
        self.columns: Columns = {"a": 2}
        self.widths = {2: 0}
        self.commits: list[list[Change]] = []
        self.states: dict[int, list[list[Change]]] = {}
        self.views: dict[int, Columns] = {}
        self.writer: tuple[Any, list[Change]] | None = None

    @rule(data=st.data())
    def upsert(self, data):
        changes = self._changes(data)
        snapshot = self.table.upsert(self._arrow(changes, self.columns))
        self._committed(changes, snapshot.id)

    @rule(data=st.data())
    @precondition(lambda self: self.writer is None)
    def open_writer(self, data):
        """Rows that are written under the names of today, and committed under others."""
        changes = self._changes(data)
        writer = self.table.writer()
        writer.write(self._arrow(changes, self.columns))
        self.writer = (writer, changes)

    @rule()
    @precondition(lambda self: self.writer is not None)
    def commit_writer(self):
        assert self.writer is not None
        writer, changes = self.writer
        self.writer = None
        self._committed(changes, writer.commit().id)

    @rule(name=st.sampled_from(NAMES), width=st.integers(0, 3))
    def add(self, name, width):
        if name in self.columns:
            with pytest.raises(lsmerge.SchemaMismatchError):
                self.table.alter(add={name: WIDTHS[width]})
            return
        new = self.table._context.schema.next_column_id
        self.table.alter(add={name: WIDTHS[width]})
        self.columns[name] = new
        self.widths[new] = width

    @rule(name=st.sampled_from(NAMES))
    @precondition(lambda self: self.columns)
    def drop(self, name):
        if name in self.columns:
            self.table.alter(drop=[name])
            del self.columns[name]

    @rule(old=st.permutations(NAMES), new=st.permutations(NAMES))
    def rename(self, old, new):
        names = {o: n for o, n in zip(old, new, strict=True) if o in self.columns}
        self.table.alter(rename=names)
        self.columns = {names[name]: id_ for name, id_ in self.columns.items()}

    @rule(name=st.sampled_from(NAMES), width=st.integers(0, 3))
    def widen(self, name, width):
        if name not in self.columns:
            return
        column = self.columns[name]
        if width < self.widths[column]:
            with pytest.raises(lsmerge.SchemaMismatchError):
                self.table.alter(widen={name: WIDTHS[width]})
            return
        self.table.alter(widen={name: WIDTHS[width]})
        self.widths[column] = width

    @rule(name=st.sampled_from(NAMES))
    def move(self, name):
        if name in self.columns:
            self.table.alter(move={name: "first"})

    @rule(full=st.booleans())
    def compact(self, full):
        report = self.table.compact(full=full)
        if report.snapshot_id is not None:
            self._published(report.snapshot_id)

    @rule()
    def reopen(self):
        self.table = lsmerge.open_table(self.uri)

    @rule(keep=st.integers(1, 3))
    def expire(self, keep):
        for number in self.table.expire_snapshots(retain_max=keep).snapshots:
            self.views.pop(number, None)

    @rule(data=st.data())
    @precondition(lambda self: self.views)
    def roll_back(self, data):
        target = data.draw(st.sampled_from(sorted(self.views)))
        snapshot = self.table.rollback_to(target)
        self.commits = list(self.states[target])
        self._published(snapshot.id)

    @invariant()
    def the_rows_are_the_models(self):
        rows = self.table.scan().to_arrow().to_pylist()
        assert _sorted(rows) == self._expected(self.commits, self.columns)
        for row in rows[:2]:
            assert self.table.get(row["k"]) == row

    @invariant()
    def older_snapshots_are_shown_under_their_names(self):
        for number in list(self.views)[-3:]:
            rows = self.table.scan(snapshot=number).to_arrow().to_pylist()
            assert _sorted(rows) == self._expected(self.states[number], self.views[number])

    def teardown(self) -> None:
        assert self.table.verify().problems == ()

    def _changes(self, data: Any) -> list[Change]:
        def row() -> dict[str, Any]:
            values = {str(id_): data.draw(VALUES) for id_ in self.columns.values()}
            return {"k": data.draw(KEYS), **values}

        return [Change("+I", row()) for _ in range(data.draw(st.integers(1, 3)))]

    def _arrow(self, changes: list[Change], columns: Columns) -> pa.Table:
        names = {"k": "k", **{str(id_): name for name, id_ in columns.items()}}
        rows = [{names[id_]: value for id_, value in c.row.items()} for c in changes]
        return pa.Table.from_pylist(rows, schema=self.table.schema)

    def _committed(self, changes: list[Change], number: int) -> None:
        self.commits = [*self.commits, changes]
        self._published(number)

    def _published(self, number: int) -> None:
        """The snapshot is shown with the schema that it was made with: the names of the day, or older ones."""
        self.states[number] = self.commits
        schema_id = self.table.snapshots()[-1].schema_id
        if schema_id == self.table._context.schema.id:
            self.views[number] = dict(self.columns)

    def _expected(self, commits: list[list[Change]], columns: Columns) -> list[dict[str, Any]]:
        ids = [str(id_) for id_ in self.widths]
        model = Model(["k", *ids], ["k"], {"merge-engine": self.engine})
        for number, changes in enumerate(commits, start=1):
            model.commit(changes, number)
        return _sorted(
            {"k": row["k"], **{name: row[str(id_)] for name, id_ in columns.items()}}
            for row in model.rows().values()
        )


def _sorted(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["k"])


@pytest.mark.parametrize("engine", ENGINES)
def test_names_may_change_but_rows_do_not(engine):
    run_state_machine_as_test(
        lambda: EvolvingTable(engine),
        settings=settings(max_examples=examples(3), stateful_step_count=20),
    )
