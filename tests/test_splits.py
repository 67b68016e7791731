"""What is read in parts, in other processes, is what is read in one piece."""

import itertools
import pickle
from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lsmerge
from lsmerge.engine import merging, splits
from lsmerge.engine.splits import PartSizes, default_sizes
from tests.changelog_replay import Replay, rows_of
from tests.filters import FILTERS
from tests.searches import examples
from tests.shapes import BATCHES, SHAPES
from tests.test_changelog_law import COMPARING, RIVALS, SUBJECTS_OF, made
from tests.test_placement import (
    CHANGES,
    PLACEMENTS,
    SUBJECTS,
    TARGETED,
    TARGETS,
    changes_of,
    placed,
)

SIZES = st.sampled_from([1, 500, 3000, "16 kb", "1 gb"])
_uris = (f"memory://splits-{number}" for number in itertools.count(1))


def read(table, splits):
    """The rows of all splits, each read by somebody who knows only its bytes."""
    sent = [pickle.loads(pickle.dumps(split)) for split in splits]
    return [list(table.read_split(split)) for split in sent]


def rows(batches):
    return [row for batch in batches for row in batch.to_pylist()]


def check_scan(table, size, **arguments):
    scan = table.scan(**arguments)
    splits = scan.splits(target_size=size)
    parts = read(table, splits)
    assert rows(itertools.chain(*parts)) == scan.to_arrow().to_pylist()
    stored = sum(file.run.num_rows for file in live_files(table, scan.snapshot))
    assert sum(split.num_rows for split in splits) <= stored


def live_files(table, snapshot=None):
    snapshot = snapshot or table.latest_snapshot()
    version = table._context.versions.load(snapshot)
    return [file for place in version.places() for file in version.files(place)]


@pytest.mark.parametrize("engine", ["", *SUBJECTS_OF, "targets"])
@settings(max_examples=examples(3))
@given(data=st.data(), drafts=CHANGES, placement=PLACEMENTS, size=SIZES, condition=FILTERS)
def test_the_parts_of_a_scan_are_the_scan(engine, data, drafts, placement, size, condition):
    among = {"": [*SUBJECTS.values()], "targets": [*TARGETED.values()], **SUBJECTS_OF}
    subject = data.draw(st.sampled_from(among[engine]))
    changes = changes_of(subject, drafts, placement.value_length, TARGETS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "_window_rows", lambda _context, _blocks: placement.window_rows)
        table = placed(subject, changes, placement)
        text = None if condition is None else condition.text
        check_scan(table, size, filter=text)
        check_scan(table, size, filter=text, columns=["v", "k"])


@pytest.mark.parametrize("name", SHAPES)
@settings(max_examples=examples(2))
@given(batches=st.lists(BATCHES, min_size=1, max_size=4), size=SIZES, full=st.booleans())
def test_the_parts_of_tables_of_every_shape(name, batches, size, full):
    shape = SHAPES[name]
    table = lsmerge.create_table(
        next(_uris),
        shape.schema,
        list(shape.key_types),
        partition_by=shape.partition_by,
        options=shape.options,
    )
    for batch in batches:
        table.upsert([row_of(shape, draft) for draft in batch])
    if full:
        table.compact(full=True)
    check_scan(table, size)
    check_scan(table, size, filter="k > 1", columns=["k", "v"])
    check_scan(table, size, filter=pc.field("k") > 1)
    check_scan(table, size, snapshot=1)


def row_of(shape, draft):
    text, number, sequence, is_null = draft
    values = {"t": text, "k": number, "s": sequence or 0, "v": None, "tags": None}
    if not is_null:
        values |= {"v": text.ljust(shape.value_length, "x"), "tags": [text]}
    return {name: values[name] for name in shape.schema.names}


# ------------------------------------------------------------------------------------------ sizes

WIDE = pa.schema({"k": pa.int64(), "v": pa.string()})
SMALL_BLOCKS = {"file.block-size": "4 kb", "file.compression": "none", "write-only": "true"}


def wide_table(uri, count=4000, **options):
    table = lsmerge.create_table(uri, WIDE, "k", options=SMALL_BLOCKS | options)
    table.upsert({"k": range(count), "v": [f"{k:040}" for k in range(count)]})
    return table


