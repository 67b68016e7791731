"""Dynamic buckets: where new keys go, that keys stay, and that writers who meet agree."""

import itertools
from collections import Counter

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.engine.bucket_assignment import BucketRules, assign
from lsmerge.engine.hash_index import foldable, key_hashes
from lsmerge.storage import layout
from lsmerge.storage.object_store import open_store

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])
DYNAMIC = {"bucket": "-1", "dynamic-bucket.target-row-num": "4"}


def create(uri, **options):
    named = {f"dynamic-bucket.{name.replace('_', '-')}": value for name, value in options.items()}
    return lsmerge.create_table(uri, SCHEMA, ["k"], options=DYNAMIC | named)


def rows(keys, value=0):
    return {"k": list(keys), "v": [value] * len(keys)}


def buckets_of_keys(table) -> dict[int, int]:
    """The bucket of every key, read from the files; a key in two buckets is a failure."""
    context = table._context
    version = context.versions.load(table.latest_snapshot())
    found: dict[int, int] = {}
    for place in version.places():
        for file in version.files(place):
            reader = context.runs.reader(context.file_path(file), file.run)
            for number in range(reader.num_blocks):
                batch = reader.read_block(number, context.fields(["k"]))
                for key in batch.column("k").to_pylist():
                    assert found.setdefault(key, place.bucket) == place.bucket, key
    return found


def visible(table) -> dict[int, int]:
    return {row["k"]: row["v"] for row in table.scan().to_arrow().to_pylist()}


def test_new_keys_go_to_the_newest_bucket_and_old_keys_stay(memory_uri):
    table = create(memory_uri)
    table.upsert(rows(range(6)))
    before = buckets_of_keys(table)
    assert Counter(before.values()) == {0: 4, 1: 2}
    table.upsert(rows(range(9), 1))
    after = buckets_of_keys(table)
    assert {key: after[key] for key in before} == before
    assert Counter(after.values()) == {0: 4, 1: 4, 2: 1}
    assert visible(table) == dict.fromkeys(range(9), 1)


def test_the_first_keys_are_spread_over_the_initial_buckets(memory_uri):
    table = create(memory_uri, initial_buckets=3, target_row_num=100)
    table.upsert(rows(range(90)))
    assert set(buckets_of_keys(table).values()) == {0, 1, 2}


def test_beyond_the_most_buckets_keys_are_spread_over_all(memory_uri):
    table = create(memory_uri, max_buckets=2)
    table.upsert(rows(range(200)))
    counts = Counter(buckets_of_keys(table).values())
    assert set(counts) == {0, 1}
    assert min(counts.values()) > 50


def test_each_partition_has_buckets_of_its_own(memory_uri):
    schema = pa.schema([("p", pa.string()), ("k", pa.int64())])
    table = lsmerge.create_table(
        memory_uri, schema, ["p", "k"], partition_by=["p"], options=DYNAMIC
    )
    table.upsert({"p": ["a"] * 5 + ["b"] * 3, "k": [*range(5), *range(3)]})
    places = [(d["partition"]["p"], d["bucket"]) for d in table.scan().explain()["buckets"]]
    assert places == [("a", 0), ("a", 1), ("b", 0)]
    assert table.get(("a", 4)) == {"p": "a", "k": 4}
    assert table.get(("b", 4)) is None


def test_keys_that_share_a_hash_share_a_bucket(memory_uri):
    first, second = 128345535226322449, 132074919053496791
    keys = pa.RecordBatch.from_arrays([pa.array([first, second], pa.int64())], ["k"])
    table = create(memory_uri, target_row_num=1)
    assert len(key_hashes(table._context.schema, keys).unique()) == 1
    table.upsert(rows([first, 7]))
    table.upsert(rows([8, second], 1))
    places = buckets_of_keys(table)
    assert places[first] == places[second]
    table.delete([first])
    assert table.get(first) is None
    assert table.get(second) == {"k": second, "v": 1}


