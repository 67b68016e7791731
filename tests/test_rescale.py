"""Rescaling: the same rows in another number of buckets, whoever else is at work."""

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lsmerge
from lsmerge.engine import partition_rewrite, redistribute, rescale
from lsmerge.engine.placement import FixedPlacer
from lsmerge.options import resolve
from lsmerge.storage.object_store import open_store
from tests.model import Model
from tests.searches import examples
from tests.test_overwrite import meanwhile
from tests.test_placement import SCHEMA as PLACED_SCHEMA
from tests.test_placement import (
    SUBJECTS,
    _uris,
    arrow_of,
    changes_of,
    check_reads,
    many_drafts,
)

SCHEMA = pa.schema({"p": pa.string(), "k": pa.int64(), "v": pa.string()})
FIXTURES = Path(__file__).parent / "fixtures" / "v1"


@pytest.fixture
def table(memory_uri):
    options = {"bucket": 3, "num-sorted-run.compaction-trigger": 3, "write-only": True}
    table = lsmerge.create_table(memory_uri, SCHEMA, ["p", "k"], partition_by="p", options=options)
    table.upsert(rows("a", "a1", range(50)))
    table.upsert(rows("b", "b1", range(50)))
    table.upsert(rows("a", "a2", range(25)))
    return table


def rows(p, v, keys):
    return [{"p": p, "k": k, "v": v} for k in keys]


def content(table):
    return {(r["p"], r["k"]): r["v"] for r in table.scan().to_arrow().to_pylist()}


def counts(table):
    return {info.values["p"]: info.buckets for info in table.partitions()}


def check_lookups(table):
    """Every key is found where the look-up looks for it."""
    expected = content(table)
    found = table.get_many([{"p": p, "k": k} for p, k in expected]).to_pylist()
    assert {(r["p"], r["k"]): r["v"] for r in found} == expected
    assert table.get(("a", 10_000)) is None


@pytest.mark.parametrize("count", [1, 2, 4, 5, 6, 12])
def test_rows_stay_and_are_found(table, count):
    before = content(table)
    report = table.rescale(count)
    assert report.partitions == 2
    assert table.latest_snapshot().kind == "rescale"
    assert counts(table) == {"a": count, "b": count}
    assert content(table) == before
    check_lookups(table)
    assert table.verify().ok
    assert content(lsmerge.open_table(table.uri)) == before


def test_more_buckets_than_files_are_open_at_once(table, monkeypatch):
    monkeypatch.setattr(redistribute, "MAX_OPEN_BUCKETS", 2)
    before = content(table)
    for count in (7, 9, 3):
        table.rescale(count)
        assert content(table) == before
        check_lookups(table)


def test_a_budget_for_few_runs_and_buckets(memory_uri):
    options = {"bucket": 2, "scan.memory-budget": "8 kb"}
    table = lsmerge.create_table(memory_uri, SCHEMA, ["p", "k"], partition_by="p", options=options)
    for number in range(12):
        table.upsert(rows("a", f"v{number}", range(number, 60)))
    before = content(table)
    table.rescale(3)
    assert content(table) == before
    check_lookups(table)


def test_one_partition_has_a_count_of_its_own(table):
    table.rescale(5, {"p": "a"})
    assert counts(table) == {"a": 5, "b": 3}
    table.upsert([*rows("a", "new", [1, 99]), *rows("b", "new", [1, 99]), *rows("c", "new", [1])])
    assert counts(table) == {"a": 5, "b": 3, "c": 3}
    table.compact(full=True)
    assert counts(table) == {"a": 5, "b": 3, "c": 3}
    table.delete([("a", 2), ("b", 2)])
    check_lookups(table)
    assert len(content(table)) == 50 + 50 + 1 + 2 - 2


def test_nothing_to_do_makes_no_snapshot(table, memory_uri):
    latest = table.latest_snapshot().id
    assert table.rescale(3).snapshot_id is None
    assert table.rescale(9, {"p": "nowhere"}).snapshot_id is None
    assert table.latest_snapshot().id == latest
    empty = lsmerge.create_table(f"{memory_uri}-empty", SCHEMA, ["p", "k"])
    assert empty.rescale(4).snapshot_id is None


def test_an_emptied_partition_starts_anew(table):
    table.rescale(5, {"p": "a"})
    table.drop_partition({"p": "a"})
    table.upsert(rows("a", "again", range(9)))
    assert counts(table) == {"a": 3, "b": 3}
    check_lookups(table)


def test_an_overwritten_partition_keeps_its_count(table):
    table.rescale(5, {"p": "a"})
    table.overwrite(rows("a", "again", range(9)), {"p": "a"})
    assert counts(table) == {"a": 5, "b": 3}
    check_lookups(table)


def test_time_travel_sees_the_old_buckets(table):
    before = content(table)
    latest = table.latest_snapshot().id
    table.rescale(2)
    table.upsert(rows("a", "new", range(50)))
    found = table.scan(snapshot=latest).to_arrow().to_pylist()
    assert {(r["p"], r["k"]): r["v"] for r in found} == before


