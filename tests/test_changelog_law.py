"""Law 2: the changelog is the table.

Replaying what a complete changelog tells gives the table at every snapshot (with full-compaction: at every full
compaction), whatever the engine, the cut into commits, the compactions in between and the writers that were faster.
LSMERGE_EXAMPLES=1000 makes a long run of it.
"""

import itertools
from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lsmerge
from lsmerge.engine import merging
from lsmerge.meta.snapshot import Snapshot
from lsmerge.options import resolve
from tests.changelog_replay import Replay, let_rival_win, rows_of, without_system
from tests.model import Model
from tests.model_engines import Change
from tests.searches import examples
from tests.test_placement import (
    CHANGES,
    PLACEMENTS,
    SCHEMA,
    SUBJECTS,
    Placement,
    arrow_of,
    changes_of,
)

LOOKUP = {"changelog-producer": "lookup"}
DEDUPLICATED = LOOKUP | {"changelog-producer.row-deduplicate": "true"}
FULL = {"changelog-producer": "full-compaction", "write-only": "true"}
INPUT = {"changelog-producer": "input"}
COMPARING = {"lookup": LOOKUP, "deduplicated": DEDUPLICATED, "full-compaction": FULL}
ENGINES = ("deduplicate", "first-row", "versioned", "partial-update", "aggregation")
SUBJECTS_OF = {
    engine: [s for s in SUBJECTS.values() if s.options.get("merge-engine", ENGINES[0]) == engine]
    for engine in ENGINES
}
PAIRS = [(e, p) for e in ENGINES for p in COMPARING if (e, p) != ("first-row", "full-compaction")]
_uris = (f"memory://law-{number}" for number in itertools.count(1))
RIVALS = st.lists(st.sampled_from(["", "", "commit", "minor", "full"]), min_size=8, max_size=8)


class History:
    """A table, its model, and what was done to both."""

    def __init__(self, options: dict[str, str], placement: Placement, written) -> None:
        self.written = written
        self.uri = next(_uris)
        options = options | placement.options
        self.table = lsmerge.create_table(self.uri, SCHEMA, ["k"], options=options)
        self.model = Model(SCHEMA.names, ["k"], resolve(options))

    def commit(self, changes: Sequence[Change], rival: str) -> None:
        """One commit, which somebody else is faster than if there is a rival."""
        if rival:
            let_rival_win(self.table, lambda: self._win(changes[::-1], rival))
        snapshot = self.written(self.table, arrow_of(changes))
        self.model.commit(changes, snapshot.id)
        self._note_compactions()

    def compact(self, action: str, table: lsmerge.Table | None = None) -> None:
        # One in the background of the other table may be faster: then it is tried again, as a user would.
        while not _is_compacted(table or self.table, action):
            pass
        self._note_compactions()

    def _note_compactions(self) -> None:
        """A compaction shows what the snapshot before it shows, whoever made it and when."""
        shown = 0
        for snapshot in self.table.snapshots():
            if snapshot.id not in self.model.snapshots:
                assert snapshot.kind == "compact"
            shown = self.model.snapshots.setdefault(snapshot.id, shown)

    def fully_compacted(self) -> list[int]:
        """The snapshots of which every file is in the top level."""
        context = self.table._context
        top_level = context.options.num_levels - 1
        return [
            snapshot.id
            for snapshot in self.table.snapshots()
            if set(context.versions.load(snapshot).entries["level"].to_pylist()) <= {top_level}
        ]

    def _win(self, changes: Sequence[Change], rival: str) -> None:
        # Closed at the end: what it compacts in the background must not race with what is asked for here.
        with lsmerge.open_table(self.uri) as other:
            if rival == "commit":
                self.model.commit(changes, other.write(arrow_of(changes)).id)
                self._note_compactions()
            else:
                self.compact(rival, other)


def _is_compacted(table: lsmerge.Table, action: str) -> bool:
    try:
        table.compact(full=action == "full")
    except lsmerge.CommitConflictError:
        return False
    return True


def made(
    options: dict[str, str],
    changes,
    placement: Placement,
    rivals: Sequence[str],
    written: Callable[[lsmerge.Table, pa.Table], Snapshot] = lsmerge.Table.write,
) -> History:
    """A table with these changes, each commit `written` as one likes."""
    history, rest = History(options, placement, written), list(changes)
    for (count, action), rival in zip([*placement.cuts, (len(rest), "")], rivals, strict=False):
        commit, rest = rest[:count], rest[count:]
        if commit:
            history.commit(commit, rival)
        if action:
            history.compact(action)
    history.compact("full")
    return history


