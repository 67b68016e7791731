"""The tree looks after itself: after commits, before them, in the background, every n commits."""

import logging
import threading
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.engine import auto_compact
from lsmerge.errors import StorageError
from lsmerge.table import Table

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])


def create(uri, **options):
    named = {name.replace("__", ".").replace("_", "-"): str(v) for name, v in options.items()}
    return lsmerge.create_table(uri, SCHEMA, "k", options=named)


def commit(table, number, keys=range(10)):
    return table.upsert({"k": list(keys), "v": [number] * len(keys)})


def kinds(table):
    return [snapshot.kind.value for snapshot in table.snapshots()]


def most_runs(table):
    return table.stats().read_amplification


def opened_with(table, **options):
    """The same table as another process opens it that was given other options."""
    context = lsmerge.open_table(table.uri)._context
    return Table(replace(context, options=replace(context.options, **options)))


@contextmanager
def failing_compactions(monkeypatch, error):
    with monkeypatch.context() as patch:

        def fail(*_args, **_kwargs):
            raise error

        patch.setattr(auto_compact, "compact_places", fail)
        yield


# ----------------------------------------------------------------------------------- after commits


def test_a_writer_keeps_the_runs_few(memory_uri):
    table = create(memory_uri)
    for number in range(40):
        snapshot = commit(table, number)
        assert snapshot.kind == "append"
        assert most_runs(table) <= 5
    assert "compact" in kinds(table)
    assert table.scan().to_arrow()["v"].to_pylist() == [39] * 10


def test_young_runs_gather_and_join_what_as_many_have_become(memory_uri):
    """Commits into a large table: four at a time are compacted, and their result joins the one before."""
    table = create(memory_uri)
    commit(table, 0, keys=range(100_000))
    table.compact(full=True)
    found = []
    for number in range(8):
        commit(table, number, keys=range(number, 100_000, 100))
        found.append([run.level for bucket in table.stats().buckets for run in bucket.runs])
    assert found[:4] == [[0, 5], [0, 0, 5], [0, 0, 0, 5], [4, 5]]
    assert found[4:] == [[0, 4, 5], [0, 0, 4, 5], [0, 0, 0, 4, 5], [4, 5]]


def test_young_runs_gather_below_the_stop_trigger_only(memory_uri):
    table = create(memory_uri, num_sorted_run__stop_trigger=5)
    commit(table, 0, keys=range(100_000))
    table.compact(full=True)
    for number in range(7):
        commit(table, number, keys=range(number, 100_000, 100))
        assert most_runs(table) < 5


def test_a_writer_block_returns_its_own_snapshot(memory_uri):
    table = create(memory_uri, num_sorted_run__compaction_trigger=2)
    commit(table, 1)
    with table.writer() as writer:
        writer.write({"k": range(10), "v": [2] * 10})
    assert writer.snapshot.kind == "append"
    assert kinds(table) == ["append", "append", "compact"]


def test_a_repeated_commit_returns_the_snapshot_of_the_first(memory_uri):
    table = create(memory_uri, num_sorted_run__compaction_trigger=2)
    identity = {"commit_user": "job", "commit_id": 1}
    commit(table, 1)
    rows = {"k": range(10), "v": [2] * 10}
    first = table.write(rows, **identity)
    assert table.write(rows, **identity).id == first.id
    assert kinds(table) == ["append", "append", "compact"]


def test_only_buckets_that_were_written_to_are_looked_at(memory_uri):
    schema = pa.schema({"p": pa.int64(), "k": pa.int64()})
    table = lsmerge.create_table(memory_uri, schema, ["p", "k"], partition_by="p")
    lazy = opened_with(table, write_only=True)
    for number in range(6):
        lazy.upsert({"p": [1, 2], "k": [number, number]})
    table.upsert({"p": [2], "k": [9]})
    runs = {bucket.partition: len(bucket.runs) for bucket in table.stats().buckets}
    assert runs == {(("p", "1"),): 6, (("p", "2"),): 1}


def test_a_write_only_table_waits_for_somebody_to_compact(memory_uri):
    table = create(memory_uri, write_only="true")
    for number in range(20):
        commit(table, number)
    assert kinds(table) == ["append"] * 20
    assert most_runs(table) == 20
    lsmerge.open_table(memory_uri).compact()
    assert most_runs(table) == 1
    assert table.scan().to_arrow()["v"].to_pylist() == [19] * 10


# ------------------------------------------------------------------------------------ stop trigger


