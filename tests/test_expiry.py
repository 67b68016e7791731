"""Expiry: what goes, what stays, what readers and writers see meanwhile; orphans."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.engine import expiry
from lsmerge.meta.commit import Committer
from lsmerge.meta.expire import Retention, first_retained
from lsmerge.meta.snapshot import SnapshotStore

LATER = datetime(3000, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string()})


def table_with(uri: str, commits: int, **options: object) -> lsmerge.Table:
    """A table whose snapshot n holds the key 0 with the value `v<n>`, and the keys 1 to n."""
    # Snapshots are counted here, so none is made by a compaction.
    table = lsmerge.create_table(uri, SCHEMA, "k", options={"write-only": True} | options)
    for number in range(1, commits + 1):
        commit(table, number)
    return table


def commit(table: lsmerge.Table, number: int) -> None:
    table.upsert({"k": [0, number], "v": [f"v{number}", "x"]})


def rows(read: lsmerge.Table) -> list[object]:
    return sorted(tuple(row.values()) for row in read.scan().to_arrow().to_pylist())


def expected(number: int) -> list[object]:
    return [(0, f"v{number}"), *((k, "x") for k in range(1, number + 1))]


def ids(table: lsmerge.Table) -> list[int]:
    return [snapshot.id for snapshot in table.snapshots()]


def files_below(root: Path) -> set[str]:
    return {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()}


# ------------------------------------------------------------------------------------------ choosing


@pytest.mark.parametrize(
    ("retention", "pins", "first"),
    [
        (Retention(), (), 1),
        (Retention(at_most=3), (), 8),
        (Retention(at_most=30), (), 1),
        (Retention(older_than_ms=65), (), 7),
        (Retention(older_than_ms=60), (), 6),
        (Retention(older_than_ms=1000), (), 10),
        (Retention(at_least=4, older_than_ms=1000), (), 7),
        (Retention(at_least=40, older_than_ms=1000), (), 1),
        (Retention(at_most=5, older_than_ms=85), (), 9),
        (Retention(at_most=2), (4, 7), 4),
        (Retention(at_most=2), (99,), 9),
        (Retention(at_most=2), (1,), 1),
    ],
)
def test_what_stays(retention, pins, first):
    """Snapshots 1 to 10, committed at 10, 20, ... 100 ms."""
    assert first_retained(1, 10, retention, pins, range(10, 110, 10)) == first


def test_snapshots_before_the_earliest_do_not_come_back():
    assert first_retained(5, 10, Retention(at_most=100), (), range(60, 110, 10)) == 5
    assert first_retained(5, 10, Retention(at_most=2), (3,), range(60, 110, 10)) == 5


# ------------------------------------------------------------------------------------------ expiring


def test_expired_snapshots_are_gone_with_their_files(tmp_path):
    table = table_with(str(tmp_path), 4)
    table.compact(full=True)
    before = files_below(tmp_path)
    dry = table.expire_snapshots(retain_max=1, dry_run=True)
    assert files_below(tmp_path) == before
    report = table.expire_snapshots(retain_max=1)
    assert (dry.snapshots, dry.files, dry.size_bytes) == (
        report.snapshots,
        report.files,
        report.size_bytes,
    )
    assert report.snapshots == (1, 2, 3, 4)
    assert report.files == 4
    assert ids(table) == [5]
    assert rows(table) == expected(4)
    left = {name.split("-")[0] for name in files_below(tmp_path)}
    assert left == {
        "bucket",
        "expired/expired",
        "manifest/manifest",
        "schema/schema",
        "snapshot/LATEST",
        "snapshot/snapshot",
    }
    assert sum("bucket" in name for name in files_below(tmp_path)) == 1
    assert table.verify().ok
    assert table.remove_orphan_files(older_than=LATER).files == ()
    assert rows(lsmerge.open_table(str(tmp_path))) == expected(4)


def test_an_expired_snapshot_is_refused_by_name(memory_uri):
    table = table_with(memory_uri, 4)
    table.expire_snapshots(retain_max=2)
    for read in (
        lambda: table.scan(snapshot=2),
        lambda: table.get(0, snapshot=1),
        table.changelog,
        lambda: table.changelog(start=2),
    ):
        with pytest.raises(lsmerge.SnapshotExpiredError, match=r"the earliest (one )?left is 3"):
            read()
    with pytest.raises(lsmerge.SnapshotNotFoundError, match="snapshots 3 to 4"):
        table.scan(snapshot=9)


def test_expiring_twice_changes_nothing(memory_uri):
    table = table_with(memory_uri, 5)
    assert table.expire_snapshots(retain_max=2).snapshots == (1, 2, 3)
    assert table.expire_snapshots(retain_max=2).snapshots == ()
    commit(table, 6)
    assert table.expire_snapshots(retain_max=2).snapshots == (4,)
    assert rows(table) == expected(6)


def test_an_empty_table_has_nothing_to_expire(memory_uri):
    table = table_with(memory_uri, 0)
    assert table.expire_snapshots(retain_max=1).snapshots == ()
    assert table.expire_snapshots(retain_max=1, dry_run=True).files == 0


def test_by_default_what_is_younger_than_an_hour_stays(memory_uri):
    table = table_with(memory_uri, 15)
    assert table.expire_snapshots().snapshots == ()
    assert table.expire_snapshots(older_than=timedelta(0), retain_min=10).snapshots == tuple(
        range(1, 6)
    )


@pytest.mark.parametrize(
    "older_than",
    [timedelta(0), "0 s", datetime(3000, 1, 1, tzinfo=UTC), "3000-01-01T00:00:00Z", 10**14],
)
def test_ages_and_times(memory_uri, older_than):
    table = table_with(memory_uri, 3)
    assert len(table.expire_snapshots(older_than=older_than).snapshots) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        {"retain_max": 0},
        {"retain_max": "2"},
        {"retain_min": True},
        {"retain_min": 5, "retain_max": 2},
        {"older_than": "yesterday"},
        {"older_than": datetime(2024, 1, 1)},
        {"older_than": timedelta(days=-1)},
    ],
)
def test_what_cannot_be_retained_is_refused(memory_uri, arguments):
    table = table_with(memory_uri, 3)
    with pytest.raises(lsmerge.InvalidOptionError):
        table.expire_snapshots(**arguments)
    assert ids(table) == [1, 2, 3]


def test_a_reader_with_a_position_keeps_its_snapshots(memory_uri):
    table = table_with(memory_uri, 5)
    changes = table.changelog(end=2, consumer="slow")
    assert len(list(changes)) == 2
    assert table.consumers() == {"slow": 3}
    assert table.expire_snapshots(retain_max=1).snapshots == (1, 2)
    assert ids(table) == [3, 4, 5]


# ------------------------------------------------------------------------------------------ after a commit


def test_without_options_nothing_expires_by_itself(memory_uri):
    assert ids(table_with(memory_uri, 30)) == list(range(1, 31))


def test_writers_keep_as_many_as_the_options_say(memory_uri):
    table = table_with(memory_uri, 8, **{"snapshot.num-retained.max": 3})
    assert ids(table) == [6, 7, 8]
    assert rows(table) == expected(8)


def test_writers_expire_by_age(memory_uri):
    options = {"snapshot.time-retained": "0 ms", "snapshot.num-retained.min": 2}
    table = table_with(memory_uri, 8, **options)
    assert ids(table) == [7, 8]


def test_a_failing_expiry_does_not_fail_the_commit(memory_uri, monkeypatch):
    table = table_with(memory_uri, 3, **{"snapshot.num-retained.max": 1})

    def failing(*_arguments: object) -> None:
        raise lsmerge.StorageError("expired", "list", "the disk is gone")

    monkeypatch.setattr(expiry.Expirer, "choose", failing)
    commit(table, 4)
    monkeypatch.undo()
    assert rows(table) == expected(4)
    commit(table, 5)
    assert ids(table) == [5]


def test_options_that_contradict_each_other(memory_uri):
    options = {"snapshot.num-retained.min": 5, "snapshot.num-retained.max": 2}
    with pytest.raises(lsmerge.InvalidOptionError, match=r"num-retained\.min"):
        lsmerge.create_table(memory_uri, SCHEMA, "k", options=options)


# ------------------------------------------------------------------------------------------ exactly once


def test_a_replayed_commit_is_recognised_or_refused_after_expiry(memory_uri):
    table = table_with(memory_uri, 0)
    for number in range(4):
        table.write({"k": [number], "v": ["x"]}, commit_user="job", commit_id=number)
    table.expire_snapshots(retain_max=1)
    assert table.write({"k": [9], "v": ["x"]}, commit_user="job", commit_id=3).id == 4
    with pytest.raises(lsmerge.CommitConflictError, match="have expired"):
        table.write({"k": [9], "v": ["x"]}, commit_user="job", commit_id=1)
    assert table.write({"k": [4], "v": ["x"]}, commit_user="job", commit_id=4).id == 5
    assert table.scan().count() == 5


# ------------------------------------------------------------------------------------------ readers


def test_a_scan_that_starts_too_late_is_told(memory_uri):
    table = table_with(memory_uri, 3)
    scan = lsmerge.open_table(memory_uri).scan(
        snapshot=2
    )  # has no file open that could still be read
    table.compact(full=True)
    table.expire_snapshots(retain_max=1)
    with pytest.raises(lsmerge.SnapshotExpiredError, match="snapshot 2 expired while it was read"):
        scan.to_arrow()


def scan_that_outlives_its_snapshot(uri, consumed, **arguments):
    """The values read by a scan whose snapshot expired after some batches."""
    table = table_with(uri, 0, bucket=40)
    table.upsert({"k": list(range(400)), "v": ["old"] * 400})
    batches = lsmerge.open_table(uri).scan(**arguments).to_batches()
    read = [next(batches) for _ in range(consumed)]
    table.upsert({"k": list(range(400)), "v": ["new"] * 400})
    table.compact(full=True)
    table.expire_snapshots(retain_max=1)
    read += batches
    return [value for batch in read for value in batch["v"].to_pylist()]


@pytest.mark.parametrize("consumed", [1, 5])
def test_a_scan_under_way_gives_all_rows_of_a_snapshot_that_expired(tmp_path, consumed):
    assert scan_that_outlives_its_snapshot(str(tmp_path / "table"), consumed) == ["old"] * 400


@pytest.mark.parametrize(("consumed", "limit"), [(0, None), (1, 399), (5, 399)])
def test_a_scan_that_holds_no_files_says_that_they_expired(tmp_path, consumed, limit):
    with pytest.raises(lsmerge.SnapshotExpiredError, match=r"the earliest (one )?left is 3"):
        scan_that_outlives_its_snapshot(str(tmp_path / "table"), consumed, limit=limit)


def test_a_missing_file_of_a_retained_snapshot_is_damage(tmp_path):
    table = table_with(str(tmp_path), 2)
    next((tmp_path / "bucket-0").iterdir()).unlink()
    with pytest.raises(lsmerge.StorageError, match="bucket-0"):
        table.scan().to_arrow()


def test_lookups_of_the_newest_row_go_on_when_it_expires(memory_uri, monkeypatch):
    table = table_with(memory_uri, 2)
    other = lsmerge.open_table(memory_uri)
    load = type(other._context.versions).load
    calls = []

    def racing(versions, snapshot):
        if not calls:
            calls.append(snapshot.id)
            commit(table, 3)
            table.compact(full=True)
            table.expire_snapshots(retain_max=1)
        return load(versions, snapshot)

    monkeypatch.setattr(type(other._context.versions), "load", racing)
    assert other.get(0) == {"k": 0, "v": "v3"}
    assert calls == [2]


def test_an_open_table_finds_the_newest_snapshot_after_others_expired_all_it_knew(memory_uri):
    table = table_with(memory_uri, 2)
    other = lsmerge.open_table(memory_uri)
    assert other.latest_snapshot().id == 2
    for number in range(3, 9):
        commit(table, number)
    table.expire_snapshots(retain_max=1)
    assert rows(other) == expected(8)
    commit(other, 9)
    assert rows(table) == expected(9)


# ------------------------------------------------------------------------------------------ writers


def test_a_number_that_expired_is_not_used_again(memory_uri, monkeypatch):
    """A writer that slept while others used its number and let it expire takes the next free one."""
    fast = table_with(memory_uri, 2)
    slow = lsmerge.open_table(memory_uri)
    prepare = Committer._prepare
    slept = []

    def sleeping(self, request, edit, latest):
        snapshot = prepare(self, request, edit, latest)
        if self is slow._context.committer and not slept:
            slept.append(snapshot.id)
            for number in (3, 4, 5):
                commit(fast, number)
            fast.expire_snapshots(retain_max=1)
        return snapshot

    monkeypatch.setattr(Committer, "_prepare", sleeping)
    assert slow.upsert({"k": [6], "v": ["x"]}).id == 6
    assert slept == [3]
    assert ids(fast) == [5, 6]
    assert rows(fast) == [*expected(5), (6, "x")]
    assert fast.verify().ok


def test_a_commit_that_expires_at_once_is_acknowledged(memory_uri, monkeypatch):
    fast = table_with(memory_uri, 2)
    slow = lsmerge.open_table(memory_uri)
    is_in_line = SnapshotStore.is_in_line
    slept = []

    def sleeping(self, snapshot):
        if self is slow._context.snapshots and not slept:
            slept.append(snapshot.id)
            commit(fast, 4)
            fast.expire_snapshots(retain_max=1)
        return is_in_line(self, snapshot)

    monkeypatch.setattr(SnapshotStore, "is_in_line", sleeping)
    assert slow.upsert({"k": [3], "v": ["x"]}).id == 3
    assert ids(fast) == [4]
    assert rows(fast) == expected(4)


def test_a_number_that_no_snapshot_has_is_not_taken_for_an_expired_one(memory_uri):
    table = table_with(memory_uri, 3)
    table.expire_snapshots(retain_max=1)
    with pytest.raises(lsmerge.SnapshotExpiredError):
        table._context.snapshots.get(1)
    with pytest.raises(lsmerge.SnapshotNotFoundError):
        table._context.snapshots.get(0)


def test_a_file_left_below_the_mark_is_no_snapshot(tmp_path):
    table = table_with(str(tmp_path), 3)
    stray = (tmp_path / "snapshot/snapshot-1.json").read_bytes()
    table.expire_snapshots(retain_max=1)
    (tmp_path / "snapshot/snapshot-1.json").write_bytes(stray)
    again = lsmerge.open_table(str(tmp_path))
    assert ids(again) == [3]
    assert rows(again) == expected(3)
    with pytest.raises(lsmerge.SnapshotExpiredError):
        again.scan(snapshot=1)
    commit(again, 4)
    again.expire_snapshots(retain_max=1)
    assert not (tmp_path / "snapshot/snapshot-1.json").exists()


def test_a_lost_newest_snapshot_is_damage(tmp_path):
    table = table_with(str(tmp_path), 3)
    table.expire_snapshots(retain_max=1)
    (tmp_path / "snapshot/snapshot-3.json").unlink()
    with pytest.raises(lsmerge.CorruptFileError, match="snapshot-3"):
        lsmerge.open_table(str(tmp_path)).scan()


def test_a_damaged_mark_is_named(tmp_path):
    table = table_with(str(tmp_path), 3)
    table.expire_snapshots(retain_max=2)
    path = tmp_path / "expired/expired-2.json"
    path.write_bytes(path.read_bytes().replace(b'"earliest": 2', b'"earliest": 3'))
    commit(table, 4)
    with pytest.raises(lsmerge.CorruptFileError, match="expired-2"):
        table.expire_snapshots(retain_max=1)
    assert rows(table) == expected(4)


# ------------------------------------------------------------------------------------------ orphans


def test_orphans_are_listed_then_deleted(tmp_path):
    table = table_with(str(tmp_path), 2)
    table.create_tag("kept", 1)
    ours = [
        f"bucket-0/data-{7:032x}-0.arrow",
        f"bucket-0/changelog-{7:032x}-0.parquet",
        f"manifest/manifest-{7:032x}.arrow",
        f"bucket-0/.tmp-{7:032x}",
    ]
    foreign = [
        "notes.txt",
        "bucket-0/data.arrow",
        f"other/bucket-0/data-{7:032x}-0.arrow",
        f"manifest/data-{7:032x}-0.arrow",
        f"data-{7:032x}-0.arrow",
        "bucket-0/.tmp-mine",
        "tag/other.json",
    ]
    for name in (*ours, *foreign):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"12345")
    before = files_below(tmp_path)
    assert table.remove_orphan_files(dry_run=False).files == ()  # all are young
    report = table.remove_orphan_files(older_than=LATER)
    assert report.dry_run
    assert report.files == tuple(sorted(ours))
    assert report.size_bytes == 20
    assert files_below(tmp_path) == before
    assert table.remove_orphan_files(LATER, dry_run=False).files == report.files
    assert files_below(tmp_path) == before - set(ours)
    assert rows(table) == expected(2)
    assert table.scan(tag="kept").count() == 2


def test_files_of_partitions_are_known(tmp_path):
    schema = pa.schema({"p": pa.string(), "k": pa.int64()})
    table = lsmerge.create_table(str(tmp_path), schema, ["p", "k"], partition_by="p")
    table.upsert([{"p": "a/b", "k": 1}])
    orphan = next(tmp_path.glob("p=*")) / "bucket-0" / f"data-{7:032x}-0.arrow"
    orphan.write_bytes(b"1")
    report = table.remove_orphan_files(LATER, dry_run=False)
    assert report.files == (str(orphan.relative_to(tmp_path)),)
    assert table.scan().count() == 1