def test_a_large_bucket_is_cut_into_parts_of_about_equal_size(memory_uri):
    table = wide_table(memory_uri)
    table.upsert({"k": range(0, 4000, 2), "v": ["new"] * 2000})
    size = sum(file.run.size_bytes for file in live_files(table))
    parts = read(table, table.scan().splits(target_size=size // 8))
    counts = [sum(batch.num_rows for batch in part) for part in parts]
    assert 6 <= len(parts) <= 10
    assert max(counts) < 2.5 * 4000 / len(parts)


def test_small_buckets_share_a_part(memory_uri):
    table = wide_table(memory_uri, 100, bucket="20")
    assert len(table.scan().splits()) == 1
    assert len(table.scan().splits(target_size=1)) >= 20


def test_an_empty_table_has_no_parts(memory_uri):
    table = lsmerge.create_table(memory_uri, WIDE, "k")
    assert table.scan().splits() == []


def test_a_bucket_that_cannot_hold_wanted_keys_is_in_no_part(memory_uri):
    table = wide_table(memory_uri)
    assert table.scan(filter="k > 5000").splits() == []
    assert len(table.scan(filter="k = 7").splits(target_size="1 kb")) == 1


def sizes(total_mb, readers=None):
    """In megabytes."""
    found = default_sizes(total_mb << 20, readers)
    return PartSizes(*(size >> 20 for size in found))


def test_a_small_table_is_cut_for_a_few_readers():
    assert sizes(0) == sizes(20) == (4, 8)
    assert sizes(80) == (10, 10)
    assert sizes(10 << 10) == sizes(10 << 10, readers=2) == (32, 32)
    assert sizes(80, readers=2) == (20, 20)


def test_readers_that_are_known_get_one_small_part_each_rather_than_two():
    assert sizes(20, readers=2) == (5, 8)
    assert sizes(20, readers=4) == (4, 5)
    assert sizes(20, readers=100) == sizes(80, readers=100) == (4, 4)


def test_a_bucket_is_cut_into_parts_that_are_worth_it_and_small_ones_are_packed_apart(
    memory_uri, monkeypatch
):
    table = wide_table(memory_uri, bucket="2")
    size = sum(file.run.size_bytes for file in live_files(table))
    monkeypatch.setattr(splits, "SMALL_TARGET_BYTES", size // 4)
    monkeypatch.setattr(splits, "CHEAP_CUT_BYTES", size // 2)
    assert len(table.scan().splits()) == len(table.scan().splits(readers=2)) == 2
    assert len(table.scan().splits(readers=4)) == 4


@pytest.mark.parametrize("size", [0, -1, "much", 1.5])
def test_a_size_that_is_none_is_refused(memory_uri, size):
    table = wide_table(memory_uri, 1)
    with pytest.raises(lsmerge.InvalidOptionError, match="target_size"):
        table.scan().splits(target_size=size)


def test_a_limit_cannot_be_divided(memory_uri):
    with pytest.raises(lsmerge.InvalidFilterError, match="limit = 3"):
        wide_table(memory_uri, 9).scan(limit=3).splits()


def test_nobody_who_reads_is_refused(memory_uri):
    with pytest.raises(lsmerge.InvalidOptionError, match="readers = 0: accepted: 1 or more"):
        wide_table(memory_uri, 9).scan().splits(readers=0)


# ------------------------------------------------------------------------- what happens meanwhile


def test_parts_are_of_the_snapshot_they_were_planned_for(memory_uri):
    table = wide_table(memory_uri, 10)
    splits = table.scan().splits()
    table.delete(list(range(10)))
    table.compact(full=True)
    assert sorted(row["k"] for row in rows(*read(table, splits))) == list(range(10))


def test_parts_keep_the_columns_they_were_planned_with(memory_uri):
    table = wide_table(memory_uri, 3)
    splits = table.scan(columns=["v"]).splits()
    table.alter(rename={"v": "text"}, add={"n": pa.int32()})
    assert rows(*read(lsmerge.open_table(memory_uri), splits)) == [
        {"v": f"{k:040}"} for k in range(3)
    ]


def test_a_snapshot_that_has_expired_is_named(memory_uri):
    table = wide_table(memory_uri, 3)
    splits = table.scan().splits()
    table.upsert({"k": [1], "v": [""]})
    table.compact(full=True)
    table.expire_snapshots(retain_max=1)
    with pytest.raises(lsmerge.SnapshotExpiredError, match="earliest left is 3"):
        read(table, splits)


def test_another_table_in_its_place_is_noticed(tmp_path):
    import shutil

    table = wide_table(tmp_path / "t", 3)
    splits = table.scan().splits()
    table.close()
    shutil.rmtree(tmp_path / "t")
    other = wide_table(tmp_path / "t", 3)
    with pytest.raises(lsmerge.SnapshotNotFoundError, match="not the one that was planned"):
        read(other, splits)


# ----------------------------------------------------------------------------------------- changes


def walked(feed, position, **limits):
    """The batches of a feed: begin and end of each."""
    while (end := feed.advance(position, **limits)) != position:
        yield position, end
        position = end


@pytest.mark.parametrize("producer", [*COMPARING, "none"])
@settings(max_examples=examples(3))
@given(
    data=st.data(),
    drafts=CHANGES,
    placement=PLACEMENTS,
    size=SIZES,
    limit=st.none() | st.integers(1, 4),
)
def test_the_parts_of_the_changelog_are_the_changelog(
    producer, data, drafts, placement, size, limit
):
    engines = [e for e in SUBJECTS_OF if (e, producer) != ("first-row", "full-compaction")]
    subject = data.draw(st.sampled_from(SUBJECTS_OF[data.draw(st.sampled_from(engines))]))
    changes = changes_of(subject, drafts, placement.value_length)
    options = subject.options | COMPARING.get(producer, {})
    table = made(options, changes, placement, data.draw(RIVALS)).table
    feed = table.feed()
    replay, told = Replay(["k"]), []
    for begin, end in walked(feed, feed.start("earliest"), max_snapshots=limit):
        parts = read(table, feed.splits(begin, end, size))
        batch = rows(itertools.chain(*parts))
        assert limit is None or len({row["_snapshot_id"] for row in batch}) <= limit
        told += batch
        if producer != "none":
            for part in parts:
                replay.apply(part)
    assert counted(told) == counted(rows(table.changelog()))
    if producer != "none":
        assert replay.rows == rows_of(table)


def counted(changes):
    return Counter(repr(change) for change in changes)


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_all_rows_and_then_the_changes_add_up(memory_uri, producer):
    table = wide_table(memory_uri, 1000, bucket="2", **{"changelog-producer": producer})
    table.compact(full=True)
    table.upsert({"k": [1], "v": ["told later if told by full compactions"]})
    feed, replay = table.feed(), Replay(["k"])
    begin = feed.start("latest-full")
    assert begin["whole"]
    table.upsert({"k": [2, 2000], "v": ["x", "y"]})
    table.delete([3])
    table.compact(full=True)
    numbers = []
    for start, end in walked(feed, begin):
        parts = read(table, feed.splits(start, end, "4 kb"))
        numbers.append(len(parts))
        for part in parts:
            replay.apply(part)
    assert numbers[0] > 10
    assert replay.rows == rows_of(table)


def test_limits_end_a_batch_before_they_are_passed(memory_uri):
    table = wide_table(memory_uri, 100)
    for first in (0, 100, 200):
        table.upsert({"k": range(first, first + 10), "v": ["x"] * 10})
    feed = table.feed()
    begin = feed.start("earliest")

    def ends(**limits):
        return [end["snapshot"] for _, end in walked(feed, begin, **limits)]

    assert ends() == [5]
    assert ends(max_snapshots=2) == [3, 5]
    assert ends(max_rows=20) == [2, 4, 5]  # the first snapshot alone is larger, and comes alone
    assert ends(max_rows=110) == [3, 5]
    assert ends(max_bytes=1) == [2, 3, 4, 5]


def test_a_batch_ends_where_rows_change_their_buckets(memory_uri):
    table = wide_table(memory_uri, 50, bucket="2", **{"changelog-producer": "lookup"})
    table.upsert({"k": [1], "v": ["a"]})
    table.rescale(3)
    table.upsert({"k": [1], "v": ["b"]})
    table.rollback_to(2)
    table.upsert({"k": [1], "v": ["c"]})
    feed, replay = table.feed(), Replay(["k"])
    ends = []
    for begin, end in walked(feed, feed.start("earliest")):
        ends.append(end["snapshot"])
        for part in read(table, feed.splits(begin, end)):
            replay.apply(part)
    assert ends == [3, 5, 6, 7]
    assert replay.rows == rows_of(table)


def test_a_rollback_weighs_what_is_compared(memory_uri):
    table = wide_table(memory_uri, 50, **{"changelog-producer": "lookup"})
    table.upsert({"k": [1], "v": ["a"]})
    table.rollback_to(1)
    feed = table.feed()
    (part,) = feed.splits(feed.start(3), feed.latest())
    assert part.num_rows == 51
    assert part.size_bytes == sum(s.size_bytes for s in table.scan(snapshot=2).splits())
    assert [row["_row_kind"] for batch in read(table, [part]) for row in rows(batch)] == [
        "-U",
        "+U",
    ]


def test_a_rollback_whose_past_is_gone_is_planned_and_says_so_when_it_is_read(memory_uri):
    table = wide_table(memory_uri, 50, **{"changelog-producer": "lookup"})
    table.upsert({"k": [1], "v": ["a"]})
    table.rollback_to(1)
    table.expire_snapshots(retain_max=1)
    feed = table.feed()
    (part,) = feed.splits(feed.start(3), feed.latest())
    assert (part.num_rows, part.size_bytes) == (0, 0)
    with pytest.raises(lsmerge.ChangelogBrokenError, match="what it changed went with snapshot 2"):
        read(table, [part])


def test_an_overwrite_that_is_told_comes_alone_and_in_order(memory_uri):
    table = wide_table(memory_uri, 3, bucket="2", **{"streaming-read-overwrite": "true"})
    table.overwrite({"k": [1], "v": ["new"]})
    table.upsert({"k": [2], "v": ["last"]})
    feed = table.feed()
    batches = list(walked(feed, feed.start("earliest")))
    assert [end["snapshot"] for _, end in batches] == [2, 3, 4]
    ((part,),) = [read(table, feed.splits(*batch)) for batch in batches[1:2]]
    assert [row["_row_kind"] for row in rows(part)] == ["-D", "-D", "-D", "+I"]


def test_a_place_that_has_expired_is_named(memory_uri):
    table = wide_table(memory_uri, 3)
    for _ in range(3):
        table.upsert({"k": [1], "v": [""]})
    table.expire_snapshots(retain_max=2)
    with pytest.raises(lsmerge.SnapshotExpiredError, match="the earliest one left is 3"):
        table.feed().advance({"snapshot": 1, "whole": False})


# --------------------------------------------------------------------------------------- consumers


def test_a_consumer_goes_on_where_it_committed(memory_uri):
    table = wide_table(memory_uri, 3)
    table.upsert({"k": [1], "v": [""]})
    feed = table.feed(consumer="me")
    begin = feed.start("earliest")
    end = feed.advance(begin, max_snapshots=1)
    assert table.feed(consumer="me").start("latest") == begin
    feed.commit(end)
    assert table.feed(consumer="me").start("latest") == end
    feed.commit(begin)  # told late, which brings nothing back
    assert table.consumers() == {"me": 2}


def test_a_consumer_is_waited_for_as_long_as_its_lease_lasts(memory_uri):
    table = wide_table(memory_uri, 3)
    for _ in range(4):
        table.upsert({"k": [1], "v": [""]})
    table.feed(consumer="alive", ttl="1 d").start(2)
    table.feed(consumer="gone", ttl="0 ms").start(1)
    env_passes(table)
    assert table.expire_snapshots(retain_max=1).snapshots == (1,)
    table.delete_consumer("alive")
    assert table.expire_snapshots(retain_max=1).snapshots == (2, 3, 4)


def env_passes(table):
    """The clock shows another millisecond."""
    now = table._context.env.now_ms()
    while table._context.env.now_ms() == now:
        pass


def test_a_reader_without_an_end_ends_a_lease(memory_uri):
    table = wide_table(memory_uri, 3)
    table.upsert({"k": [1], "v": [""]})
    for reader in (
        lambda: table.feed(consumer="me").start(1),
        lambda: table.changelog(1, consumer="me"),
    ):
        table.feed(consumer="me", ttl="0 ms").start(1)
        env_passes(table)
        reader()
        assert table.expire_snapshots(retain_max=1).snapshots == ()


def test_a_lease_that_cannot_be_read_lets_nothing_expire(tmp_path):
    table = wide_table(tmp_path, 3)
    table.upsert({"k": [1], "v": [""]})
    table.feed(consumer="me", ttl="0 ms").start(1)
    env_passes(table)
    (tmp_path / "consumer/consumer-me/lease.json").write_bytes(b"torn")
    assert table.expire_snapshots(retain_max=1).snapshots == ()
