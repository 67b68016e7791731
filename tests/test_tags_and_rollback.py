"""Time travel by number, tag and time; tags that keep snapshots; rollback."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.engine import opening
from lsmerge.env import Env
from lsmerge.meta.commit import Committer
from lsmerge.meta.data_file import CommitKind
from lsmerge.meta.tag import TagStore
from lsmerge.storage.local_store import LocalStore
from lsmerge.storage.memory_disk import MemoryDisk
from tests.changelog_replay import Replay, rows_of
from tests.s3_server import S3Server
from tests.test_expiry import SCHEMA, commit, expected, ids, rows, table_with


def rows_at(table: lsmerge.Table, **at: object) -> list[object]:
    return sorted(tuple(row.values()) for row in table.scan(**at).to_arrow().to_pylist())


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def env(self) -> Env:
        seeded = Env.seeded(7)
        return Env(lambda: self.ms, seeded.new_id, seeded.random, seeded.sleep)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def timed(clock):
    """A table under a clock of the test's own, with snapshots at 0, 10 and 20 seconds."""
    schema = pa.schema({"k": pa.int64(), "v": pa.string()})
    store = LocalStore("/t", MemoryDisk())
    context = opening.create(store, schema, "k", (), {}, exist_ok=False, env=clock.env())
    table = lsmerge.Table(context)
    for number in (1, 2, 3):
        commit(table, number)
        clock.ms += 10_000
    return table


# ------------------------------------------------------------------------------------------ time travel

START = 1_700_000_000_000


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        (START, 1),
        (START + 9_999, 1),
        (START + 10_000, 2),
        (START + 20_000, 3),
        (START + 10**12, 3),
        (datetime.fromtimestamp(START / 1000 + 12, UTC), 2),
        (datetime.fromtimestamp(START / 1000 + 12, UTC).isoformat(), 2),
        ("2023-11-14T22:13:30Z", 2),
        ("2023-11-14T23:13:29+01:00", 1),
    ],
)
def test_the_newest_snapshot_that_is_not_after_a_time(timed, moment, number):
    assert rows_at(timed, timestamp=moment) == expected(number)
    assert timed.get(0, timestamp=moment) == {"k": 0, "v": f"v{number}"}
    assert timed.get_many([0, 3], timestamp=moment).num_rows == 1 + (number == 3)


def test_a_time_before_the_oldest_snapshot_is_refused(timed):
    with pytest.raises(lsmerge.SnapshotNotFoundError, match="the oldest left, 1, is of 2023"):
        timed.scan(timestamp=START - 1)
    timed.expire_snapshots(retain_max=1)
    with pytest.raises(lsmerge.SnapshotNotFoundError, match="the oldest left, 3"):
        timed.scan(timestamp=START + 10_000)


def test_a_table_without_snapshots_has_no_past(memory_uri):
    table = table_with(memory_uri, 0)
    with pytest.raises(lsmerge.SnapshotNotFoundError, match="none yet"):
        table.scan(timestamp=START)
    with pytest.raises(lsmerge.SnapshotNotFoundError):
        table.create_tag("x")


@pytest.mark.parametrize("moment", ["soon", datetime(2024, 1, 1), "2024-01-01", 1.5, True])
def test_what_is_no_time_is_refused(timed, moment):
    with pytest.raises(lsmerge.InvalidOptionError, match="timestamp"):
        timed.scan(timestamp=moment)


def test_only_one_way_to_name_a_snapshot(timed):
    with pytest.raises(lsmerge.InvalidOptionError, match="give one of them"):
        timed.scan(snapshot=1, timestamp=START)


def test_history_says_what_happened(timed):
    timed.write({"k": [1], "v": ["y"]}, commit_user="job", commit_id=5)
    timed.compact(full=True)
    entries = timed.history()
    assert [entry.kind for entry in entries] == [*["append"] * 4, "compact"]
    assert [entry.rows_added for entry in entries] == [2, 2, 2, 1, 4]
    assert [(e.files_added, e.files_removed) for e in entries] == [*[(1, 0)] * 4, (1, 4)]
    assert (entries[3].commit_user, entries[3].commit_id) == ("job", 5)
    assert entries[1].time == datetime.fromtimestamp(START / 1000 + 10, UTC)


