"""Processes that append, overwrite, rescale or cluster, and compact a table at once: its history explains its rows."""

import pyarrow as pa
import pytest

import lsmerge
from tests import test_commit_races
from tests.test_commit_races import together

ROUNDS = 6
SCHEMA = pa.schema({"p": pa.string(), "k": pa.int64(), "v": pa.string()})
OPTIONS = {
    "streaming-read-overwrite": "true",
    "num-sorted-run.compaction-trigger": "1000",
}


def work(number: int, uri: str) -> list[int]:
    """The snapshots that this process was told it made, in order."""
    table = lsmerge.open_table(uri)
    test_commit_races._start.wait()
    made = []
    for round_ in range(ROUNDS):
        rows = [
            {"p": p, "k": k, "v": f"{number}.{round_}.{p}.{k}"}
            for p in "ab"
            for k in range(round_, round_ + 20)
        ]
        try:
            made.append(act(table, number, round_, rows))
        except lsmerge.CommitConflictError:
            continue  # a rewrite of files that others replaced; nothing was published
    return [snapshot for snapshot in made if snapshot is not None]


def act(table: lsmerge.Table, number: int, round_: int, rows: list[dict]) -> int | None:
    if number == 0:
        only_a = [row for row in rows if row["p"] == "a"]
        return table.overwrite(only_a, {"p": "a"}).id
    if number == 1 and table.options["bucket"] == "-1":
        return table.sort_compact("v", buckets=2 + round_ % 3).snapshot_id
    if number == 1:
        return table.rescale(2 + round_ % 3).snapshot_id
    if number == 2:
        return table.compact(full=True).snapshot_id
    return table.upsert(rows).id


def replayed(table: lsmerge.Table) -> dict:
    state = {}
    for batch in table.changelog():
        for row in batch.to_pylist():
            key = row["p"], row["k"]
            if row["_row_kind"] in ("+I", "+U"):
                state[key] = row["v"]
            else:
                del state[key]  # an overwrite takes away only what is there
    return state


@pytest.mark.parametrize("buckets", [2, -1])
def test_the_changes_add_up_to_the_rows(tmp_path, buckets):
    uri = str(tmp_path / "t")
    options = OPTIONS | {"bucket": buckets}
    lsmerge.create_table(uri, SCHEMA, ["p", "k"], partition_by="p", options=options)
    answers = together(work, uri, processes=5)
    table = lsmerge.open_table(uri)
    assert sorted(s for answer in answers for s in answer) == [s.id for s in table.snapshots()]
    assert [len(answer) for number, answer in enumerate(answers) if number in (0, 3, 4)] == [
        ROUNDS
    ] * 3
    rows = {(r["p"], r["k"]): r["v"] for r in table.scan().to_arrow().to_pylist()}
    assert replayed(table) == rows
    keys = [{"p": p, "k": k} for p, k in rows]
    assert {(r["p"], r["k"]): r["v"] for r in table.get_many(keys).to_pylist()} == rows
    assert table.verify().ok
