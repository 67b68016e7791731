"""Compaction on demand: what is chosen, how files are cut, what is told, what a failure leaves."""

import itertools

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.engine import compact, passes
from lsmerge.storage.memory_disk import MemoryDisk
from tests.disks import mounted

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
WRITE_ONLY = {"write-only": "true"}


def two_runs(uri, rows=2000, **options):
    named = {name.replace("__", ".").replace("_", "-"): str(v) for name, v in options.items()}
    table = lsmerge.create_table(uri, SCHEMA, "k", options=WRITE_ONLY | named)
    for text in ("old", "new"):
        table.upsert({"k": range(rows), "v": [f"{text}{key:097d}" for key in range(rows)]})
    return table


def files_of(table):
    context = table._context
    version = context.versions.load(context.snapshots.latest())
    return [file for place in version.places() for file in version.files(place)]


# ------------------------------------------------------------------------------------ target size


@pytest.mark.parametrize("file_format", ["arrow", "parquet"])
def test_files_are_cut_at_the_target_size(memory_uri, file_format):
    """All rows are one window, which used to end up in one file."""
    sizes = {"target_file_size": "40 kb", "file__block_size": "4 kb", "file__compression": "none"}
    table = two_runs(memory_uri, file__format=file_format, **sizes)
    table.compact(full=True)
    *whole, last = sorted(files_of(table), key=lambda file: file.run.min_key)
    assert len(whole) >= 4
    # A file is cut before its index, filter and footer are added.
    assert all(40 * 1024 <= file.run.size_bytes < 60 * 1024 for file in whole)
    assert last.run.size_bytes < 60 * 1024
    assert table.scan().count() == 2000


def test_a_file_never_ends_within_a_key(memory_uri):
    """Retracts that met no row stay, many to a key; its rows may not be spread over two files of a level."""
    options = {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "last_value",
        "sequence.field": "s",
        "target-file-size": "4 kb",
        "file.block-size": "4 kb",
        "file.format": "arrow",
    }
    schema = pa.schema({"k": pa.int64(), "s": pa.int64(), "v": pa.string()})
    table = lsmerge.create_table(memory_uri, schema, "k", options=WRITE_ONLY | options)
    for number in range(30):
        rows = [
            {"_row_kind": "-U", "k": key, "s": number, "v": f"{number:0200d}"} for key in range(5)
        ]
        table.write(rows)
    report = table.compact(full=True)
    files = sorted(files_of(table), key=lambda file: file.run.min_key)
    assert (report.rows_written, len(files)) == (150, 5)
    for left, right in itertools.pairwise(files):
        assert left.run.max_key < right.run.min_key


# ------------------------------------------------------------------------------------------- sizes


def largest_block(uri, num_columns, **options):
    """Bytes of the largest block of a compacted table with so many columns, and the number of its blocks."""
    schema = pa.schema({"k": pa.int64()} | {f"c{i}": pa.int64() for i in range(num_columns - 3)})
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    table = lsmerge.create_table(uri, schema, "k", options={"file.block-size": "64 kb"} | named)
    rows = 2**20 // (8 * num_columns)
    table.upsert(pa.table({name: pa.array(range(rows), pa.int64()) for name in schema.names}))
    table.compact(full=True)
    context = table._context
    sizes = [size for file in files_of(table) for size in context.reader(file).block_bytes]
    assert table.scan().count() == rows
    return max(sizes), len(sizes)


@pytest.mark.parametrize(
    ("num_columns", "options", "block_bytes"),
    [
        (8, {}, 64 << 10),
        (48, {}, 96 << 10),
        (256, {}, 128 << 10),
        (64, {"file__format": "arrow"}, 64 << 10),
        (256, {"scan__memory_budget": "6 mb"}, 96 << 10),
        (256, {"scan__memory_budget": "1 mb"}, 64 << 10),
    ],
)
def test_blocks_of_parquet_with_many_columns_are_larger(
    memory_uri, num_columns, options, block_bytes
):
    """Every column of a block of Parquet costs something to begin with, so wide rows get more of them in a block, as
    far as the budget allows.
    """
    largest, count = largest_block(memory_uri, num_columns, **options)
    assert 0.75 * block_bytes < largest < 1.35 * block_bytes
    assert count > 2**20 // block_bytes // 2