@pytest.mark.parametrize("mode", ["inline", "background"])
def test_a_writer_compacts_before_it_adds_to_too_many_runs(memory_uri, mode):
    table = create(memory_uri, compaction__mode=mode, num_sorted_run__stop_trigger=7)
    lazy = opened_with(table, write_only=True)
    for number in range(8):
        commit(lazy, number)
    with table:
        commit(table, 8)
    assert kinds(lazy) == ["append"] * 8 + ["compact", "append"]


def test_a_writer_does_not_wait_at_the_stop_trigger(memory_uri):
    table = create(memory_uri, num_sorted_run__stop_trigger=7)
    lazy = opened_with(table, write_only=True)
    for number in range(7):
        commit(lazy, number)
    commit(table, 7)
    assert kinds(table) == ["append"] * 8 + ["compact"]


def test_a_stop_trigger_below_the_compaction_trigger_is_refused(memory_uri):
    with pytest.raises(lsmerge.InvalidOptionError, match="give 5 or more"):
        create(memory_uri, num_sorted_run__stop_trigger=4)


# ------------------------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    "error",
    [
        lsmerge.CommitConflictError("another compaction was faster"),
        lsmerge.CommitUnknownError("nobody knows"),
        lsmerge.CorruptFileError("data-1.arrow", "the checksum does not fit"),
        StorageError("data-1.arrow", "write", "no space left"),
    ],
    ids=lambda error: error.code,
)
def test_a_failed_compaction_fails_no_write_and_is_tried_again(
    memory_uri, monkeypatch, caplog, error
):
    table = create(memory_uri, num_sorted_run__compaction_trigger=2)
    commit(table, 1)
    with failing_compactions(monkeypatch, error), caplog.at_level(logging.WARNING, "lsmerge"):
        assert commit(table, 2).kind == "append"
    assert str(error) in caplog.text
    assert kinds(table) == ["append", "append"]
    commit(table, 3)
    assert kinds(table)[-1] == "compact"
    assert table.scan().to_arrow()["v"].to_pylist() == [3] * 10


def test_a_bucket_left_by_a_failure_is_compacted_after_a_commit_to_another(memory_uri, monkeypatch):
    schema = pa.schema({"p": pa.int64(), "k": pa.int64()})
    options = {"num-sorted-run.compaction-trigger": "2"}
    table = lsmerge.create_table(memory_uri, schema, ["p", "k"], partition_by="p", options=options)
    table.upsert({"p": [1], "k": [1]})
    with failing_compactions(monkeypatch, lsmerge.CommitConflictError("lost")):
        table.upsert({"p": [1], "k": [1]})
    table.upsert({"p": [2], "k": [1]})
    assert [len(bucket.runs) for bucket in table.stats().buckets] == [1, 1]


@pytest.mark.parametrize("error", [lsmerge.LsmergeError("more rows"), OSError("no room")])
def test_whatever_becomes_of_a_compaction_the_commit_is_made(
    memory_uri, monkeypatch, caplog, error
):
    table = create(memory_uri, num_sorted_run__compaction_trigger=2)
    commit(table, 1)
    with failing_compactions(monkeypatch, error):
        commit(table, 2)
    assert str(error) in caplog.text
    assert table.scan().to_arrow()["v"].to_pylist() == [2] * 10


# -------------------------------------------------------------------------------- in the background


def background_threads():
    return [t for t in threading.enumerate() if t.name.startswith("lsmerge-compaction")]


def test_the_background_compacts_and_closes(memory_uri):
    before = background_threads()
    with create(memory_uri, compaction__mode="background") as table:
        for number in range(30):
            assert commit(table, number).kind == "append"
            assert most_runs(table) <= 9, "no more than the stop trigger and the commit itself"
        table._context.upkeep.wait()
        assert "compact" in kinds(table)
        assert table.scan().to_arrow()["v"].to_pylist() == [29] * 10
    assert background_threads() == before


def test_closing_gives_up_a_compaction_in_the_background(memory_uri, monkeypatch):
    """The compaction never ends by itself: only close() can end it."""
    is_under_way = threading.Event()

    def endless(*_args, progress, **_kwargs):
        is_under_way.set()
        while True:
            progress(None)

    monkeypatch.setattr(auto_compact, "compact_places", endless)
    table = create(memory_uri, compaction__mode="background", num_sorted_run__compaction_trigger=2)
    writer = table.writer()
    commit(table, 1)
    commit(table, 2)
    assert is_under_way.wait(timeout=60)
    table.close()
    table.close()
    writer.write({"k": [1], "v": [3]})
    assert writer.commit().kind == "append", "a writer that is still open may commit"
    reopened = lsmerge.open_table(memory_uri)
    assert kinds(reopened) == ["append"] * 3