def test_followers_do_not_see_a_rescale(table):
    snapshot = table.rescale(2).snapshot_id
    assert list(table.changelog(start=snapshot)) == []


@pytest.mark.parametrize("count", [0, -1, 2**15, 1.5, True, "4", None])
def test_counts_that_cannot_be(table, count):
    with pytest.raises(lsmerge.InvalidOptionError, match="rescale to"):
        table.rescale(count)


def test_an_old_table_is_rescaled(tmp_path):
    """Its manifests do not say how many buckets a partition has."""
    shutil.copytree(FIXTURES / "arrow", tmp_path / "t")
    table = lsmerge.open_table(tmp_path / "t")
    before = table.scan().to_arrow().to_pylist()
    assert {info.buckets for info in table.partitions()} == {2}
    table.upsert(before[:1])
    table.rescale(3)
    assert {info.buckets for info in table.partitions()} == {3}
    found = table.scan().to_arrow().to_pylist()
    assert sorted(map(str, found)) == sorted(map(str, before))
    keys = [{name: row[name] for name in table.primary_key} for row in before]
    assert table.get_many(keys).num_rows == len(before)


# --------------------------------------------------------------------------------------- meeting others


def test_a_writer_splits_anew_what_it_split_by_an_old_count(table, monkeypatch):
    rival = lsmerge.open_table(table.uri)
    meanwhile(monkeypatch, table, lambda: rival.rescale(4, {"p": "a"}))
    written = [*rows("a", "late", range(40, 60)), *rows("b", "late", range(40, 60))]
    table.upsert(written)
    assert counts(table) == {"a": 4, "b": 3}
    assert {content(table)[row["p"], row["k"]] for row in written} == {"late"}
    check_lookups(table)
    assert table.verify().ok


def test_rows_split_by_an_old_count_are_never_published(table, monkeypatch):
    """The committer looks itself, whatever the writer does."""
    rival = lsmerge.open_table(table.uri)
    before = content(table)
    meanwhile(monkeypatch, table, lambda: rival.rescale(4, {"p": "a"}))

    def rebase(placer, _latest, edit):
        files = (replace(file, num_buckets=3) for file in edit.add)
        return replace(edit, add=tuple(files), layout=placer._counts.layout)

    monkeypatch.setattr(FixedPlacer, "_rebase", rebase)
    with pytest.raises(lsmerge.CommitConflictError, match=r"\['a'\] .* 3 and 4 buckets"):
        table.upsert(rows("a", "late", range(40, 60)))
    assert content(table) == before


def test_an_open_writer_of_several_runs_keeps_their_order(memory_uri):
    options = {"bucket": 2, "write-buffer-size": "4 kb"}
    table = lsmerge.create_table(memory_uri, SCHEMA, ["p", "k"], partition_by="p", options=options)
    table.upsert(rows("a", "first", range(50)))
    with table.writer() as writer:
        for number in range(5):
            writer.write(rows("a", f"{number}" * 100, range(50)))
        lsmerge.open_table(memory_uri).rescale(3)
    assert set(content(table).values()) == {"4" * 100}
    check_lookups(table)


def test_a_writer_that_lands_first_is_taken_along(table, monkeypatch):
    rival = lsmerge.open_table(table.uri)
    expected = content(table) | {("a", k): "late" for k in range(40, 60)}

    def write():
        rival.upsert(rows("a", "early", range(40, 60)))
        rival.upsert(rows("a", "late", range(40, 60)))

    meanwhile(monkeypatch, table, write)
    table.rescale(4)
    assert counts(table) == {"a": 4, "b": 4}
    assert content(table) == expected
    check_lookups(table)


@pytest.mark.parametrize("action", ["compact", "overwrite", "rescale"])
def test_whoever_takes_its_files_makes_it_begin_again(table, monkeypatch, action):
    rival = lsmerge.open_table(table.uri)
    actions = {
        "compact": lambda: rival.compact(full=True),
        "overwrite": lambda: rival.overwrite(rows("a", "new", [1]), {"p": "a"}),
        "rescale": lambda: rival.rescale(2),
    }
    meanwhile(monkeypatch, table, actions[action])
    table.rescale(4)
    assert counts(table) == {"a": 4, "b": 4}
    assert content(table) == content(rival)
    check_lookups(table)
    assert stored(table) == referenced(table)


def test_what_nobody_touched_is_not_written_again(table, monkeypatch):
    rival = lsmerge.open_table(table.uri)
    meanwhile(monkeypatch, table, lambda: rival.compact(full=True, partition={"p": "a"}))
    written = []
    rewrite = rescale.BucketCount.rewrite

    def noted(placing, version, partition, tally):
        written.append(partition)
        return rewrite(placing, version, partition, tally)

    monkeypatch.setattr(rescale.BucketCount, "rewrite", noted)
    before = content(table)
    table.rescale(4)
    assert written == [("a",), ("b",), ("a",)]
    assert content(table) == before
    check_lookups(table)
    assert stored(table) == referenced(table)