def test_index_files_are_folded(memory_uri):
    table = create(memory_uri, target_row_num=1000)
    for number in range(40):
        table.upsert(rows(range(10 * number, 10 * number + 10)))
    context = table._context
    files = context.versions.load(table.latest_snapshot()).index_files(())
    assert sum(file.num_hashes for file in files) == 400
    assert len(files) <= 6
    assert len(set(buckets_of_keys(table))) == 400


def test_a_commit_of_known_keys_writes_no_index(memory_uri):
    table = create(memory_uri)
    table.upsert(rows(range(3)))
    before = index_names(memory_uri)
    table.upsert(rows(range(3), 1))
    table.delete([1])
    assert index_names(memory_uri) == before


def index_names(uri) -> set[str]:
    return {info.path for info in open_store(uri).list(layout.INDEX_DIR)}


def live_index_names(table) -> set[str]:
    version = table._context.versions.load(table.latest_snapshot())
    return {
        layout.index_path(file.name)
        for partition in version.indexed_partitions
        for file in version.index_files(partition)
    }


def test_a_rival_that_placed_our_new_keys_first_is_followed(memory_uri):
    ours, theirs = create(memory_uri), lsmerge.open_table(memory_uri)
    with ours.writer() as writer:
        writer.write(rows(range(6), 1))
        # The rival meets the keys in another order, so it places them differently.
        theirs.upsert(rows([9, 8, 7, 5, 4, 3, 2, 1, 0], 2))
    assert visible(ours) == dict.fromkeys(range(6), 1) | dict.fromkeys([7, 8, 9], 2)
    assert len(buckets_of_keys(ours)) == 9
    assert ours.get(0) == {"k": 0, "v": 1}
    assert ours.verify().ok
    data = [info for info in open_store(memory_uri).list("") if "data-" in info.path]
    assert len(data) == len(files_ever(ours)), "replaced runs are deleted"


def files_ever(table) -> set[str]:
    deltas = [table._context.versions.delta(snapshot) for snapshot in table.snapshots()]
    return {file.name for delta in deltas for file in delta}


def test_rivals_between_attempts_are_followed_too(memory_uri, monkeypatch):
    ours, theirs = create(memory_uri), lsmerge.open_table(memory_uri)
    batches = iter([[5, 0], [3, 1], [4, 2]])
    publish = ours._context.snapshots.publish

    def late(snapshot):
        for keys in itertools.islice(batches, 1):
            theirs.upsert(rows(keys, 2))
        publish(snapshot)

    monkeypatch.setattr(ours._context.snapshots, "publish", late)
    ours.upsert(rows(range(8), 1))
    assert ours.latest_snapshot().id == 4
    assert visible(ours) == dict.fromkeys(range(8), 1)
    assert len(buckets_of_keys(ours)) == 8
    assert ours.verify().ok


def test_the_order_of_rows_survives_a_move(memory_uri):
    options = DYNAMIC | {"write-buffer-size": "4 kb"}
    ours = lsmerge.create_table(memory_uri, SCHEMA, ["k"], options=options)
    theirs = lsmerge.open_table(memory_uri)
    with ours.writer() as writer:
        for value in range(5):
            writer.write({"k": list(range(60)), "v": [value] * 60})
        theirs.upsert(rows(range(60)[::-1], 9))
    assert visible(ours) == dict.fromkeys(range(60), 4)
    assert len(buckets_of_keys(ours)) == 60


def test_an_aborted_or_repeated_commit_leaves_no_index(memory_uri):
    table = create(memory_uri)
    table.write(rows([1]), commit_user="job", commit_id=1)
    table.write(rows([1, 2, 3]), commit_user="job", commit_id=1)
    aborted = table.writer()
    aborted.write(rows([4, 5, 6]))
    aborted.abort()
    assert index_names(memory_uri) == live_index_names(table)
    assert visible(table) == {1: 0}


