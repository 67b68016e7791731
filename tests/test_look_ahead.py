"""Changelogs made while their run is synced: used if nothing came between, else made anew, gone if the commit fails."""

import threading

import pyarrow as pa
import pytest

import lsmerge
from lsmerge import failpoints
from lsmerge.engine import auto_compact, opening, producer
from lsmerge.env import Env
from lsmerge.errors import StorageError
from lsmerge.storage.local_store import LocalStore
from lsmerge.storage.memory_disk import MemoryDisk
from tests.changelog_replay import Replay, rows_of

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string()})
LOOKUP = {"changelog-producer": "lookup", "write-only": "true"}


class FailingDisk(MemoryDisk):
    """A disk that refuses to link some files once it is told so."""

    def __init__(self):
        super().__init__()
        self.refused = None

    def link(self, directory, name, new_name):
        if self.refused is not None and self.refused in new_name:
            raise OSError(5, "Input/output error")
        super().link(directory, name, new_name)


class SlowDisk(MemoryDisk):
    """A disk that links changelogs late: when the call that wrote them has ended, if it does not wait for them."""

    def __init__(self):
        super().__init__()
        self.is_slow = False
        self.call_has_ended = threading.Event()

    def link(self, directory, name, new_name):
        if self.is_slow and "changelog-" in new_name:
            self.call_has_ended.wait(0.1)
        super().link(directory, name, new_name)


@pytest.fixture
def disk():
    return FailingDisk()


def table_on(disk, **options):
    store = LocalStore("/t", disk)
    context = opening.create(
        store, SCHEMA, "k", (), LOOKUP | options, exist_ok=True, env=Env.system()
    )
    return lsmerge.Table(context)


def told(table, start=1):
    rows = (row for batch in table.changelog(start) for row in batch.to_pylist())
    return [f"{r['_row_kind']} {r['k']} {r['v']}" for r in rows]


def files(table, word):
    return [info.path for info in table._context.store.list("bucket-0") if word in info.path]


def test_what_was_made_ahead_is_what_is_published(disk, monkeypatch):
    table = table_on(disk)
    table.upsert({"k": [1], "v": ["a"]})
    made = []
    monkeypatch.setattr(producer.LookupChangelog, "_make_all", lambda self, jobs: made.extend(jobs))
    table.upsert({"k": [1, 2], "v": ["b", "x"]})
    assert made == []
    assert told(table, 2) == ["-U 1 a", "+U 1 b", "+I 2 x"]


def test_a_commit_that_comes_between_is_looked_at_again(disk, monkeypatch):
    table, other = table_on(disk), table_on(disk)
    table.upsert({"k": [1], "v": ["a"]})
    commits = iter([{"k": [1, 3], "v": ["between", "y"]}])

    def commit_between(context, places):
        for rows in commits:
            other.upsert(rows)

    monkeypatch.setattr(auto_compact, "make_room", commit_between)
    table.upsert({"k": [1, 2], "v": ["b", "x"]})
    assert told(table, 2) == [
        *("-U 1 a", "+U 1 between", "+I 3 y"),
        *("-U 1 between", "+U 1 b", "+I 2 x"),
    ]
    assert len(files(table, "/changelog-")) == 3  # what was made ahead in vain is gone


@pytest.mark.parametrize("refused", ["changelog-", "data-"])
def test_a_file_that_cannot_be_synced_fails_the_commit_and_leaves_nothing(disk, refused):
    table = table_on(disk)
    table.upsert({"k": [1], "v": ["a"]})
    before = sorted(info.path for info in table._context.store.list(""))
    disk.refused = refused
    with pytest.raises(StorageError, match=refused):
        table.upsert({"k": [1], "v": ["b"]})
    disk.refused = None
    assert sorted(info.path for info in table._context.store.list("")) == before
    table.upsert({"k": [1], "v": ["c"]})
    assert told(table, 2) == ["-U 1 a", "+U 1 c"]


