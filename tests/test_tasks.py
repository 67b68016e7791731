"""Commits that many tasks write together: the outcome is that of one writer, whatever task a row went to."""

import itertools
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lsmerge
from lsmerge.engine import merging
from lsmerge.engine.shares import share_numbers
from lsmerge.engine.task_message import decode, encode
from lsmerge.errors import CorruptFileError, StorageError
from tests.changelog_replay import let_rival_win, rows_of, without_system
from tests.model import Model
from tests.model_engines import Change
from tests.searches import examples
from tests.test_changelog_law import (
    COMPARING,
    ENGINES,
    INPUT,
    PAIRS,
    RIVALS,
    SUBJECTS_OF,
    check_replay,
    made,
)
from tests.test_placement import (
    CHANGES,
    CROSSING,
    PLACEMENTS,
    SCHEMA,
    SUBJECTS,
    TARGETS,
    arrow_of,
    changes_of,
    check_reads,
    cut,
    modelled,
)

SIMPLE = pa.schema({"k": pa.int64(), "v": pa.string()})
_uris = (f"memory://tasks-{number}" for number in itertools.count(1))


class Split:
    """A way to hand the rows of a commit to tasks, each in its own process as far as the table can tell."""

    def __init__(self, cuts, by_key: bool) -> None:
        self.cuts = cuts
        self.by_key = by_key

    def __repr__(self) -> str:
        return f"Split({self.cuts}, by_key={self.by_key})"

    def __call__(self, table: lsmerge.Table, data: pa.Table, columns=None):
        return table.commit_tasks([*self.messages(table.uri, data, columns)])

    def messages(self, uri: str, data: pa.Table, columns=None):
        for share, rows in self._parts(uri, data):
            # Some tasks know of commits that others do not.
            with (
                lsmerge.open_table(uri) as table,
                table.task_writer(columns, share=share) as task,
            ):
                task.write(rows)
                yield task.finish()

    def _parts(self, uri: str, data: pa.Table):
        if not self.by_key:
            bounds = [0, *sorted(cut % (len(data) + 1) for cut in self.cuts), len(data)]
            for start, end in itertools.pairwise(bounds):
                yield None, data.slice(start, end - start)
            return
        count = len(self.cuts) + 1
        numbers = self._shares(uri, data, count)
        for number in range(count):
            positions = [row for row, owner in enumerate(numbers) if owner == number]
            yield (number, count), data.take(pa.array(positions, pa.int64()))

    def _shares(self, uri: str, data: pa.Table, count: int) -> list[int]:
        context = lsmerge.open_table(uri)._context
        rows = [{**dict.fromkeys(context.schema.column_names), **row} for row in data.to_pylist()]
        batch = pa.RecordBatch.from_pylist(rows, schema=context.schema.row_schema)
        return share_numbers(context, batch, count).to_pylist()


SPLITS = st.builds(Split, st.lists(st.integers(0, 90), max_size=4), st.booleans())


@pytest.mark.parametrize("name", SUBJECTS)
@settings(max_examples=examples(1, 1 / 2))
@given(
    drafts=CHANGES,
    placement=PLACEMENTS,
    split=SPLITS,
    targets=st.lists(st.sampled_from(TARGETS), min_size=1, max_size=5),
)
def test_any_split_over_tasks_gives_the_table_of_one_writer(
    name, drafts, placement, split, targets
):
    subject = SUBJECTS[name]
    changes = changes_of(subject, drafts, placement.value_length, targets)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "_window_rows", lambda _context, _blocks: placement.window_rows)
        expected = modelled(subject, changes, placement)
        options = subject.options | placement.options
        table = lsmerge.create_table(next(_uris), SCHEMA, ["k"], options=options)
        for commit, action in cut(changes, placement):
            for columns, part in itertools.groupby(commit, key=lambda change: change.columns):
                split(table, arrow_of(list(part), columns), columns)
            if action:
                table.compact(full=action == "full")
        check_reads(table, expected, "v")
        uri = table.uri
        table.close()  # ends a compaction in the background, whose files nothing refers to yet
        assert lsmerge.open_table(uri).remove_orphan_files("0 s").files == ()