def test_as_many_wide_runs_as_may_stand_are_merged_without_a_pass(memory_uri, monkeypatch):
    """With blocks four times as large, four runs of Parquet went through temporary files at every scan."""
    schema = pa.schema({"k": pa.int64()} | {f"c{i}": pa.int64() for i in range(127)})
    options = {"file.format": "parquet", "file.block-size": "64 kb", "scan.memory-budget": "8 mb"}
    table = lsmerge.create_table(memory_uri, schema, "k", options=WRITE_ONLY | options)
    for _ in range(8):
        table.upsert(pa.table({name: range(1_000) for name in schema.names}))
    blocks = [table._context.reader(file).block_bytes for file in files_of(table)]
    assert min(map(max, blocks)) > 96 << 10
    monkeypatch.setattr(passes, "_pass", None)
    assert table.scan().count() == 1_000


def test_small_commits_do_not_rewrite_a_large_table_that_compresses_well(memory_uri):
    """In bytes level 0 is several times the oldest run here, in rows a fiftieth."""
    table = lsmerge.create_table(memory_uri, SCHEMA, "k", options=WRITE_ONLY)
    table.upsert({"k": range(50_000), "v": ["x" * 200] * 50_000})
    table.compact(full=True)
    for _ in range(4):
        table.upsert({"k": range(1000), "v": ["y" * 200] * 1000})
    *newer, oldest = table.stats().buckets[0].runs
    assert sum(run.size_bytes for run in newer) > 2 * oldest.size_bytes
    assert table.compact().rows_read == 4000
    assert table.stats().levels == (4, 5)


# -------------------------------------------------------------------------------------- partitions


@pytest.fixture
def partitioned(memory_uri):
    schema = pa.schema({"day": pa.date32(), "region": pa.string(), "k": pa.int64()})
    table = lsmerge.create_table(
        memory_uri,
        schema,
        ["day", "region", "k"],
        partition_by=["day", "region"],
        options=WRITE_ONLY,
    )
    days = pa.array([0, 0, 1], pa.int32()).cast(pa.date32())
    for _ in range(2):
        table.upsert(pa.table({"day": days, "region": ["a", "b", "a"], "k": [1, 1, 1]}))
    return table


def runs_by_partition(table):
    return {
        "/".join(text for _, text in bucket.partition): len(bucket.runs)
        for bucket in table.stats().buckets
    }


def test_one_partition_is_compacted(partitioned):
    day = pa.scalar(0, pa.int32()).cast(pa.date32()).as_py()
    assert partitioned.compact(full=True, partition={"day": day, "region": "b"}).buckets == 1
    assert runs_by_partition(partitioned) == {
        "1970-01-01/a": 2,
        "1970-01-01/b": 1,
        "1970-01-02/a": 2,
    }


def test_columns_left_out_may_have_any_value(partitioned):
    assert partitioned.compact(full=True, partition={"region": "a"}).buckets == 2
    assert partitioned.compact(full=True, partition={"region": "nowhere"}).buckets == 0
    assert partitioned.compact(full=True, partition={}).buckets == 1


@pytest.mark.parametrize(
    ("partition", "named"),
    [({"k": 1}, "day, region"), ({"day": "soon"}, "'soon'"), ("day=1", "mapping")],
)
def test_a_partition_that_cannot_be_is_refused(partitioned, partition, named):
    with pytest.raises(lsmerge.SchemaMismatchError, match=named):
        partitioned.compact(partition=partition)


# ---------------------------------------------------------------------------------------- progress