def test_a_partition_that_was_begun_is_not_taken_for_done(table, monkeypatch):
    """Its snapshot expires under it, and the same files are there when it begins again."""
    tries = []
    rewrite = rescale.BucketCount.rewrite

    def expiring(placing, version, partition, tally):
        tries.append(partition)
        if len(tries) == 1:
            raise lsmerge.SnapshotExpiredError("as if it had")
        return rewrite(placing, version, partition, tally)

    monkeypatch.setattr(rescale.BucketCount, "rewrite", expiring)
    before = content(table)
    table.rescale(4)
    assert content(table) == before
    assert tries == [("a",), ("a",), ("b",)]


def test_a_schema_that_changed_meanwhile_makes_it_begin_again(table, monkeypatch):
    rival = lsmerge.open_table(table.uri)

    def alter():
        rival.alter(add={"n": pa.int64()})
        rival.upsert([{**row, "n": 7} for row in rows("a", "late", [1])])

    meanwhile(monkeypatch, table, alter)
    table.rescale(4)
    assert counts(table) == {"a": 4, "b": 4}
    assert table.get(("a", 1)) == {"p": "a", "k": 1, "v": "late", "n": 7}
    assert stored(table) == referenced(table)


def test_it_gives_up_against_a_rival_who_is_always_faster(table, monkeypatch):
    rival = lsmerge.open_table(table.uri)
    publish, faster = type(table._context.snapshots).publish, []

    def racing(store, snapshot):
        if store is table._context.snapshots:
            faster.append(snapshot.id)
            rival.upsert(rows("a", "rival", [1]))
            rival.compact(full=True)
        publish(store, snapshot)

    monkeypatch.setattr(type(table._context.snapshots), "publish", racing)
    with pytest.raises(lsmerge.CommitConflictError):
        table.rescale(4)
    assert len(faster) == partition_rewrite.MAX_ATTEMPTS
    assert counts(table) == {"a": 3, "b": 3}
    assert stored(table) == referenced(table)


def stored(table):
    return {info.path for info in open_store(table.uri).list("") if "/data-" in info.path}


def referenced(table):
    """Every data file that some snapshot has added."""
    context = table._context
    deltas = (context.versions.delta(snapshot) for snapshot in table.snapshots())
    return {context.file_path(file) for delta in deltas for file in delta if file.is_data}


def test_a_compaction_by_the_old_count_fails(table, monkeypatch):
    rival = lsmerge.open_table(table.uri)
    before = content(table)
    meanwhile(monkeypatch, table, lambda: rival.rescale(4))
    with pytest.raises(lsmerge.CommitConflictError):
        table.compact(full=True)
    assert content(table) == before


def test_an_overwrite_by_the_old_count_is_split_anew(table, monkeypatch):
    rival = lsmerge.open_table(table.uri)
    meanwhile(monkeypatch, table, lambda: rival.rescale(4))
    table.overwrite(rows("a", "new", range(9)), {"p": "a"})
    assert counts(table) == {"a": 4, "b": 4}
    check_lookups(table)
    rival.upsert(rows("a", "newer", range(20)))
    check_lookups(rival)


def test_two_writers_of_a_partition_that_was_emptied(table, monkeypatch):
    """One split by the count it had, the other by the option: the later one splits anew."""
    table.rescale(5, {"p": "a"})
    old = lsmerge.open_table(table.uri).writer()
    old.write(rows("a", "old", range(20)))
    table.drop_partition({"p": "a"})
    new = lsmerge.open_table(table.uri).writer()
    new.write(rows("a", "new", range(10, 30)))
    old.commit()
    new.commit()
    assert counts(table)["a"] in (3, 5)
    assert {k: v for (p, k), v in content(table).items() if p == "a"} == {
        **dict.fromkeys(range(10), "old"),
        **dict.fromkeys(range(10, 30), "new"),
    }
    check_lookups(table)


# ------------------------------------------------------------------------------------------- placement


@pytest.mark.parametrize("name", SUBJECTS)
@settings(max_examples=examples(1))
@given(
    seed=st.integers(0, 10_000),
    before=st.integers(1, 4),
    after=st.integers(1, 4),
    cut=st.floats(0, 1),
)
def test_rescaling_does_not_matter(name, seed, before, after, cut):
    """Law 1 with a rescale in the middle: rows written later still find all that they need."""
    subject = SUBJECTS[name]
    changes = changes_of(subject, many_drafts(seed), 0)
    place = 1 + int(cut * (len(changes) - 1))
    options = subject.options | {"bucket": str(before)}
    table = lsmerge.create_table(next(_uris), PLACED_SCHEMA, ["k"], options=options)
    table.write(arrow_of(changes[:place]))
    table.rescale(after)
    if changes[place:]:
        table.write(arrow_of(changes[place:]))
    table.rescale(before)
    model = Model(PLACED_SCHEMA.names, ["k"], resolve(subject.options))
    model.commit(changes[:place], 1)
    model.commit(changes[place:], 2)
    check_reads(table, model.rows(), "v")