@pytest.mark.parametrize(("engine", "producer"), PAIRS)
@settings(max_examples=examples(2, 2 / 3))
@given(data=st.data(), drafts=CHANGES, placement=PLACEMENTS, rivals=RIVALS, split=SPLITS)
def test_the_changelog_of_tasks_is_the_table(
    engine, producer, data, drafts, placement, rivals, split
):
    subject = data.draw(st.sampled_from(SUBJECTS_OF[engine]))
    options = subject.options | COMPARING[producer]
    changes = changes_of(subject, drafts, placement.value_length)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "_window_rows", lambda _context, _blocks: placement.window_rows)
        history = made(options, changes, placement, rivals, split)
        every = range(1, history.table.latest_snapshot().id + 1)
        told_at = history.fully_compacted() if producer == "full-compaction" else every
        check_replay(history, told_at, is_deduplicated=producer == "deduplicated")
        assert history.table.verify().ok


@pytest.mark.parametrize("engine", [engine for engine in ENGINES if engine != "first-row"])
@settings(max_examples=examples(2))
@given(data=st.data(), drafts=CHANGES, placement=PLACEMENTS, rivals=RIVALS, split=SPLITS)
def test_the_input_of_tasks_told_again_gives_the_table(
    engine, data, drafts, placement, rivals, split
):
    subject = data.draw(st.sampled_from(SUBJECTS_OF[engine]))
    changes = changes_of(subject, drafts, placement.value_length)
    history = made(subject.options | INPUT, changes, placement, rivals, split)
    table, told = history.table, Model(SCHEMA.names, ["k"], history.model.options)
    for snapshot in table.snapshots():
        rows = [row for b in table.changelog(snapshot.id, snapshot.id) for row in b.to_pylist()]
        told.commit([Change(row["_row_kind"], without_system(row)) for row in rows], snapshot.id)
        assert told.rows() == rows_of(table, snapshot.id)
    written = sum(len(commit) for commit in history.model.commits)
    assert sum(len(commit) for commit in told.commits) == written


@pytest.mark.parametrize("name", CROSSING)
@settings(max_examples=examples(1, 1 / 3))
@given(drafts=CHANGES, placement=PLACEMENTS, split=SPLITS)
def test_keys_that_move_between_partitions_and_tasks(name, drafts, placement, split):
    subject = SUBJECTS[name]
    placement = replace(placement, buckets=-1)
    changes = changes_of(subject, drafts, placement.value_length)
    expected = modelled(subject, changes, placement, ["s"])
    options = subject.options | placement.options
    table = lsmerge.create_table(next(_uris), SCHEMA, ["k"], partition_by=["s"], options=options)
    for commit, action in cut(changes, placement):
        split(table, arrow_of(commit))
        if action:
            table.compact(full=action == "full")
    check_reads(table, expected, "v")


def create(uri, partition_by=(), **options):
    key = [*partition_by, "k"]
    schema = pa.schema({"p": pa.string(), **{field.name: field.type for field in SIMPLE}})
    return lsmerge.create_table(uri, schema, key, partition_by=partition_by, options=options)


def message(table, rows, **how) -> bytes:
    with table.task_writer(**how) as task:
        task.write(rows)
        return task.finish()


def visible(table) -> dict[int, str]:
    return {row["k"]: row["v"] for row in table.scan().to_arrow().to_pylist()}


def files_in(path: Path) -> set[str]:
    return {
        file.name
        for pattern in ("data-*", "changelog-*", "index-*")
        for file in path.rglob(pattern)
    }


def rows(*keys, v="a", **more):
    return [{"k": key, "v": v, **more} for key in keys]


def test_nothing_is_seen_before_the_commit_and_all_afterwards(tmp_path):
    table = create(tmp_path / "t", bucket="2")
    messages = [message(table, rows(1, 2)), message(table, rows(2, 3, v="b"))]
    assert table.latest_snapshot() is None
    assert table.commit_tasks(messages).id == 1
    assert visible(table) == {1: "a", 2: "b", 3: "b"}
    assert table.verify().ok


def test_no_task_and_empty_tasks_make_an_empty_commit(memory_uri):
    table = create(memory_uri)
    assert table.commit_tasks([]).id == 1
    assert table.commit_tasks([message(table, rows())]).id == 2
    assert visible(table) == {}


def test_a_block_that_raises_or_forgets_to_finish_leaves_nothing(tmp_path):
    table = create(tmp_path / "t", **{"write-buffer-size": "4 kb"})
    with pytest.raises(ZeroDivisionError), table.task_writer() as task:  # noqa: PT012
        task.write(rows(*range(1000)))
        raise ZeroDivisionError
    with table.task_writer() as task:
        task.write(rows(*range(1000)))
    with pytest.raises(lsmerge.TableClosedError, match="aborted"):
        task.finish()
    assert files_in(tmp_path) == set()