# ------------------------------------------------------------------------------------------ tags


def test_a_tag_keeps_its_snapshot_and_files(memory_uri):
    table = table_with(memory_uri, 4)
    table.create_tag("second", 2)
    table.create_tag("fourth")
    table.compact(full=True)
    table.expire_snapshots(retain_max=1)
    other = lsmerge.open_table(memory_uri)
    assert rows_at(other, tag="second") == rows_at(other, snapshot=2) == expected(2)
    assert rows_at(other, tag="fourth") == expected(4)
    assert other.get(0, tag="second") == {"k": 0, "v": "v2"}
    assert other.verify().ok
    with pytest.raises(lsmerge.SnapshotExpiredError):
        other.scan(snapshot=1)


def test_a_tag_that_goes_takes_its_files_along(tmp_path):
    table = table_with(str(tmp_path), 3)
    table.create_tag("a", 2)
    table.create_tag("b", 2)
    table.compact(full=True)
    table.expire_snapshots(retain_max=1)
    table.delete_tag("a")
    assert rows_at(table, tag="b") == expected(2)
    table.delete_tag("b")
    assert table.tags() == {}
    assert len(list(tmp_path.glob("bucket-0/*"))) == 1
    assert len(list(tmp_path.glob("manifest/*"))) == len(table.latest_snapshot().manifests)
    assert rows(table) == expected(3)


def test_a_tag_ends_with_its_time(timed, clock):
    timed.create_tag("short", 1, ttl=timedelta(seconds=5))
    timed.create_tag("long", 1, ttl="1 h")
    assert timed.tags()["short"].expires_ms == clock.ms + 5000
    timed.compact(full=True)
    timed.expire_snapshots(retain_max=1)
    assert sorted(timed.tags()) == ["long", "short"]
    clock.ms += 5000
    report = timed.expire_snapshots(retain_max=1, dry_run=True)
    assert report.tags == ("short",)
    assert timed.expire_snapshots(retain_max=1).tags == ("short",)
    assert rows_at(timed, tag="long") == expected(1)
    clock.ms += 3_600_000
    assert timed.expire_snapshots(retain_max=1).files > 0
    assert rows(timed) == expected(3)
    assert timed.verify().ok


@pytest.mark.parametrize(
    "name", ["..", "a/b", "../../x", "a\\b", "ä", "%2E", ".tmp-x", "x" * 100, "\n"]
)
def test_any_name_stays_inside_the_table(tmp_path, name):
    table = table_with(str(tmp_path / "t"), 1)
    table.create_tag(name)
    assert list(table.tags()) == [name]
    assert [p.parent for p in tmp_path.rglob("*.json") if "tag-" in p.name] == [tmp_path / "t/tag"]
    assert rows_at(table, tag=name) == expected(1)
    table.delete_tag(name)
    assert table.tags() == {}


@pytest.mark.parametrize("name", ["", None, 5, "x" * 500, "\ud800"])
def test_what_cannot_be_a_name(memory_uri, name):
    table = table_with(memory_uri, 1)
    with pytest.raises(lsmerge.InvalidOptionError, match="tag name"):
        table.create_tag(name)


def test_names_are_taken_once_and_told_if_unknown(memory_uri):
    table = table_with(memory_uri, 2)
    table.create_tag("release", 1)
    with pytest.raises(lsmerge.TagExistsError, match="release"):
        table.create_tag("release", 2)
    assert rows_at(table, tag="release") == expected(1)
    with pytest.raises(lsmerge.SnapshotNotFoundError, match="did you mean 'release'"):
        table.scan(tag="relaese")
    with pytest.raises(lsmerge.SnapshotNotFoundError):
        table.delete_tag("other")


def test_a_damaged_tag_is_named(tmp_path):
    table = table_with(str(tmp_path), 2)
    table.create_tag("x", 1)
    path = tmp_path / "tag/tag-x.json"
    path.write_bytes(path.read_bytes().replace(b'"id": 1', b'"id": 2'))
    with pytest.raises(lsmerge.CorruptFileError, match="tag-x"):
        table.scan(tag="x")
    assert any("tag-x" in problem for problem in table.verify().problems)


