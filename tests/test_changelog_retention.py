"""Changes that stay longer than their snapshots: what stays, what goes, and how readers are told."""

import errno
import random
from contextlib import suppress
from datetime import UTC, datetime

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.engine import opening
from lsmerge.meta.change_records import ChangeRecords
from lsmerge.storage import layout
from lsmerge.storage.local_store import LocalStore
from lsmerge.storage.memory_disk import MemoryDisk
from tests import test_commit_races as races
from tests.changelog_replay import Replay, rows_of
from tests.disks import distinct, mounted, repeated_world
from tests.test_tags_and_rollback import Clock

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string()})
LATER = 10**14


def table_with(uri, commits, **options):
    table = lsmerge.create_table(
        uri, SCHEMA, "k", options={"changelog-producer": "lookup", "write-only": "true", **options}
    )
    for number in range(1, commits + 1):
        table.upsert({"k": [1, number], "v": [f"v{number}"] * 2})
    return table


def changed_ids(table, start="earliest"):
    return sorted({id_ for b in table.changelog(start) for id_ in b["_snapshot_id"].to_pylist()})


def changelog_files(table):
    listed = table._context.store.list("bucket-0")
    return [info.path for info in listed if "/changelog-" in info.path]


def test_changes_stay_when_their_snapshots_go(memory_uri):
    table = table_with(memory_uri, 6, **{"changelog.num-retained.max": 4})
    report = table.expire_snapshots(retain_max=1)
    assert report.snapshots == (1, 2, 3, 4, 5)
    assert [s.id for s in table.snapshots()] == [6]
    assert changed_ids(table) == changed_ids(table, 3) == [3, 4, 5, 6]
    assert len(changelog_files(table)) == 4
    assert table.verify().problems == ()
    assert table.remove_orphan_files(LATER).files == ()


def test_what_outlives_its_snapshot_is_told_as_before(memory_uri):
    table = table_with(memory_uri, 6, **{"changelog.num-retained.max": 100})
    before = [row for batch in table.changelog() for row in batch.to_pylist()]
    table.expire_snapshots(retain_max=1)
    assert [row for batch in table.changelog() for row in batch.to_pylist()] == before
    replay = Replay(["k"])
    replay.apply(table.changelog())
    assert replay.rows == rows_of(table)


@pytest.mark.parametrize("producer", ["input", "full-compaction"])
def test_other_producers_too(memory_uri, producer):
    options = {"changelog-producer": producer, "changelog.num-retained.max": 100}
    table = table_with(memory_uri, 3, **options)
    table.compact(full=True)
    before = [row for batch in table.changelog() for row in batch.to_pylist()]
    table.upsert({"k": [1], "v": ["last"]})
    table.expire_snapshots(retain_max=1)
    assert len(before) > 0
    assert [row for batch in table.changelog(end=4) for row in batch.to_pylist()] == before


def test_the_error_names_the_earliest_change_left(memory_uri):
    table = table_with(memory_uri, 6, **{"changelog.num-retained.max": 4})
    table.expire_snapshots(retain_max=2)
    with pytest.raises(lsmerge.SnapshotExpiredError, match="earliest one left is 3: start=3"):
        table.changelog(2)
    with pytest.raises(lsmerge.SnapshotExpiredError, match="earliest left is 5"):
        table.scan(snapshot=4)


def test_later_expiries_let_changes_go_and_their_files_with_them(memory_uri):
    options = {"changelog.num-retained.max": 4, "snapshot.num-retained.max": 2}
    table = table_with(memory_uri, 40, **options)
    assert changed_ids(table)[-4:] == changed_ids(table)
    assert len(ChangeRecords(table._context.store).ids()) <= 4
    assert len(changelog_files(table)) <= 4
    assert table.verify().problems == ()
    assert table.remove_orphan_files(LATER).files == ()
    table.alter(options={"changelog.num-retained.max": 1})
    table.expire_snapshots(retain_max=1)
    assert len(changelog_files(table)) <= 1
    assert ChangeRecords(table._context.store).ids() == []
    assert table.remove_orphan_files(LATER).files == ()