def test_two_tasks_that_place_the_same_new_key_are_reconciled(tmp_path):
    table = create(tmp_path / "t", bucket="-1", **{"dynamic-bucket.target-row-num": "2"})
    messages = [
        message(table, rows(1, 2, 3, 4)),
        # To this task bucket 0 has room for keys that the first one put into bucket 1.
        message(table, rows(3, 4, v="b")),
    ]
    table.commit_tasks(messages)
    assert visible(table) == {1: "a", 2: "a", 3: "b", 4: "b"}
    assert [table.get(key)["v"] for key in (3, 4)] == ["b", "b"]
    assert table.remove_orphan_files("0 s").files == ()


def test_tasks_with_shares_fill_a_bucket_together(memory_uri):
    table = create(memory_uri, bucket="-1", **{"dynamic-bucket.target-row-num": "40"})
    split = Split([0, 0, 0], by_key=True)
    for start in (0, 20, 60):
        split(table, pa.Table.from_pylist(rows(*range(start, start + 20))))
    sizes = [bucket.rows for bucket in table.stats().buckets]
    assert sum(sizes) == 60
    assert len(sizes) == 2
    assert max(sizes) <= 40 + 4, "each of four tasks may round up"


def test_rows_outside_the_share_are_refused(memory_uri):
    table = create(memory_uri, bucket="4")
    with pytest.raises(
        lsmerge.SchemaMismatchError, match="rows of share 1 of 2 came to the task with share 0"
    ):
        message(table, rows(*range(20)), share=(0, 2))


@pytest.mark.parametrize("share", [(2, 2), (-1, 2), (0,), 1, ("0", "2"), (True, 2)])
def test_a_share_that_is_none_is_refused(memory_uri, share):
    with pytest.raises(lsmerge.InvalidOptionError, match="share = "):
        create(memory_uri).task_writer(share=share)


def test_shares_that_do_not_fit_are_refused(memory_uri):
    table = create(memory_uri)
    whole, twice = message(table, rows(1), share=(0, 1)), message(table, rows(1), share=(0, 1))
    with pytest.raises(lsmerge.SchemaMismatchError, match="parts of one whole"):
        table.commit_tasks([whole, twice])
    with pytest.raises(lsmerge.SchemaMismatchError, match="parts of one whole"):
        table.commit_tasks([whole, message(table, rows(1))])


def test_messages_of_another_table_or_damaged_ones_are_refused(tmp_path):
    table, other = create(tmp_path / "t"), create(tmp_path / "other")
    theirs = message(other, rows(1))
    with pytest.raises(lsmerge.SchemaMismatchError, match="commit it there"):
        table.commit_tasks([theirs])
    for position in range(0, len(theirs), 7):
        damaged = theirs[:position] + bytes([theirs[position] ^ 4]) + theirs[position + 1 :]
        with pytest.raises(CorruptFileError):
            other.commit_tasks([damaged])
    with pytest.raises(lsmerge.SchemaMismatchError, match="a message is a str"):
        table.commit_tasks(["{}"])
    assert other.commit_tasks([theirs]).id == 1


@pytest.mark.parametrize("name", ["../../secret", "snapshot-1.json", "data-1-0.arrow/../x"])
def test_a_message_cannot_name_what_is_no_run(memory_uri, name):
    table = create(memory_uri)
    result = decode(table._context, message(table, rows(1)))
    file = replace(result.files[0], run=replace(result.files[0].run, name=name))
    with pytest.raises(CorruptFileError, match="names a file that is no run"):
        table.discard_tasks([encode(replace(result, files=(file,)))])


def test_a_commit_is_made_once_and_what_was_written_again_is_deleted(tmp_path):
    table = create(tmp_path / "t", bucket="-1", **{"changelog-producer": "lookup"})
    identity = {"commit_user": "job", "commit_id": 7}
    first = [message(table, rows(1, 2))]
    snapshot = table.commit_tasks(first, **identity)
    published = files_in(tmp_path)
    again = [message(table, rows(1, 2))]
    assert table.commit_tasks(again, **identity).id == snapshot.id
    assert table.commit_tasks(first, **identity).id == snapshot.id, "the answer may have been lost"
    assert files_in(tmp_path) == published
    assert visible(table) == {1: "a", 2: "a"}


def test_what_is_published_is_never_discarded(tmp_path):
    table = create(tmp_path / "t", bucket="2", **{"changelog-producer": "input"})
    messages = [message(table, rows(1, 2, 3)), message(table, rows(3, 4))]
    table.commit_tasks(messages)
    table.discard_tasks(messages)
    assert table.verify().ok
    table.compact(full=True)
    table.expire_snapshots(retain_max=1)
    table.discard_tasks(messages)
    assert table.verify().ok