def test_a_tag_that_comes_too_late_is_taken_back(memory_uri, monkeypatch):
    """Between reading the snapshot and storing the tag, another process lets it expire."""
    table = table_with(memory_uri, 3)
    other = lsmerge.open_table(memory_uri)
    create = TagStore.create

    def late(self, tag):
        table.compact(full=True)
        table.expire_snapshots(retain_max=1)
        create(self, tag)

    monkeypatch.setattr(TagStore, "create", late)
    with pytest.raises(lsmerge.SnapshotExpiredError, match="expired while it was tagged"):
        other.create_tag("x", 2)
    assert table.tags() == {}


# ------------------------------------------------------------------------------------------ rollback


def test_a_rollback_is_a_new_snapshot_of_old_rows(memory_uri):
    table = table_with(memory_uri, 3)
    snapshot = table.rollback_to(1)
    assert (snapshot.id, snapshot.kind) == (4, CommitKind.ROLLBACK)
    assert rows(table) == expected(1)
    assert rows_at(table, snapshot=3) == expected(3)
    commit(table, 2)
    assert rows(table) == expected(2)
    table.rollback_to(3)
    assert rows(table) == expected(3)
    assert table.tags() == {}
    assert table.verify().ok


def test_rows_written_after_a_rollback_are_newer_than_all_before(memory_uri):
    table = table_with(memory_uri, 3)
    before = table.latest_snapshot().next_sequence
    table.rollback_to(1)
    table.upsert({"k": [0], "v": ["mine"]})
    assert table.latest_snapshot().next_sequence > before
    table.compact(full=True)
    assert table.get(0)["v"] == "mine"


def test_a_rollback_over_a_compaction(memory_uri):
    table = table_with(memory_uri, 3)
    table.compact(full=True)
    commit(table, 4)
    table.rollback_to(2)
    assert rows(table) == expected(2)
    table.compact(full=True)
    assert rows(table) == expected(2)


def test_files_that_a_rollback_brought_back_do_not_expire(memory_uri):
    table = table_with(memory_uri, 3)
    table.create_tag("t", 2)
    table.compact(full=True)
    table.rollback_to(tag="t")
    table.delete_tag("t")
    table.compact(full=True)
    table.expire_snapshots(retain_max=2)
    assert ids(table) == [5, 6]
    assert table.verify().ok
    assert rows_at(lsmerge.open_table(memory_uri), snapshot=5) == expected(2)
    table.expire_snapshots(retain_max=1)
    assert rows(lsmerge.open_table(memory_uri)) == expected(2)
    assert table.verify().ok


def test_a_rolled_back_commit_is_not_made_again(memory_uri):
    table = table_with(memory_uri, 1)
    table.write({"k": [7], "v": ["x"]}, commit_user="job", commit_id=1)
    table.rollback_to(1)
    assert table.write({"k": [7], "v": ["x"]}, commit_user="job", commit_id=1).id == 2
    assert rows(table) == expected(1)


@pytest.mark.parametrize("engine", ["deduplicate", "aggregation", "versioned"])
def test_replaying_the_changelog_gives_the_table_across_rollbacks(memory_uri, engine):
    options = {"changelog-producer": "lookup", "merge-engine": engine, "write-only": "true"}
    options |= {"versioned": {"merge-engine.versioned.ver-column": "n"}}.get(engine, {})
    schema = pa.schema({"k": pa.int64(), "n": pa.int64()})
    table = lsmerge.create_table(memory_uri, schema, "k", options=options)
    table.upsert({"k": [1, 2], "n": [1, 1]})
    table.upsert({"k": [2, 3], "n": [2, 2]})
    table.rollback_to(1)
    table.upsert({"k": [3], "n": [5]})
    table.compact(full=True)
    table.rollback_to(2)
    replay = Replay(["k"])
    for snapshot in table.snapshots():
        replay.apply(table.changelog(snapshot.id, snapshot.id))
        assert replay.rows == rows_of(table, snapshot.id)


@pytest.mark.parametrize("producer", ["none", "input"])
def test_other_readers_of_changes_are_told_what_a_rollback_changed(memory_uri, producer):
    table = table_with(memory_uri, 2, **{"changelog-producer": producer})
    table.rollback_to(1)
    (batch,) = table.changelog(3)
    told = [tuple(row.values())[:4] for row in batch.to_pylist()]
    assert told == [("-U", 0, "v2", 3), ("+U", 0, "v1", 3), ("-D", 2, "x", 3)]