def test_without_the_options_changes_go_with_their_snapshots(memory_uri):
    table = table_with(memory_uri, 4, **{"changelog.num-retained.min": 3})
    table.expire_snapshots(retain_max=1)
    assert changed_ids(table) == [2, 3, 4]
    table.alter(reset=["changelog.num-retained.min"])
    table.expire_snapshots(retain_max=1)
    assert changed_ids(table) == [4]
    assert ChangeRecords(table._context.store).ids() == []


def test_changes_go_by_age():
    clock = Clock()
    start, options = clock.ms, {"changelog-producer": "lookup", "changelog.time-retained": "10 s"}
    store = LocalStore("/t", MemoryDisk())
    table = lsmerge.Table(
        opening.create(store, SCHEMA, "k", (), options, exist_ok=False, env=clock.env())
    )
    for number in range(4):
        clock.ms += 4_000
        table.upsert({"k": [number], "v": ["v"]})
    clock.ms += 4_000
    table.expire_snapshots(retain_max=1)
    assert changed_ids(table) == [3, 4]
    moment = datetime.fromtimestamp((start + 13_000) / 1000, UTC)
    assert changed_ids(table, moment) == [4]
    clock.ms += 8_000
    table.expire_snapshots(retain_max=1)
    assert changed_ids(table) == [4]


def test_a_dry_run_tells_what_would_be_and_changes_nothing(memory_uri):
    table = table_with(memory_uri, 6, **{"changelog.num-retained.max": 4})
    planned = table.expire_snapshots(retain_max=1, dry_run=True)
    assert changed_ids(table) == [1, 2, 3, 4, 5, 6]
    done = table.expire_snapshots(retain_max=1)
    assert (planned.snapshots, planned.files, planned.size_bytes) == (
        done.snapshots,
        done.files,
        done.size_bytes,
    )


def test_a_consumer_keeps_the_changes_it_needs(memory_uri):
    table = table_with(memory_uri, 6, **{"changelog.num-retained.max": 4})
    table.expire_snapshots(retain_max=1)
    reader = table.changelog(3, consumer="slow")
    next(reader)
    table.upsert({"k": [9], "v": ["new"]})
    table.upsert({"k": [9], "v": ["newer"]})
    table.expire_snapshots(retain_max=1)
    assert changed_ids(table) == [3, 4, 5, 6, 7, 8]


def test_a_tag_that_goes_leaves_changes_that_stay(memory_uri):
    table = table_with(memory_uri, 6, **{"changelog.num-retained.max": 4})
    table.create_tag("old", 1)
    table.create_tag("kept", 4)
    table.expire_snapshots(retain_max=1)
    table.delete_tag("old")
    table.delete_tag("kept")
    assert changed_ids(table) == [3, 4, 5, 6]
    assert len(changelog_files(table)) == 4
    assert table.verify().problems == ()


def test_a_late_record_of_changes_that_expired_does_not_count(memory_uri):
    table = table_with(memory_uri, 4, **{"changelog.num-retained.max": 2})
    first = table._context.snapshots.read(1)
    table.expire_snapshots(retain_max=1)
    ChangeRecords(table._context.store).keep(first)
    assert changed_ids(table) == [3, 4]
    assert table.verify().problems == ()
    with pytest.raises(lsmerge.SnapshotExpiredError, match="start=3"):
        table.changelog(1)


def test_a_damaged_record_is_found(memory_uri):
    table = table_with(memory_uri, 4, **{"changelog.num-retained.max": 4})
    table.expire_snapshots(retain_max=1)
    store = table._context.store
    path = layout.change_record_path(2)
    data = bytearray(store.get(path).to_pybytes())
    data[10] ^= 1
    store.delete(path)
    store.put(path, bytes(data))
    assert [path in problem for problem in table.verify().problems] == [True]
    with pytest.raises(lsmerge.CorruptFileError, match="changelog-2"):
        list(table.changelog(2))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"changelog-producer": "none", "changelog.time-retained": "1 d"}, "changelog-producer"),
        ({"changelog.num-retained.min": 3, "changelog.num-retained.max": 2}, "more than"),
    ],
)
def test_options_that_contradict_are_refused(memory_uri, options, words):
    with pytest.raises(lsmerge.InvalidOptionError, match=words):
        table_with(memory_uri, 0, **options)


