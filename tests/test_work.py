"""Compaction, rescaling and verification in units that other processes do."""

import pickle

import pyarrow as pa
import pytest

import lsmerge

SCHEMA = pa.schema({"d": pa.string(), "k": pa.int64(), "v": pa.int64()})


@pytest.fixture
def table(memory_uri):
    options = {"bucket": 2, "write-only": True}
    table = lsmerge.create_table(memory_uri, SCHEMA, ["d", "k"], partition_by="d", options=options)
    for round_ in range(3):
        rows = [{"d": d, "k": k, "v": k + round_} for d in "ab" for k in range(50)]
        table.upsert(rows)
    return table


def done(table, job):
    """The job, each unit by somebody who knows only its bytes."""
    results = []
    for unit in job.units:
        with lsmerge.open_table(table.uri) as other:
            results.append(other.run_unit(pickle.loads(pickle.dumps(unit))))
    return job.finish(results)


def levels(table):
    live = table._context.versions.load(table.latest_snapshot()).entries
    return sorted(set(live["level"].to_pylist()))


def test_compaction_in_units_is_a_compaction(table):
    before = table.scan().to_arrow()
    job = table.compaction_job(full=True, target_size=1)
    assert len(job.units) == 4
    report = done(table, job)
    assert (report.buckets, report.rows_read, report.rows_written) == (4, 300, 100)
    assert report.snapshot_id == table.latest_snapshot().id == 7
    assert levels(table) == [table._context.options.num_levels - 1]
    assert table.scan().to_arrow().equals(before)
    assert table.compaction_job(full=True).units == ()


def test_small_buckets_are_compacted_in_one_unit(table):
    assert len(table.compaction_job(full=True).units) == 1
    assert len(table.compaction_job(full=True, partition={"d": "a"}).units[0].places) == 2


def test_a_bucket_that_somebody_else_compacted_is_no_failure(table):
    job = table.compaction_job(full=True, target_size=1)
    table.compact(full=True)
    assert done(table, job).buckets == 0
    table.drop_partition({"d": "a"})
    assert done(table, job).buckets == 0


def test_losing_the_race_is_reported(table):
    job = table.compaction_job(full=True)
    with lsmerge.open_table(table.uri) as other:
        snapshots = other._context.snapshots
        publish = snapshots.publish

        def lose(snapshot):
            snapshots.publish = publish
            table.compact(full=True)
            publish(snapshot)

        snapshots.publish = lose
        report = job.finish([other.run_unit(unit) for unit in job.units])
    assert (report.buckets, report.buckets_lost) == (0, 4)
    assert table.verify().ok


def test_an_empty_table_has_nothing_to_compact(memory_uri):
    empty = lsmerge.create_table(memory_uri, SCHEMA, ["d", "k"])
    assert done(empty, empty.compaction_job()).snapshot_id is None


@pytest.mark.parametrize(("count", "units"), [(4, 4), (1, 2), (2, 0)])
def test_rescaling_in_units_is_a_rescale(table, count, units):
    before = table.scan().to_arrow().sort_by([("d", "ascending"), ("k", "ascending")])
    job = table.rescale_job(count)
    assert len(job.units) == units
    if units:
        table.upsert([{"d": "a", "k": 1, "v": 2 + 1}])  # comes late, and is split anew
    done(table, job)
    assert [p.buckets for p in table.partitions()] == [count] * 2
    after = table.scan().to_arrow().sort_by([("d", "ascending"), ("k", "ascending")])
    assert after.equals(before)
    assert table.verify().ok


def test_a_rescale_that_lost_begins_again(table):
    before = table.scan().to_arrow().sort_by([("d", "ascending"), ("k", "ascending")])
    job = table.rescale_job(4)
    results = [table.run_unit(unit) for unit in job.units]
    table.compact(full=True)
    job.finish(results)
    assert table.remove_orphan_files("0 ms").files == ()
    assert [p.buckets for p in table.partitions()] == [4, 4]
    assert table.scan().to_arrow().sort_by([("d", "ascending"), ("k", "ascending")]) == before


def test_a_rescale_needs_what_all_units_made(table):
    job = table.rescale_job(4)
    results = [table.run_unit(unit) for unit in job.units]
    for wrong in (results[1:], [*results, results[0]], []):
        with pytest.raises(lsmerge.InvalidOptionError, match="each of the 4 units, once"):
            job.finish(wrong)
    assert [p.buckets for p in table.partitions()] == [2, 2]


def test_a_rescale_is_finished_once(table):
    before = table.scan().to_arrow().sort_by([("d", "ascending"), ("k", "ascending")])
    job = table.rescale_job(4)
    results = [table.run_unit(unit) for unit in job.units]
    assert job.finish(results).partitions == 2
    assert job.finish(results).snapshot_id is None
    table.compact(full=True)
    assert job.finish(results).snapshot_id is None
    assert table.scan().to_arrow().sort_by([("d", "ascending"), ("k", "ascending")]) == before
    assert table.verify().ok


def test_a_rescale_whose_files_are_gone_is_refused(table):
    job = table.rescale_job(4)
    results = [table.run_unit(unit) for unit in job.units]
    table.remove_orphan_files("0 ms", dry_run=False)
    with pytest.raises(lsmerge.CommitConflictError, match="is gone"):
        job.finish(results)
    assert table.verify().ok


def test_verification_in_units_finds_what_verification_finds(tmp_path):
    table = lsmerge.create_table(tmp_path, SCHEMA, ["d", "k"], options={"bucket": 3})
    table.upsert([{"d": "a", "k": k, "v": k} for k in range(100)])
    job = table.verify_job(target_size=1)
    assert len(job.units) == 3
    assert done(table, job) == table.verify()
    victim = next(tmp_path.glob("bucket-1/data-*"))
    victim.write_bytes(victim.read_bytes()[:-30] + b"x" * 30)
    report = done(table, table.verify_job(target_size=1))
    assert report.problems == table.verify().problems
    assert victim.name in report.problems[0]