def test_a_compaction_on_demand_waits_for_the_one_in_the_background(
    memory_uri, monkeypatch, caplog
):
    is_under_way, may_go_on = threading.Event(), threading.Event()
    compact_places = auto_compact.compact_places

    def held(*args, **kwargs):
        is_under_way.set()
        assert may_go_on.wait(timeout=60)
        return compact_places(*args, **kwargs)

    monkeypatch.setattr(auto_compact, "compact_places", held)
    options = {"compaction__mode": "background", "num_sorted_run__compaction_trigger": 2}
    with create(memory_uri, **options) as table:
        commit(table, 1)
        commit(table, 2)
        assert is_under_way.wait(timeout=60)
        asked = threading.Thread(target=lambda: table.compact(full=True))
        asked.start()
        may_go_on.set()
        asked.join(timeout=60)
        assert kinds(table) == ["append", "append", "compact"], "nothing was left to do"
    assert not caplog.records


def test_a_bug_in_the_background_is_logged(memory_uri, monkeypatch, caplog):
    table = create(memory_uri, compaction__mode="background", num_sorted_run__compaction_trigger=2)
    commit(table, 1)
    with failing_compactions(monkeypatch, lsmerge.LsmergeError("more rows than it read")), table:
        commit(table, 2)
        table._context.upkeep.wait()
    assert "more rows than it read" in caplog.text


# ----------------------------------------------------------------------------------- every n commits


def test_every_third_commit_is_compacted_fully(memory_uri):
    table = create(memory_uri, full_compaction__delta_commits=3)
    for number in range(7):
        commit(table, number)
    three = ["append"] * 3 + ["compact"]
    assert kinds(table) == [*three, *three, "append"]
    assert table.stats().levels == (0, 5)


def test_every_commit_may_be_compacted_fully(memory_uri):
    table = create(memory_uri, full_compaction__delta_commits=1)
    for number in range(3):
        commit(table, number)
        assert table.stats().levels == (5,)
    assert kinds(table) == ["append", "compact"] * 3


def test_commits_are_counted_over_all_who_write(memory_uri):
    """Each opens the table anew, and knows only what the snapshots say."""
    create(memory_uri, full_compaction__delta_commits=2)
    for number in range(5):
        commit(lsmerge.open_table(memory_uri), number)
    two = ["append", "append", "compact"]
    assert kinds(lsmerge.open_table(memory_uri)) == [*two, *two, "append"]


def test_commits_without_rows_and_minor_compactions_do_not_count(memory_uri):
    table = create(
        memory_uri, full_compaction__delta_commits=4, num_sorted_run__compaction_trigger=2
    )
    commit(table, 1)
    table.write(SCHEMA.empty_table(), commit_user="tick", commit_id=1)
    commit(table, 2)
    assert kinds(table) == ["append", "append", "append", "compact"], "two runs meet the trigger"
    commit(table, 3)
    table.compact()
    before = table.latest_snapshot().id
    commit(table, 4)
    assert [s.kind for s in table.snapshots() if s.id > before] == ["append", "compact"]
    assert table.latest_snapshot().commit_user == "lsmerge.full-compaction"


def test_a_full_compaction_that_failed_is_due_still(memory_uri, monkeypatch):
    table = create(memory_uri, full_compaction__delta_commits=2)
    commit(table, 1)
    with monkeypatch.context() as patch:

        def fail(*_args, **_kwargs):
            raise lsmerge.CommitConflictError("lost")

        patch.setattr(auto_compact.full_interval, "compact_places", fail)
        commit(table, 2)
    commit(table, 3)
    assert kinds(table) == ["append"] * 3 + ["compact"]


def test_a_full_compaction_takes_buckets_above_a_top_level_that_was_lowered(memory_uri):
    table = create(memory_uri, bucket=2, num_levels=9, num_sorted_run__compaction_trigger=3)
    commit(table, 0, range(20_000))
    table.compact(full=True)
    commit(table, 1)
    commit(table, 2)
    assert table.stats().levels == (7, 8)
    table.alter(options={"num-levels": "2", "full-compaction.delta-commits": "1"})
    commit(table, 3, [0])  # into one of the buckets
    assert table.stats().levels == (1,)


@pytest.mark.parametrize(("levels", "most"), [(6, 5), (7, 6), (9, 8), (20, 8)])
def test_as_many_runs_may_wait_as_there_are_levels(memory_uri, levels, most):
    """Each is larger than all newer ones together, so that only their number asks for a compaction."""
    table = create(memory_uri, num_levels=levels)
    found = []
    for size in (40_000, 20_000, 9_000, 4_000, 1_800, 800, 300, 90, 30):
        commit(table, size, keys=range(size))
        found.append(most_runs(table))
    assert max(found) == most
    assert found[:most] == list(range(1, most + 1))
