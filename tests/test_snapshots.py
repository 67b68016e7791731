"""Finding the newest snapshot: by listing once, then by number; a gap is damage, not an end."""

import dataclasses

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.errors import LsmergeError
from lsmerge.meta.data_file import CommitKind
from lsmerge.meta.manifest import ManifestRef
from lsmerge.meta.snapshot import Snapshot, SnapshotStore, UserProgress
from lsmerge.storage.checked_object import Seal
from lsmerge.storage.local_store import LocalStore
from lsmerge.storage.memory_disk import MemoryDisk
from lsmerge.storage.object_store import open_store
from lsmerge.storage.objects import ObjectInfo

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string()})
REF = ManifestRef(f"manifest-{0:032x}.arrow", Seal(1, 2), 3)
SNAPSHOT = Snapshot(
    id=1,
    commit_uuid="a" * 32,
    kind=CommitKind.APPEND,
    timestamp_ms=5,
    schema_id=0,
    next_sequence=7,
    base=(REF,),
    delta=REF,
    commit_user="job",
    commit_id=9,
    num_rows_added=2,
    sequence_clock=((0, 4), (7, 5)),
    users={"job": UserProgress(9, 1)},
)


def snapshots_in(store: LocalStore, *ids: int) -> SnapshotStore:
    """A fresh reader of a store that holds these snapshots."""
    writer = SnapshotStore(store)
    for id_ in ids:
        writer.publish(dataclasses.replace(SNAPSHOT, id=id_))
    return SnapshotStore(store)


@pytest.fixture
def disk():
    return MemoryDisk()


@pytest.fixture
def store(disk):
    return LocalStore("/table", disk)


def test_a_commit_after_a_lost_snapshot_is_refused(tmp_path):
    uri = str(tmp_path / "table")
    table = lsmerge.create_table(uri, SCHEMA, "k")
    for number in range(3):
        table.upsert([{"k": number, "v": "x"}])
    (tmp_path / "table/snapshot/snapshot-2.json").unlink()
    (tmp_path / "table/snapshot/LATEST").write_text("1")
    again = lsmerge.open_table(uri)
    for use in (
        lambda: again.upsert([{"k": 9, "v": "y"}]),
        again.latest_snapshot,
        lambda: again.scan().to_arrow(),
    ):
        with pytest.raises(lsmerge.CorruptFileError, match=r"snapshot/snapshot-2\.json"):
            use()
    assert not (tmp_path / "table/snapshot/snapshot-2.json").exists()


@pytest.mark.parametrize("hint", [None, b"1", b"2", b"99", b"", b"x", b"9" * 30])
def test_the_hint_decides_nothing(store, hint):
    snapshots = snapshots_in(store, 1, 2, 3)
    if hint is not None:
        store.replace("snapshot/LATEST", hint)
    assert snapshots.latest_id() == 3


def test_snapshots_may_begin_anywhere(store):
    assert snapshots_in(store, 5, 6).latest_id() == 6


@pytest.mark.parametrize(
    ("ids", "missing"), [((1, 3), 2), ((1, 2, 5), 3), ((4, 6, 8), 5), ((1, 10**15), 2)]
)
def test_a_gap_is_named(store, ids, missing):
    snapshots = snapshots_in(store, *ids)
    for _ in range(2):
        with pytest.raises(lsmerge.CorruptFileError, match=rf"snapshot/snapshot-{missing}\.json"):
            snapshots.latest_id()


def test_a_snapshot_that_a_racing_listing_missed_is_no_gap(store):
    snapshots_in(store, 1, 2, 3)

    class Racing(LocalStore):
        def list(self, prefix: str) -> "list[ObjectInfo]":
            return [info for info in super().list(prefix) if "snapshot-2" not in info.path]

    assert SnapshotStore(Racing("/table", store._disk)).latest_id() == 3


def test_the_directory_is_listed_once(store, disk):
    snapshots = snapshots_in(store, 1, 2)
    disk.calls.clear()
    assert snapshots.latest_id() == 2
    assert disk.calls.count("entries") == 1
    snapshots_in(store, 3, 4)
    assert snapshots.latest_id() == 4
    assert snapshots.latest_id() == 4
    assert disk.calls.count("entries") == 1


def test_a_newest_snapshot_that_vanished_is_forgotten(store):
    snapshots = snapshots_in(store, 1, 2)
    assert snapshots.latest_id() == 2
    store.delete("snapshot/snapshot-2.json")
    assert snapshots.latest_id() == 1


def test_what_is_published_reads_back_equal(store):
    snapshots = snapshots_in(store)
    assert snapshots.latest() is None
    snapshots.publish(SNAPSHOT)
    assert snapshots.read(1) == SNAPSHOT
    bare = dataclasses.replace(SNAPSHOT, id=2, commit_user=None, commit_id=None, users={}, base=())
    snapshots.publish(bare)
    assert snapshots.read(2) == bare


@pytest.mark.parametrize(
    "change",
    [
        {"commit_id": "9"},
        {"commit_id": 9.0},
        {"commit_id": True},
        {"commit_id": float("nan")},
        {"commit_user": 5},
        {"commit_user": b"job"},
        {"users": {5: UserProgress(9, 1)}},
        {"users": {"job": UserProgress("9", 1)}},
        {"next_sequence": 7.5},
        {"schema_id": "0"},
        {"timestamp_ms": None},
        {"commit_uuid": 1},
        {"sequence_clock": [(0, 4)]},
        {"delta": ManifestRef("elsewhere/x.arrow", Seal(1, 2), 3)},
    ],
)
def test_what_would_not_read_back_equal_is_not_published(store, change):
    snapshots = snapshots_in(store)
    with pytest.raises(LsmergeError, match="snapshot-1"):
        snapshots.publish(dataclasses.replace(SNAPSHOT, **change))
    assert snapshots.ids() == []


@pytest.mark.parametrize("number", ["1", 1.0, True, b"1", [1]])
def test_a_snapshot_is_asked_for_by_number(memory_uri, number):
    table = lsmerge.create_table(memory_uri, SCHEMA, "k")
    table.upsert([{"k": 1, "v": "x"}])
    with pytest.raises(lsmerge.SnapshotNotFoundError) as refusal:
        table.scan(snapshot=number)
    assert repr(number) in str(refusal.value)


def test_stores_in_memory_share_what_was_published(memory_uri):
    snapshots_in(open_store(memory_uri), 1)
    assert SnapshotStore(open_store(memory_uri)).latest_id() == 1
