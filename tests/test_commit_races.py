"""Processes that commit to one local table at once: nothing acknowledged is lost or doubled.

Every process is its own, forked from one that has loaded the library and done nothing else. A barrier inside the task
holds each one until all are there, so that the commits truly meet and no process gets two tasks.
"""

import multiprocessing
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

import lsmerge

PROCESSES = 8
COMMITS = 9
SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("writer", pa.int64())])
SHARED_KEY = -1

_start: Any = None


def _hold_barrier(barrier: Any) -> None:
    global _start  # noqa: PLW0603 - the only way to hand a barrier to a pool's processes
    _start = barrier


def together(task: Callable[..., Any], *arguments: Any, processes: int = PROCESSES) -> list[Any]:
    """Run task(number, *arguments) in so many processes at once; their answers in order."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["lsmerge.table", __name__])
    pool = ProcessPoolExecutor(
        processes,
        mp_context=server,
        initializer=_hold_barrier,
        initargs=(server.Barrier(processes),),
    )
    with pool:
        futures = [pool.submit(task, number, *arguments) for number in range(processes)]
        return [future.result(timeout=120) for future in futures]


def commit_many(number: int, uri: str) -> list[tuple[int, int]]:
    """Commit rows of one's own and a row that all write; (snapshot id, own key) of each commit."""
    acknowledged = []
    with lsmerge.open_table(uri) as table:
        _start.wait()
        for commit in range(COMMITS):
            key = number * COMMITS + commit
            rows = [{"k": key, "writer": number}, {"k": SHARED_KEY, "writer": key}]
            acknowledged.append((table.write(rows).id, key))
    return acknowledged


def commit_or_compact(number: int, uri: str) -> list[tuple[int, int]]:
    """The first process compacts all the while, the others commit."""
    if number > 0:
        return commit_many(number, uri)
    table = lsmerge.open_table(uri)
    _start.wait()
    for round_ in range(COMMITS):
        try:
            table.compact(full=round_ % 3 == 0)
        except lsmerge.CommitConflictError:
            continue  # another process compacted the same files first; nothing was published
    return []


def commit_identified(number: int, uri: str) -> list[int]:
    """Every process tries the same commits under the same names."""
    table = lsmerge.open_table(uri)
    _start.wait()
    rows = [{"k": commit, "writer": number} for commit in range(COMMITS)]
    return [
        table.write([row], commit_user="job", commit_id=commit).id
        for commit, row in enumerate(rows)
    ]


def commit_new_keys(number: int, uri: str) -> list[int]:
    """All processes commit the same new keys, each in an order of its own, and add one to each."""
    table = lsmerge.open_table(uri)
    _start.wait()
    for commit in range(COMMITS):
        keys = list(range(commit * 10, commit * 10 + 10))
        shift = number * 3 % 10
        table.upsert([{"k": key, "writer": 1} for key in keys[shift:] + keys[:shift]])
    return []


def commit_crossing(number: int, uri: str) -> list[int]:
    """All processes add one to the same keys, each in a partition of its own."""
    table = lsmerge.open_table(uri)
    _start.wait()
    for commit in range(COMMITS):
        rows = [{"p": number, "k": commit % 3, "n": 1}, {"p": number, "k": 10 + commit, "n": 1}]
        table.upsert(rows)
    return []


# Who compacts: nobody but the process told to, or every writer after its own commits.
UPKEEP = {
    "write-only": {"write-only": "true"},
    "inline": {"num-sorted-run.compaction-trigger": "3"},
    "background": {"num-sorted-run.compaction-trigger": "3", "compaction.mode": "background"},
}


@pytest.fixture
def table(tmp_path, request):
    upkeep = UPKEEP[getattr(request, "param", "write-only")]
    options = {"bucket": "2", "num-sorted-run.stop-trigger": "30"} | upkeep
    return lsmerge.create_table(str(tmp_path / "table"), SCHEMA, ["k"], options=options)