# ---- failures and races ----

RETAINED = {"changelog-producer": "input", "write-only": "true", "changelog.num-retained.max": 3}
CHANGING = {"make_directory", "create_file", "write", "sync", "link", "rename", "unlink"}


def expired_twice(uri):
    """Six commits; snapshots and changes expire after four of them and at the end."""
    table = lsmerge.create_table(uri, SCHEMA, "k", options=RETAINED)
    for number in range(1, 5):
        table.upsert({"k": [number], "v": [f"v{number}"]})
    table.expire_snapshots(retain_max=1)
    for number in range(5, 7):
        table.upsert({"k": [number], "v": [f"v{number}"]})


def failed_expiries(**fault):
    """Disks on which the second expiry failed at its n-th call, for every n that changes something."""
    disk = MemoryDisk()
    with mounted(disk) as uri:
        expired_twice(uri)
    done = disk.crash(random.Random(0), "all")
    with mounted(done) as uri, repeated_world(1):
        lsmerge.open_table(uri).expire_snapshots(retain_max=1)
    for number, call in enumerate(list(done.calls), start=1):
        if call not in CHANGING:
            continue
        tried = disk.crash(random.Random(0), "all")
        tried.fail_at(number, OSError(errno.EIO, f"call {number} fails"), **fault)
        with mounted(tried) as uri, repeated_world(1), suppress(lsmerge.LsmergeError):
            lsmerge.open_table(uri).expire_snapshots(retain_max=1)
        tried.heal()
        yield number, tried


def check_after_failure(disk):
    with mounted(disk) as uri:
        table = lsmerge.open_table(uri)
        assert table.verify().problems == ()
        assert set(changed_ids(table)) >= {4, 5, 6}
        table.expire_snapshots(retain_max=1)
        assert changed_ids(table) == [4, 5, 6]
        table.remove_orphan_files(LATER, dry_run=False)
        assert changed_ids(table) == [4, 5, 6]
        assert len(changelog_files(table)) == 3
        assert table.verify().problems == ()
        assert len(table.scan().to_arrow()) == 6


@pytest.mark.parametrize("after", [False, True], ids=["refused", "answer-lost"])
def test_one_failing_call_loses_no_change(after):
    disks = [disk for _, disk in failed_expiries(after=after)]
    assert len(disks) > 15
    for disk in distinct(disks):
        check_after_failure(disk)


@pytest.mark.parametrize("keep", ["none", "some"])
def test_power_loss_at_any_call_loses_no_change(keep):
    failed = failed_expiries(forever=True)
    for disk in distinct(disk.crash(random.Random(number), keep) for number, disk in failed):
        check_after_failure(disk)


def write_and_expire(number, uri):
    """Commit keys of one's own; each commit lets snapshots and changes expire."""
    table = lsmerge.open_table(uri)
    races._start.wait()
    for commit in range(6):
        table.upsert({"k": [6 * number + commit], "v": [str(number)]})
    return []


def test_writers_that_expire_at_once_keep_the_newest_changes_whole(tmp_path):
    uri = str(tmp_path / "table")
    options = RETAINED | {"changelog.num-retained.max": 5, "snapshot.num-retained.max": 1}
    table = lsmerge.create_table(uri, SCHEMA, "k", options=options)
    races.together(write_and_expire, uri, processes=3)
    latest = table.latest_snapshot().id
    assert latest == 18
    assert changed_ids(table, latest - 4) == list(range(latest - 4, latest + 1))
    assert table.verify().problems == ()
    assert len(table.scan().to_arrow()) == 18