def check_replay(history: History, told_at: Sequence[int], is_deduplicated: bool) -> None:
    table, replay, start = history.table, Replay(["k"], is_deduplicated=is_deduplicated), 1
    for snapshot_id in told_at:
        replay.apply(table.changelog(start, snapshot_id))
        start = snapshot_id + 1
        assert replay.rows == rows_of(table, snapshot_id)
        assert replay.rows == history.model.rows(snapshot_id)
    assert replay.rows == rows_of(table)
    assert list(table.changelog(start)) == []


@pytest.mark.parametrize(("engine", "producer"), PAIRS)
@settings(max_examples=examples(2))
@given(data=st.data(), drafts=CHANGES, placement=PLACEMENTS, rivals=RIVALS)
def test_replaying_the_changelog_gives_the_table(engine, producer, data, drafts, placement, rivals):
    subject = data.draw(st.sampled_from(SUBJECTS_OF[engine]))
    options = subject.options | COMPARING[producer]
    changes = changes_of(subject, drafts, placement.value_length)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "_window_rows", lambda _context, _blocks: placement.window_rows)
        history = made(options, changes, placement, rivals)
        every = range(1, history.table.latest_snapshot().id + 1)
        told_at = history.fully_compacted() if producer == "full-compaction" else every
        check_replay(history, told_at, is_deduplicated=producer == "deduplicated")
        assert history.table.verify().ok


@pytest.mark.parametrize("engine", [engine for engine in ENGINES if engine != "first-row"])
@settings(max_examples=examples(2))
@given(data=st.data(), drafts=CHANGES, placement=PLACEMENTS, rivals=RIVALS)
def test_the_input_told_again_gives_the_table(engine, data, drafts, placement, rivals):
    subject = data.draw(st.sampled_from(SUBJECTS_OF[engine]))
    changes = changes_of(subject, drafts, placement.value_length)
    history = made(subject.options | INPUT, changes, placement, rivals)
    table, told = history.table, Model(SCHEMA.names, ["k"], history.model.options)
    for snapshot in table.snapshots():
        rows = [row for b in table.changelog(snapshot.id, snapshot.id) for row in b.to_pylist()]
        if snapshot.kind == "compact":
            assert rows == []
        told.commit([Change(row["_row_kind"], without_system(row)) for row in rows], snapshot.id)
        assert told.rows() == rows_of(table, snapshot.id)
    written = sum(len(commit) for commit in history.model.commits)
    assert sum(len(commit) for commit in told.commits) == written


def test_a_lost_race_makes_only_the_changed_buckets_anew(tmp_path):
    options = LOOKUP | {"bucket": "4"}
    schema = pa.schema({"k": pa.int64(), "v": pa.string()})
    table = lsmerge.create_table(tmp_path / "t", schema, "k", options=options)
    table.upsert([{"k": k, "v": "old"} for k in range(20)])
    before = set(tmp_path.rglob("changelog-*"))
    first_attempt = set()

    def rival():
        first_attempt.update(set(tmp_path.rglob("changelog-*")) - before)
        lsmerge.open_table(tmp_path / "t").upsert([{"k": 0, "v": "rival"}])

    let_rival_win(table, rival)
    snapshot = table.upsert([{"k": k, "v": "new"} for k in range(20)])
    after = set(tmp_path.rglob("changelog-*"))
    assert len(first_attempt) == 4
    assert len(first_attempt & after) == 3, "three buckets keep what was made for them"
    rows = [row for batch in table.changelog(snapshot.id) for row in batch.to_pylist()]
    assert [r["v"] for r in rows if r["k"] == 0] == ["rival", "new"]
    assert len(after - before) == 4 + 1, "what was replaced is deleted"


def test_a_refused_commit_leaves_no_changelog(tmp_path):
    options = LOOKUP | {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
    schema = pa.schema({"k": pa.int64(), "v": pa.int8()})
    table = lsmerge.create_table(tmp_path / "t", schema, "k", options=options)
    table.upsert([{"k": 1, "v": 100}, {"k": 2, "v": 1}])
    before = set(tmp_path.rglob("*.*"))
    with pytest.raises(lsmerge.MergeValueError, match="column 'v' of key"):
        table.upsert([{"k": 1, "v": 100}, {"k": 2, "v": 1}])
    assert set(tmp_path.rglob("*.*")) == before
    assert table.get(1) == {"k": 1, "v": 100}


def test_a_repeated_commit_leaves_no_changelog(tmp_path):
    schema = pa.schema({"k": pa.int64(), "v": pa.int8()})
    table = lsmerge.create_table(tmp_path / "t", schema, "k", options=LOOKUP)
    identity = {"commit_user": "job", "commit_id": 1}
    let_rival_win(
        table, lambda: lsmerge.open_table(tmp_path / "t").write([{"k": 1, "v": 1}], **identity)
    )
    table.write([{"k": 1, "v": 1}], **identity)
    assert len(list(tmp_path.rglob("changelog-*"))) == 1
    assert [b.num_rows for b in table.changelog()] == [1]
