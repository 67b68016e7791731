"""The changes of a key stay in order: in one part of a batch, and for keys that move, the old row goes first."""

import pickle

import pyarrow as pa
import pytest

import lsmerge
from tests.changelog_replay import Replay, rows_of

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.int64()})
KEYS = range(40)
FULL = {"changelog-producer": "full-compaction", "write-only": "true"}
INPUT = {"changelog-producer": "input", "write-only": "true"}
DYNAMIC = {"bucket": "-1", "dynamic-bucket.target-row-num": "10"}


def create(uri, options):
    return lsmerge.create_table(uri, SCHEMA, "k", options=options)


def upsert(table, keys=KEYS, value=0):
    table.upsert({"k": keys, "v": [value] * len(keys)})


def parts_between(table, begin, end):
    """The rows of each part, as small as parts get, read by somebody who knows only its bytes."""
    parts = table.feed().splits(begin, end, target_size=1)
    read = (table.read_split(pickle.loads(pickle.dumps(part))) for part in parts)
    return [[row for batch in batches for row in batch.to_pylist()] for batches in read]


def planned(table):
    """The parts of each batch from the first snapshot on."""
    feed = table.feed()
    position, last = feed.start("earliest"), feed.latest()
    while position != last:
        end = feed.advance(position)
        yield parts_between(table, position, end)
        position = end


def check_parts(table):
    """Each key is in one part of a batch, oldest change first, whoever says where a batch ends."""
    feed = table.feed()
    for parts in [*planned(table), parts_between(table, feed.start("earliest"), feed.latest())]:
        homes = {}
        for number, part in enumerate(parts):
            ids = {}
            for row in part:
                assert homes.setdefault(row["k"], number) == number, "a key in two parts"
                assert ids.get(row["k"], 0) <= row["_snapshot_id"]
                ids[row["k"]] = row["_snapshot_id"]


# ------------------------------------------------------------------------------- parts of a batch


@pytest.mark.parametrize("uses_units", [False, True])
def test_a_rescale_that_tells_and_a_full_compaction_after_it(memory_uri, uses_units):
    table = create(memory_uri, {"bucket": "2", **FULL})
    upsert(table)
    if uses_units:
        job = table.rescale_job(3)
        job.finish([table.run_unit(unit) for unit in job.units])
    else:
        table.rescale(3)
    upsert(table, value=1)
    table.compact(full=True)
    check_parts(table)


def test_a_sort_compaction_that_tells_and_a_full_compaction_after_it(memory_uri):
    table = create(memory_uri, DYNAMIC | FULL)
    table.upsert({"k": KEYS, "v": KEYS[::-1]})
    table.sort_compact("v", buckets=3)
    upsert(table, value=1)
    table.compact(full=True)
    check_parts(table)


def test_input_of_a_writer_that_was_open_across_a_rescale(memory_uri):
    table = create(memory_uri, {"bucket": "2", **INPUT})
    upsert(table)
    writer = table.writer()
    writer.write({"k": KEYS, "v": [1] * 40})
    table.rescale(3)
    writer.commit()
    upsert(table, value=2)
    check_parts(table)


def test_input_of_tasks_that_ran_across_a_rescale(memory_uri):
    table = create(memory_uri, {"bucket": "2", **INPUT})
    upsert(table)
    with table.task_writer() as writer:
        writer.write({"k": KEYS, "v": [1] * 40})
        message = writer.finish()
    table.rescale(3)
    table.commit_tasks([message])
    upsert(table, value=2)
    check_parts(table)


def test_input_of_a_writer_that_lost_its_buckets_to_another(memory_uri):
    table = create(memory_uri, DYNAMIC | INPUT)
    writer = table.writer()
    writer.write({"k": KEYS[::-1], "v": [0] * 40})
    upsert(table, value=1)
    writer.commit()
    upsert(table, value=2)
    check_parts(table)


@pytest.mark.parametrize("options", [{"bucket": "4"}, {"bucket": "4", **INPUT}, DYNAMIC])
def test_buckets_that_keep_their_keys_are_parts_of_their_own(memory_uri, options):
    table = create(memory_uri, options)
    upsert(table)
    upsert(table, value=1)
    ((*parts,),) = planned(table)
    assert len(parts) == 4
    check_parts(table)