def test_discarding_leaves_nothing_of_the_tasks(tmp_path):
    table = create(tmp_path / "t", bucket="-1", **{"changelog-producer": "lookup"})
    for share, was_committing in [(None, False), ((0, 1), True)]:
        task = message(table, rows(*range(50)), share=share)
        assert files_in(tmp_path) != set()
        table.discard_tasks([task], was_committing=was_committing)
        assert files_in(tmp_path) == set()


def test_a_commit_that_failed_can_be_tried_again(tmp_path, monkeypatch):
    table = create(tmp_path / "t", bucket="-1", **{"dynamic-bucket.target-row-num": "2"})
    messages = [message(table, rows(1, 2, 3, 4)), message(table, rows(3, 4, v="b"))]

    def fail(_request):
        raise StorageError("snapshot-1.json", "create", "out of order")

    with monkeypatch.context() as patch:
        patch.setattr(table._context.committer, "commit", fail)
        with pytest.raises(StorageError, match="out of order"):
            table.commit_tasks(messages)
    table.commit_tasks(messages)
    assert visible(table) == {1: "a", 2: "a", 3: "b", 4: "b"}
    assert table.remove_orphan_files("0 s").files == ()


def test_changes_that_tasks_have_told_are_not_looked_up_again(tmp_path):
    table = create(tmp_path / "t", bucket="4", **{"changelog-producer": "lookup"})
    table.upsert(rows(*range(20)))
    data = pa.Table.from_pylist(rows(*range(20), v="b"))
    messages = [*Split([0], by_key=True).messages(table.uri, data)]
    told = {file.name for file in tmp_path.rglob("changelog-*")}
    let_rival_win(table, lambda: lsmerge.open_table(tmp_path / "t").upsert(rows(0, v="rival")))
    snapshot = table.commit_tasks(messages)
    changes = [row for batch in table.changelog(snapshot.id) for row in batch.to_pylist()]
    assert [row["v"] for row in changes if row["k"] == 0] == ["rival", "b"]
    assert len(changes) == 40
    now = {file.name for file in tmp_path.rglob("changelog-*")}
    # One of the four files was made for what the rival found; it left one of its own.
    assert (len(told - now), len(now - told)) == (1, 2)


def test_tasks_of_a_table_that_was_altered_are_refused(memory_uri):
    table = create(memory_uri)
    task = message(table, rows(1))
    table.alter(add={"w": pa.int64()})
    with pytest.raises(lsmerge.CommitConflictError, match="altered while the tasks were writing"):
        table.commit_tasks([task])
    table.discard_tasks([task])
    assert table.remove_orphan_files("0 s").files == ()


def test_a_partition_that_was_rescaled_meanwhile(memory_uri):
    table = create(memory_uri, bucket="2")
    table.upsert(rows(*range(10)))
    before = message(table, rows(*range(8), v="b"))
    lsmerge.open_table(memory_uri).rescale(3)
    after = message(lsmerge.open_table(memory_uri), rows(*range(5), v="c"))
    table.commit_tasks([before, after])
    assert visible(table) == {k: "c" if k < 5 else "b" if k < 8 else "a" for k in range(10)}


def test_a_task_splits_by_the_count_that_a_partition_has(memory_uri):
    table = create(memory_uri, bucket="2")
    table.upsert(rows(*range(10)))
    table.rescale(3)
    other = lsmerge.open_table(memory_uri)
    result = decode(other._context, message(other, rows(*range(10))))
    assert [file.num_buckets for file in result.files] == [3, 3, 3]


def test_input_told_in_two_layouts_is_refused(memory_uri):
    table = create(memory_uri, bucket="2", **{"changelog-producer": "input"})
    table.upsert(rows(*range(10)))
    before = message(table, rows(*range(8), v="b"))
    lsmerge.open_table(memory_uri).rescale(3)
    after = message(lsmerge.open_table(memory_uri), rows(*range(5), v="c"))
    with pytest.raises(lsmerge.CommitConflictError, match="rescaled while the tasks were writing"):
        table.commit_tasks([before, after])


OVERWRITES = [
    ({}, {"x": {1, 2}, "y": {3}}, {9: "b"}),
    ({"partition": {"p": "x"}}, {"x": {1, 2}, "y": {3}}, {3: "a", 9: "b"}),
    ({"mode": "dynamic"}, {"x": {1, 2}, "y": {3}}, {3: "a", 9: "b"}),
]