@pytest.mark.parametrize("at", ["write.before-discard", "commit.after-rebase"])
def test_no_thread_writes_on_when_a_commit_is_interrupted(monkeypatch, at):
    disk = SlowDisk()
    table = table_on(disk)
    table.upsert({"k": [1], "v": ["a"]})
    disk.is_slow = True

    def interrupt(name):
        if at == "write.before-discard" and name == "commit.after-rebase":
            raise StorageError("anything", "sync", "the store fails for once")
        if name == at:
            raise KeyboardInterrupt

    monkeypatch.setattr(failpoints, "hook", interrupt)
    with pytest.raises(KeyboardInterrupt):
        table.upsert({"k": [1], "v": ["b"]})
    table.close()
    still_open = disk.open_handles
    disk.call_has_ended.set()
    assert still_open == 0


def test_no_thread_writes_on_when_the_wait_for_it_is_interrupted(monkeypatch):
    disk = SlowDisk()
    table = table_on(disk)
    table.upsert({"k": [1], "v": ["a"]})
    disk.is_slow = True

    def fail(name):
        if name == "commit.after-rebase":
            raise StorageError("anything", "sync", "the store fails for once")

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(failpoints, "hook", fail)
    monkeypatch.setattr(producer.Told, "settle", interrupt)
    with pytest.raises(KeyboardInterrupt):
        table.upsert({"k": [1], "v": ["b"]})
    table.close()
    still_open = disk.open_handles
    disk.call_has_ended.set()
    assert still_open == 0


def test_no_thread_writes_on_when_cleaning_up_is_interrupted_too(monkeypatch):
    disk = SlowDisk()
    table = table_on(disk)
    table.upsert({"k": [1], "v": ["a"]})
    disk.is_slow = True

    def interrupt(name):
        if name in ("write.after-runs", "write.before-discard"):
            raise KeyboardInterrupt

    monkeypatch.setattr(failpoints, "hook", interrupt)
    with pytest.raises(KeyboardInterrupt):
        table.upsert({"k": [1], "v": ["b"]})
    table.close()
    still_open = disk.open_handles
    disk.call_has_ended.set()
    assert still_open == 0


@pytest.mark.parametrize("engine", ["deduplicate", "first-row", "aggregation", "partial-update"])
def test_rows_kept_for_the_next_look_up_are_not_the_callers_memory(disk, engine):
    table = table_on(disk, **{"merge-engine": engine})
    memory = bytearray(b"abcd")
    offsets = pa.array([0, 1, 2, 3, 4], pa.int32()).buffers()[1]
    values = pa.Array.from_buffers(pa.string(), 4, [None, offsets, pa.py_buffer(memory)])
    table.upsert(pa.table({"k": pa.array([1, 2, 3, 4]), "v": values}))
    memory[:] = b"WXYZ"
    assert table.get(2) == {"k": 2, "v": "b"}
    table.delete([2]) if engine == "deduplicate" else table.upsert({"k": [2], "v": ["n"]})
    expected = {"deduplicate": ["-D 2 b"], "first-row": []}
    assert told(table, 2) == expected.get(engine, ["-U 2 b", "+U 2 n"])


def test_a_commit_of_many_blocks_is_compared_from_its_run(disk, monkeypatch):
    small = {"file.block-size": "4 kb", "scan.memory-budget": "1 mb"}
    table, replay = table_on(disk, **small), Replay(["k"])
    jobs, make_all = [], producer.LookupChangelog._make_all

    def counted(changelog, stale):
        jobs.extend(stale)
        make_all(changelog, stale)

    monkeypatch.setattr(producer.LookupChangelog, "_make_all", counted)
    for turn in range(3):
        keys = list(range(turn, 9000, turn + 1))
        table.upsert({"k": keys, "v": [f"{turn} of {k}" for k in keys]})
    assert len(jobs) == 3
    replay.apply(table.changelog())
    assert replay.rows == rows_of(table)


def test_a_commit_into_several_buckets_and_partitions(memory_uri):
    schema = SCHEMA.append(pa.field("p", pa.string()))
    options = LOOKUP | {"bucket": "3"}
    table = lsmerge.create_table(memory_uri, schema, ["p", "k"], partition_by="p", options=options)
    for turn in range(3):
        keys = range(turn, 60)
        rows = [{"k": k, "v": f"{turn}", "p": "ab"[k % 2]} for k in keys]
        table.upsert(rows)
    updates = [change for change in told(table, 3) if change.startswith("-U")]
    assert sorted(updates) == sorted(f"-U {k} 1" for k in range(2, 60))