def test_a_rollback_that_changes_nothing_tells_nothing(memory_uri):
    table = table_with(memory_uri, 2)
    table.rollback_to(2)
    assert list(table.changelog(3)) == []


def test_a_rollback_cannot_be_told_without_the_snapshot_before_it(memory_uri):
    table = table_with(memory_uri, 2)
    table.rollback_to(1)
    commit(table, 2)
    table.expire_snapshots(retain_max=2)
    with pytest.raises(lsmerge.ChangelogBrokenError, match=r"went with snapshot 2.*from 4"):
        list(table.changelog(3))
    assert sum(batch.num_rows for batch in table.changelog(start=4)) == 2


def test_full_compactions_do_not_tell_a_rollback(memory_uri):
    table = table_with(memory_uri, 2, **{"changelog-producer": "full-compaction"})
    table.rollback_to(1)
    with pytest.raises(lsmerge.ChangelogBrokenError, match="follow the changes from 4"):
        list(table.changelog(3))


@pytest.mark.parametrize("arguments", [{}, {"snapshot": 1, "tag": "x"}])
def test_a_rollback_needs_one_goal(memory_uri, arguments):
    table = table_with(memory_uri, 2)
    with pytest.raises(lsmerge.InvalidOptionError, match="rollback_to"):
        table.rollback_to(**arguments)


def test_a_rollback_to_what_expired_is_refused(memory_uri):
    table = table_with(memory_uri, 3)
    table.expire_snapshots(retain_max=1)
    with pytest.raises(lsmerge.SnapshotExpiredError):
        table.rollback_to(1)
    assert ids(table) == [3]


def test_a_rollback_that_races_with_a_commit_lands_on_top_of_it(memory_uri, monkeypatch):
    table = table_with(memory_uri, 3)
    other = lsmerge.open_table(memory_uri)
    prepare = Committer._prepare
    raced = []

    def racing(self, request, edit, latest):
        if self is table._context.committer and not raced:
            raced.append(latest.id)
            commit(other, 4)
        return prepare(self, request, edit, latest)

    monkeypatch.setattr(Committer, "_prepare", racing)
    assert table.rollback_to(1).id == 5
    assert rows(other) == expected(1)


def test_a_rollback_that_races_with_expiry_keeps_its_files(memory_uri, monkeypatch):
    """The target expires after it was pinned; the rollback is published, and lets go, while expiry counts files."""
    table = table_with(memory_uri, 3)
    table.compact(full=True)
    other = lsmerge.open_table(memory_uri)
    publish = Committer.commit
    load = TagStore.all
    pending = []

    def late_commit(self, request):
        if self is not other._context.committer:
            return publish(self, request)
        pending.append(lambda: publish(self, request))
        table.expire_snapshots(retain_max=1)
        return pending.pop()() if pending else table.latest_snapshot()

    def commit_after_listing(self):
        found = load(self)
        if pending:
            pending.pop()()
        return found

    monkeypatch.setattr(Committer, "commit", late_commit)
    monkeypatch.setattr(TagStore, "all", commit_after_listing)
    other.rollback_to(2)
    monkeypatch.undo()
    assert rows(lsmerge.open_table(memory_uri)) == expected(2)
    assert table.verify().ok


def test_the_same_on_an_object_store():
    with S3Server() as server:
        uri, options = "s3://bucket/table", server.storage_options
        table = lsmerge.create_table(uri, SCHEMA, "k", storage_options=options)
        for number in (1, 2, 3):
            commit(table, number)
        table.create_tag("a/b", 2)
        table.compact(full=True)
        assert table.expire_snapshots(retain_max=1).snapshots == (1, 2, 3)
        other = lsmerge.open_table(uri, storage_options=options)
        assert rows_at(other, tag="a/b") == expected(2)
        other.rollback_to(tag="a/b")
        other.delete_tag("a/b")
        other.alter(add={"c": pa.int32()})
        other.expire_snapshots(retain_max=1)
        assert table.scan().to_arrow().num_columns == 3
        assert table.verify().ok
        assert table.remove_orphan_files(older_than=10**14).files == ()
