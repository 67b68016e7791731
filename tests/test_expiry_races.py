"""Processes that commit, compact, read and expire at once, keeping as little as can be.

With one snapshot retained, numbers expire as fast as they are given: every writer sleeps through the expiry of
numbers it is about to use. Nothing acknowledged may be lost or doubled, and readers get right rows or are told.
"""

import pyarrow as pa
import pytest

import lsmerge
from tests import test_commit_races as races
from tests.test_commit_races import SCHEMA, together

COMMITS = 12


def write_and_expire(number: int, uri: str) -> list[int]:
    """Commit keys of one's own; the table's options make every commit expire the ones before."""
    table = lsmerge.open_table(uri)
    races._start.wait()
    keys = [number * COMMITS + commit for commit in range(COMMITS)]
    for key in keys:
        table.write([{"k": key, "writer": number}], commit_user=f"w{number}", commit_id=key)
    return keys


def compact_all_the_while(uri: str) -> list[int]:
    table = lsmerge.open_table(uri)
    races._start.wait()
    for _ in range(COMMITS):
        try:
            table.compact(full=True)
        except lsmerge.CommitConflictError:
            continue
        table.expire_snapshots(retain_max=1)
    return []


def read_all_the_while(uri: str) -> list[int]:
    """Every read is whole: of each writer a run of keys from its first one on."""
    table = lsmerge.open_table(uri)
    races._start.wait()
    for _ in range(3 * COMMITS):
        try:
            keys = table.scan(columns=["k"]).to_arrow()["k"].to_pylist()
        except lsmerge.SnapshotExpiredError:
            continue
        for number in {key // COMMITS for key in keys}:
            own = sorted(key for key in keys if key // COMMITS == number)
            assert own == list(range(number * COMMITS, number * COMMITS + len(own)))
    return []


def take_part(number: int, uri: str) -> list[int]:
    if number == 0:
        return compact_all_the_while(uri)
    if number == 1:
        return read_all_the_while(uri)
    return write_and_expire(number, uri)


@pytest.mark.parametrize("retained", [1, 3])
def test_nothing_acknowledged_is_lost_however_fast_snapshots_expire(tmp_path, retained):
    uri = str(tmp_path / "table")
    options = {"bucket": 2, "snapshot.num-retained.max": retained}
    table = lsmerge.create_table(uri, SCHEMA, "k", options=options)
    acknowledged = [key for keys in together(take_part, uri, processes=6) for key in keys]
    rows = table.scan().to_arrow()
    assert sorted(rows["k"].to_pylist()) == sorted(acknowledged)
    assert table.verify().problems == ()
    # What was committed while another process expired is left to the next commit. The compacting process may have
    # been last and kept one snapshot alone: then the rest have to be made first.
    for _ in range(retained):
        table.upsert(pa.table({"k": [-1], "writer": [-1]}))
    ids = [snapshot.id for snapshot in table.snapshots()]
    assert ids == list(range(ids[-1] - retained + 1, ids[-1] + 1))
    found = table.latest_snapshot().users
    assert {user: progress.max_identifier for user, progress in found.items()} == {
        f"w{number}": number * COMMITS + COMMITS - 1 for number in range(2, 6)
    }