def check_acknowledged(uri: str, acknowledged: list[tuple[int, int]]) -> None:
    """Each acknowledged commit is there once: in the rows, in the changes and as a snapshot."""
    table = lsmerge.open_table(uri)
    expected = {key: key // COMMITS for _, key in acknowledged}
    _, last_key = max(acknowledged)
    rows = {row["k"]: row["writer"] for row in table.scan().to_arrow().to_pylist()}
    assert rows == expected | {SHARED_KEY: last_key}
    changes = [row for batch in table.changelog() for row in batch.to_pylist()]
    own = [(row["_snapshot_id"], row["k"]) for row in changes if row["k"] != SHARED_KEY]
    assert Counter(own) == Counter(acknowledged)
    ids = [snapshot.id for snapshot in table.snapshots()]
    assert sorted(ids) == list(range(1, len(ids) + 1))
    appended = [snapshot.id for snapshot in table.snapshots() if snapshot.kind == "append"]
    assert sorted(appended) == sorted(id_ for id_, _ in acknowledged)
    assert table.verify().ok


@pytest.mark.parametrize("table", UPKEEP, indirect=True)
def test_no_commit_is_lost_or_doubled(table, tmp_path):
    uri = str(tmp_path / "table")
    answers = together(commit_many, uri)
    acknowledged = [pair for answer in answers for pair in answer]
    assert len(acknowledged) == PROCESSES * COMMITS
    check_acknowledged(uri, acknowledged)


@pytest.mark.parametrize("table", ["write-only", "inline"], indirect=True)
def test_compaction_takes_nothing_from_racing_commits(table, tmp_path):
    uri = str(tmp_path / "table")
    answers = together(commit_or_compact, uri, processes=4)
    check_acknowledged(uri, [pair for answer in answers for pair in answer])


def test_the_same_commit_from_many_processes_happens_once(table, tmp_path):
    uri = str(tmp_path / "table")
    answers = together(commit_identified, uri, processes=4)
    assert len({tuple(answer) for answer in answers}) == 1, "all are told the same snapshots"
    table = lsmerge.open_table(uri)
    assert [snapshot.id for snapshot in table.snapshots()] == sorted(answers[0])
    changes = [row for batch in table.changelog() for row in batch.to_pylist()]
    assert sorted(row["k"] for row in changes) == list(range(COMMITS))


def test_racing_writers_place_a_key_once(tmp_path):
    options = {
        "bucket": "-1",
        "dynamic-bucket.target-row-num": "7",
        "merge-engine": "aggregation",
        "fields.writer.aggregate-function": "sum",
    }
    uri = str(tmp_path / "dynamic")
    table = lsmerge.create_table(uri, SCHEMA, ["k"], options=options)
    together(commit_new_keys, uri, processes=4)
    rows = {row["k"]: row["writer"] for row in table.scan().to_arrow().to_pylist()}
    assert rows == dict.fromkeys(range(10 * COMMITS), 4)
    assert table.get_many(list(rows)).num_rows == len(rows)
    assert table.verify().ok


def test_racing_writers_keep_a_key_in_one_partition(tmp_path):
    schema = pa.schema(
        [("p", pa.int64()), pa.field("k", pa.int64(), nullable=False), ("n", pa.int64())]
    )
    options = {
        "bucket": "-1",
        "merge-engine": "aggregation",
        "fields.n.aggregate-function": "sum",
    }
    uri = str(tmp_path / "crossing")
    table = lsmerge.create_table(uri, schema, ["k"], partition_by=["p"], options=options)
    together(commit_crossing, uri, processes=4)
    rows = [(row["k"], row["n"]) for row in table.scan().to_arrow().to_pylist()]
    once = [(10 + commit, 4) for commit in range(COMMITS)]
    assert sorted(rows) == [(key, COMMITS // 3 * 4) for key in range(3)] + once
    assert table.verify().ok


def test_a_repeated_commit_leaves_no_file(table, tmp_path):
    row = [{"k": 1, "writer": 0}]
    first = table.write(row, commit_user="job", commit_id=1)
    files = sorted(tmp_path.rglob("*"))
    assert table.write(row, commit_user="job", commit_id=1).id == first.id
    assert sorted(tmp_path.rglob("*")) == files