def test_progress_is_told_up_to_the_end(memory_uri):
    table = two_runs(memory_uri, bucket=3)
    told = []
    table.compact(full=True, progress=told.append)
    rows = [reading.rows_done for reading in told]
    assert rows == sorted(rows)
    assert (told[-1].rows_done, told[-1].rows_total) == (4000, 4000)
    assert (told[-1].buckets_done, told[-1].buckets_total) == (3, 3)


def test_raising_in_the_hook_ends_the_compaction_and_leaves_nothing():
    class EnoughError(Exception):
        pass

    def stop_late(progress):
        if progress.buckets_done == 2:
            raise EnoughError

    disk = MemoryDisk()
    with mounted(disk) as uri:
        table = two_runs(uri, bucket=3)
        before = sorted(info.path for info in table._context.store.list(""))
        with pytest.raises(EnoughError):
            table.compact(full=True, progress=stop_late)
        assert sorted(info.path for info in table._context.store.list("")) == before
        assert table.compact(full=True).buckets == 3


def test_what_was_compacted_is_logged(memory_uri, caplog):
    caplog.set_level("INFO", "lsmerge")
    report = two_runs(memory_uri).compact(full=True)
    assert str(report) in caplog.text


# ------------------------------------------------------------------------------------------ memory


@pytest.mark.parametrize(("buckets", "at_work"), [(1, 1), (2, 2), (8, 2)])
def test_buckets_at_work_share_the_budget(memory_uri, monkeypatch, buckets, at_work):
    budgets = []
    composed = compact.composed_batches

    def noting(context, *arguments):
        budgets.append(context.options.scan_memory_budget)
        return composed(context, *arguments)

    monkeypatch.setattr(compact, "composed_batches", noting)
    monkeypatch.setattr(compact, "CORES", 2)
    table = two_runs(memory_uri, bucket=buckets, scan__memory_budget="64 mb")
    table.compact(full=True)
    assert budgets == [(64 << 20) // at_work] * buckets


# -------------------------------------------------------------------------------------- statistics


def test_statistics_of_a_table_without_a_commit(memory_uri):
    stats = lsmerge.create_table(memory_uri, SCHEMA, "k").stats()
    assert (stats.snapshot_id, stats.buckets, stats.rows, stats.size_bytes) == (None, (), 0, 0)
    assert (stats.read_amplification, stats.write_amplification) == (0, 1.0)


def test_statistics_count_what_there_is(memory_uri):
    table = two_runs(memory_uri, bucket=2)
    stats = table.stats()
    assert (stats.rows, stats.files, stats.levels, stats.read_amplification) == (4000, 4, (0,), 2)
    assert stats.size_bytes == stats.bytes_committed == sum(b.size_bytes for b in stats.buckets)
    assert stats.space_amplification == pytest.approx(2.0, rel=0.01)
    assert (stats.write_amplification, stats.bytes_compacted) == (1.0, 0)


def test_statistics_after_a_compaction(memory_uri):
    table = two_runs(memory_uri)
    before = table.stats()
    report = table.compact(full=True)
    stats = table.stats()
    assert (stats.rows, stats.levels, stats.read_amplification) == (2000, (5,), 1)
    assert stats.bytes_compacted == stats.size_bytes == report.bytes_written
    expected = (before.bytes_committed + report.bytes_written) / before.bytes_committed
    assert stats.write_amplification == pytest.approx(expected)
    assert stats.space_amplification == 1.0


def test_statistics_can_be_read(memory_uri):
    table = lsmerge.create_table(memory_uri, SCHEMA, "k", options=WRITE_ONLY)
    table.upsert({"k": [1], "v": ["a"]})
    size = table.stats().size_bytes
    first, second = repr(table.stats()).splitlines()
    assert first == (
        f"snapshot 1, 1 buckets: 1 rows, {size / 1000:.1f} KB in 1 files, 1 runs on levels 0; "
        "amplification: read 1, write 1.0, space 1.0"
    )
    assert second.strip().startswith("bucket-0: 1 rows")