@pytest.mark.parametrize("bucket", ["2", "-1"])
@pytest.mark.parametrize(("how", "before", "after"), OVERWRITES)
def test_tasks_overwrite_what_is_there_when_they_land(memory_uri, bucket, how, before, after):
    table = create(memory_uri, ["p"], bucket=bucket)
    how = {"overwrite": True, **how}
    tasks = [message(table, rows(9, v=v, p="x"), **how) for v in ("a", "b")]
    for p, keys in before.items():
        table.upsert(rows(*keys, p=p))
    table.commit_tasks(tasks, **how)
    assert visible(table) == after


def test_an_overwrite_of_tasks_is_checked(memory_uri):
    table = create(memory_uri, ["p"])
    with pytest.raises(lsmerge.SchemaMismatchError, match="rows of partition"):
        message(table, rows(1, p="y"), overwrite=True, partition={"p": "x"})
    adding = message(table, rows(1, p="y"))
    with pytest.raises(lsmerge.SchemaMismatchError, match="pass the same `overwrite`"):
        table.commit_tasks([adding], overwrite=True)


def test_tasks_that_write_other_columns_are_refused(memory_uri):
    table = create(memory_uri)
    tasks = [message(table, rows(1)), message(table, [{"k": 1, "p": "x"}], columns=["k", "p"])]
    with pytest.raises(lsmerge.SchemaMismatchError, match="different target columns"):
        table.commit_tasks(tasks)


def test_a_task_whose_rows_the_engine_drops_has_no_run(memory_uri):
    options = {"bucket": "-1", "changelog-producer": "input", "ignore-delete": "true"}
    table = create(memory_uri, **options)
    table.commit_tasks([message(table, rows(1, _row_kind="-D")), message(table, rows(2))])
    assert visible(table) == {2: "a"}


@pytest.mark.parametrize("late", [0, 1, 2])
@pytest.mark.parametrize("share", [True, False], ids=["shares", "no-shares"])
def test_a_table_that_was_clustered_meanwhile(memory_uri, late, share):
    """`late` of the two tasks write after the buckets were chosen anew."""
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "3", "merge-engine": "aggregation"}
    schema = pa.schema({"k": pa.int64(), "v": pa.int64()})
    table = lsmerge.create_table(
        memory_uri, schema, "k", options=options | {"fields.v.aggregate-function": "sum"}
    )
    table.upsert([{"k": k, "v": -k} for k in range(12)])
    rows = pa.record_batch({"k": range(18), "v": [100] * 18})
    numbers = share_numbers(table._context, rows, 2) if share else None
    tasks = []
    for task in range(2):
        if task == 2 - late:
            table.sort_compact(["v"], order="order", buckets=3)
        own = rows.filter(pa.array([n == task for n in numbers.to_pylist()])) if share else rows
        with table.task_writer(share=(task, 2) if share else None) as writer:
            writer.write(own)
            tasks.append(writer.finish())
    if late == 0:
        table.sort_compact(["v"], order="order", buckets=3)
    table.commit_tasks(tasks)
    added = 100 if share else 200
    expected = {k: (-k if k < 12 else 0) + added for k in range(18)}
    assert {row["k"]: row["v"] for row in table.scan().to_arrow().to_pylist()} == expected
    assert {row["k"]: row["v"] for row in table.get_many(range(18)).to_pylist()} == expected
    assert table.verify().ok


def test_a_message_is_committed_once(memory_uri):
    table = create(memory_uri)
    task = message(table, rows(1, 2))
    table.commit_tasks([task])
    for _ in range(3):
        with pytest.raises(lsmerge.CommitConflictError, match="has been committed before"):
            table.commit_tasks([task])
        table.upsert(rows(1, v="b"))
        table.compact(full=True)
    table.expire_snapshots(retain_max=1)
    with pytest.raises(lsmerge.CommitConflictError, match=r"committed before|is gone"):
        table.commit_tasks([task])
    assert visible(table) == {1: "b", 2: "a"}
    assert table.verify().ok


def test_a_message_that_was_discarded_is_not_committed(memory_uri):
    table = create(memory_uri)
    task = message(table, rows(1, 2))
    with pytest.raises(lsmerge.SchemaMismatchError, match="twice"):
        table.commit_tasks([task, task])
    table.discard_tasks([task])
    with pytest.raises(lsmerge.CommitConflictError, match="is gone"):
        table.commit_tasks([task])
    assert table.latest_snapshot() is None


def test_a_share_without_rows_need_not_have_a_task(memory_uri):
    table = create(memory_uri, bucket="1")
    with table.task_writer(share=(0, 3)) as task:
        only = task.finish()
    table.commit_tasks([only])
    assert visible(table) == {}