def test_a_missing_index_is_named(memory_uri):
    table = create(memory_uri)
    table.upsert(rows(range(6)))
    (name,) = live_index_names(table)
    open_store(memory_uri).delete(name)
    fresh = lsmerge.open_table(memory_uri)
    assert name in fresh.verify().problems[0]
    with pytest.raises(lsmerge.LsmergeError, match=name):
        fresh.get(1)
    assert visible(fresh) == dict.fromkeys(range(6), 0), "a scan needs no index"


def numbers(*values):
    return pa.array(values, pa.uint32())


def assigned(counts, hashes, rules) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for bucket, some in assign(counts, numbers(*hashes), rules):
        found.setdefault(bucket, []).extend(some.to_pylist())
    return found


def test_assignment_fills_one_bucket_after_the_other():
    rules = BucketRules(target=3, initial=1, most=100)
    assert assigned({0: 3, 1: 1}, [5, 6, 7, 8], rules) == {1: [5, 6], 2: [7, 8]}
    assert assigned({}, [1, 2, 3, 4, 5, 6, 7], rules) == {0: [1, 2, 3], 1: [4, 5, 6], 2: [7]}


def test_assignment_spreads_over_all_buckets_with_room():
    rules = BucketRules(target=2, initial=2, most=100)
    assert assigned({}, [2, 3, 4, 5, 6, 7], rules) == {0: [2, 4], 1: [3, 5], 2: [6, 7]}


def test_assignment_opens_no_more_than_allowed():
    rules = BucketRules(target=1, initial=1, most=2)
    assert assigned({}, [10, 11, 12, 13], rules) == {0: [10, 12], 1: [11, 13]}


def test_small_sets_are_merged_first():
    assert foldable([], 1) == 0
    assert foldable([100, 1, 2], 1) == 2
    assert foldable([100, 30], 10) == 0
    assert foldable([100, 20], 10) == 1


def by_partition(uri):
    schema = pa.schema([("p", pa.string()), ("k", pa.int64()), ("v", pa.int64())])
    return lsmerge.create_table(uri, schema, ["p", "k"], partition_by=["p"], options=DYNAMIC)


def rows_of(partition, keys, value=0):
    return [{"p": partition, "k": key, "v": value} for key in keys]


def test_a_dropped_partition_has_no_index(memory_uri):
    table = by_partition(memory_uri)
    table.upsert(rows_of("a", range(6)) + rows_of("b", range(6)))
    kept = live_index_names(table)
    before = table.latest_snapshot().id
    table.drop_partition({"p": "a"})
    assert len(live_index_names(table)) == 1
    assert live_index_names(table) < kept
    table.upsert(rows_of("a", range(3), 1))
    assert table.get({"p": "a", "k": 2})["v"] == 1
    table.overwrite([], partition={"p": "a"})
    assert len(live_index_names(table)) == 1
    table.overwrite(rows_of("b", [7]))
    assert table.scan().to_arrow().to_pylist() == rows_of("b", [7])
    table.rollback_to(before)
    assert table.get({"p": "a", "k": 5})["v"] == 0
    table.upsert(rows_of("a", range(9), 2))
    assert table.scan(filter="p = 'a'").count() == 9
    assert table.verify().ok


@pytest.mark.parametrize("known", [range(6), range(3, 9)])
def test_rows_placed_before_their_partition_was_dropped(memory_uri, known):
    """Known hashes of theirs are new again, and must be written to the index."""
    ours, theirs = by_partition(memory_uri), lsmerge.open_table(memory_uri)
    ours.upsert(rows_of("a", range(6)) + rows_of("b", range(6)))
    with ours.writer() as writer:
        writer.write(rows_of("a", known, 1) + rows_of("b", range(2), 1))
        theirs.drop_partition({"p": "a"})
    later = lsmerge.open_table(memory_uri)
    later.upsert(rows_of("a", range(9), 2))
    assert [row["v"] for row in later.scan(filter="p = 'a'").to_arrow().to_pylist()] == [2] * 9
    assert later.get({"p": "b", "k": 1})["v"] == 1
    assert later.scan(filter="p = 'b'").count() == 6
    assert later.verify().ok