def test_a_batch_after_a_rescale_has_parts_again(memory_uri):
    table = create(memory_uri, {"bucket": "2", **INPUT})
    upsert(table)
    table.rescale(3)
    upsert(table, value=1)
    assert [len(parts) for parts in planned(table)] == [2, 3]


# ------------------------------------------------------------------ keys that move between partitions

MOVING = pa.schema({"p": pa.string(), "k": pa.int64(), "v": pa.int64()})


def moving(uri, producer, **options):
    options = {"bucket": "-1", "changelog-producer": producer, "write-only": "true", **options}
    return lsmerge.create_table(uri, MOVING, "k", partition_by="p", options=options)


def moved_about(table):
    """Keys that go to partitions before and after theirs, stay, come, end, and come back elsewhere."""
    table.upsert({"p": ["m"] * 30, "k": range(30), "v": [0] * 30})
    table.compact(full=True)
    table.upsert({"p": ["a"] * 8 + ["z"] * 8, "k": range(16), "v": [1] * 16})
    table.upsert({"p": ["m"] * 4, "k": [7, 8, 20, 40], "v": [2] * 4})
    with table.writer() as writer:
        writer.write({"p": ["z"] * 2, "k": [20, 1], "v": [3] * 2})
        writer.write({"p": ["a", "m"], "k": [20, 1], "v": [4] * 2})
    table.delete([3, 25])
    table.compact(full=True)
    table.upsert({"p": ["a", "a"], "k": [3, 12], "v": [5] * 2})
    table.compact(full=True)
    return table


class Copy:
    """Rows by primary key, as a reader keeps them who takes each change by itself."""

    def __init__(self):
        self.rows = {}

    def apply(self, changes):
        for change in changes:
            kind, row = change["_row_kind"], {n: change[n] for n in ("p", "k", "v")}
            if kind in ("+I", "+U"):
                self.rows[row["k"],] = row
            else:
                self.rows.pop((row["k"],), None)


def changes_in(batches):
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("producer", ["none", "lookup", "full-compaction"])
def test_a_copy_by_primary_key_follows_moves(memory_uri, producer):
    table = moved_about(moving(memory_uri, producer))
    copy, planned_copy = Copy(), Copy()
    copy.apply(changes_in(table.changelog()))
    assert copy.rows == rows_of(table)
    for parts in planned(table):
        (part,) = parts
        planned_copy.apply(part)
    assert planned_copy.rows == rows_of(table)


def test_old_values_fit_where_keys_move(memory_uri):
    table = moved_about(moving(memory_uri, "lookup"))
    replay = Replay(["k"])
    replay.apply(table.changelog())
    assert replay.rows == rows_of(table)


def test_the_difference_of_snapshots_across_moves(memory_uri):
    table = moved_about(moving(memory_uri, "none"))
    last = table.latest_snapshot().id
    for before, after in [(1, last), (last, 1), (3, 4), (4, 5), (5, 3)]:
        replay = Replay(["k"], rows_of(table, before))
        replay.apply(table.diff(before, after))
        assert replay.rows == rows_of(table, after)
    table.rollback_to(3)
    replay = Replay(["k"], rows_of(table, last))
    replay.apply(table.changelog(last + 1))
    assert replay.rows == rows_of(table, 3)


def test_a_key_that_is_deleted_and_comes_back_elsewhere_in_one_commit(memory_uri):
    options = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
    table = moving(memory_uri, "none", **options)
    table.upsert({"p": ["m"], "k": [1], "v": [1]})
    with table.writer() as writer:
        for kind, p, v in [("+I", "m", 2), ("-D", "m", 2), ("+I", "a", 3)]:
            writer.write({"_row_kind": [kind], "p": [p], "k": [1], "v": [v]})
    told = [(row["_row_kind"], row["p"], row["v"]) for row in changes_in(table.changelog(2))]
    assert told == [("+I", "m", 2), ("-D", "m", 2), ("+I", "a", 3)]
