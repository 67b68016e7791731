"""The cache of decoded blocks: bounded in memory and on disk, and never the cause of a wrong row."""

import errno
import gc
import os
import random
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.engine import opening
from lsmerge.engine.block_spill import SHARE_OF_FREE
from lsmerge.env import CORES
from lsmerge.storage import unnamed_files
from lsmerge.storage.local_store import LocalStore
from lsmerge.storage.memory_disk import MemoryDisk
from lsmerge.storage.unnamed_files import UnnamedFiles
from lsmerge_native.mapping import num_mapped
from tests.test_tags_and_rollback import Clock

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string()})
KEYS = 2000
# More than are looked up one by one, in few blocks.
FIRST = list(range(300))
SMALL = {
    "file.block-size": "4 kb",
    "lookup.cache-max-memory-size": "20 kb",
    "lookup.cache-max-disk-size": "1 mb",
}


@pytest.fixture(autouse=True)
def _any_file_system(monkeypatch):
    """What tests run on may be a file system that is not known to be a disk."""
    monkeypatch.setattr(unnamed_files, "is_on_disk", lambda handle: True)


@pytest.fixture
def clock():
    return Clock()


def created(clock, schema=SCHEMA, **options):
    store = LocalStore("/t", MemoryDisk())
    context = opening.create(
        store, schema, "k", (), SMALL | options, exist_ok=False, env=clock.env()
    )
    return lsmerge.Table(context)


def filled(clock, **options):
    """A table in compacted Parquet files of many blocks."""
    table = created(clock, **options)
    table.upsert({"k": list(range(KEYS)), "v": [f"{k:050d}" for k in range(KEYS)]})
    table.compact(full=True)
    return table


def look_up(table, keys):
    found = table.get_many(keys).to_pylist()
    assert found == [{"k": k, "v": f"{k:050d}"} for k in keys]


def everywhere(table):
    look_up(table, list(range(0, KEYS, 7)))


def mapped_bytes():
    """How much of unnamed files this process has mapped."""
    lines = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    ends = [line[0].split("-") for line in lines if line[-1] == "(deleted)" and line[1] == "r--s"]
    return sum(int(stop, 16) - int(start, 16) for start, stop in ends)


def test_blocks_that_leave_memory_serve_from_disk(clock):
    table = filled(clock)
    everywhere(table)
    first = table.cache_stats()
    everywhere(table)
    stats = table.cache_stats()
    assert first.disk_blocks > 10
    assert stats.disk_hits > 10
    assert stats.misses - first.misses == stats.disk_hits - first.disk_hits
    assert stats.size_bytes <= stats.max_bytes


@pytest.mark.parametrize("key", [pa.int64(), pa.string()])
@pytest.mark.parametrize("file_format", ["arrow", "parquet"])
def test_keys_of_all_kinds_and_rows_of_all_formats_are_found_on_disk(clock, key, file_format):
    schema = pa.schema([pa.field("k", key), ("v", pa.list_(pa.int32())), ("s", pa.int64())])
    table = created(clock, schema, **{"sequence.field": "s", "file.format": file_format})
    rows = pa.table(
        [
            pa.array(range(KEYS)).cast(key),
            pa.array([None if k % 5 == 0 else [k] * (k % 3) for k in range(KEYS)], schema[1].type),
            pa.array(range(KEYS)),
        ],
        schema,
    )
    table.upsert(rows)
    table.upsert(rows.set_column(2, "s", pa.array([k + 1 - 2 * (k % 2) for k in range(KEYS)])))
    expected = [row | {"s": row["s"] + (row["s"] % 2 == 0)} for row in rows.to_pylist()]
    for _ in range(3):
        assert table.get_many(rows["k"].to_pylist()).to_pylist() == expected
    assert table.cache_stats().disk_hits > 10
    assert [table.get(row["k"]) for row in expected[::50]] == expected[::50]


def test_the_disk_is_bounded(clock):
    table = filled(clock, **{"lookup.cache-max-disk-size": "40 kb"})
    for _ in range(3):
        everywhere(table)
    stats = table.cache_stats()
    assert 20 * 1024 < stats.disk_bytes <= stats.max_disk_bytes == 40 * 1024


def test_what_is_on_disk_is_not_given_up_for_more_than_fits(clock):
    table = filled(clock, **{"lookup.cache-max-disk-size": "40 kb"})
    everywhere(table)
    before = table.cache_stats()
    everywhere(table)
    after = table.cache_stats()
    assert after.evictions > before.evictions
    assert after.disk_hits - before.disk_hits == before.disk_blocks == after.disk_blocks


def test_a_share_of_what_is_free_is_taken(clock, monkeypatch):
    table = filled(clock)
    disk = table._context.runs._spill.blocks
    capacity = 200 * 1024
    monkeypatch.setattr(UnnamedFiles, "free_bytes", lambda self: capacity - disk.size_bytes)
    everywhere(table)
    assert 0 < disk.size_bytes <= capacity // SHARE_OF_FREE
    capacity = 80 * 1024
    everywhere(table)
    assert 0 < disk.size_bytes <= capacity // SHARE_OF_FREE


def test_nothing_goes_to_disk_if_none_is_to(clock):
    table = filled(clock, **{"lookup.cache-max-disk-size": "0"})
    everywhere(table)
    stats = table.cache_stats()
    assert (stats.disk_blocks, stats.max_disk_bytes) == (0, 0)
    assert stats.evictions > 10


def test_by_default_there_is_room_on_disk(memory_uri):
    table = lsmerge.create_table(memory_uri, SCHEMA, "k")
    table.upsert({"k": [1], "v": ["a"]})
    assert table.get(1) == {"k": 1, "v": "a"}
    stats = table.cache_stats()
    assert (stats.disk_blocks, stats.max_disk_bytes) == (0, 10 << 30)


def test_unused_blocks_go_after_their_time(clock):
    table = filled(clock, **{"lookup.cache-file-retention": "10 s"})
    everywhere(table)
    kept = table.cache_stats().disk_blocks
    clock.ms += 9_999
    look_up(table, FIRST)
    assert table.cache_stats().disk_blocks == kept > 20
    for _ in range(2):
        clock.ms += 10_000
        look_up(table, FIRST)
    assert 0 < table.cache_stats().disk_blocks < 10


def test_blocks_in_use_stay(clock):
    table = filled(clock, **{"lookup.cache-file-retention": "10 s"})
    everywhere(table)
    kept = table.cache_stats().disk_blocks
    for _ in range(4):
        clock.ms += 10_000
        everywhere(table)
    assert table.cache_stats().disk_blocks == kept


def test_blocks_go_with_the_files_that_a_compaction_replaces(clock):
    table = filled(clock)
    everywhere(table)
    table.upsert({"k": list(range(KEYS)), "v": [f"{k:050d}" for k in range(KEYS)]})
    table.compact(full=True)
    stats = table.cache_stats()
    assert (stats.blocks, stats.disk_blocks, stats.size_bytes, stats.disk_bytes) == (0, 0, 0, 0)
    everywhere(table)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_disk_that_refuses_is_done_without(clock, monkeypatch, code):
    table = filled(clock)

    def write(handle, data):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(unnamed_files.os, "write", write)
    everywhere(table)
    everywhere(table)
    assert table.cache_stats().evictions > 10
    assert table.cache_stats().disk_blocks == 0


def test_a_mapping_that_is_refused_is_done_without(clock, monkeypatch):
    table = filled(clock)

    def refuse(handle, size):
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(unnamed_files, "MappedFile", refuse)
    everywhere(table)
    assert table.cache_stats().disk_blocks == 0


def test_all_tables_of_a_process_share_the_number_of_files(clock, monkeypatch):
    gc.collect()
    limit = num_mapped() + 15  # files of other tests may go at any time, and leave room
    monkeypatch.setattr(unnamed_files, "MAX_FILES", limit)
    most = limit + CORES  # threads that ask at once are all told that there is room
    first, second = filled(clock), filled(clock)
    for table in (first, second):
        everywhere(table)
    assert num_mapped() <= most
    assert second.cache_stats().disk_blocks < 15 <= first.cache_stats().disk_blocks
    first.close()
    everywhere(second)
    assert num_mapped() <= most
    assert second.cache_stats().disk_blocks >= 15


def test_writes_that_take_less_than_all_go_on(monkeypatch):
    real = os.write
    monkeypatch.setattr(unnamed_files.os, "write", lambda handle, data: real(handle, data[:100]))
    assert UnnamedFiles().put(pa.py_buffer(b"0123456789" * 99)).to_pybytes() == b"0123456789" * 99


def test_bytes_that_did_not_arrive_are_noticed(monkeypatch):
    real = os.write

    def write(handle, data):
        return real(handle, bytes(len(data)))

    monkeypatch.setattr(unnamed_files.os, "write", write)
    with pytest.raises(lsmerge.StorageError, match="does not hold what was written"):
        UnnamedFiles().put(pa.py_buffer(b"abc"))


def test_files_have_no_name_and_no_descriptor(clock, tmp_path, monkeypatch):
    monkeypatch.setattr(unnamed_files.UnnamedFiles, "_directory", str(tmp_path))
    table = filled(clock)
    before = os.listdir("/proc/self/fd")
    everywhere(table)
    assert table.cache_stats().disk_blocks > 10
    assert list(tmp_path.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_closing_the_table_frees_the_disk(clock):
    gc.collect()
    before = mapped_bytes()
    table = filled(clock)
    everywhere(table)
    assert mapped_bytes() - before >= table.cache_stats().disk_bytes > 0
    table.close()
    assert mapped_bytes() <= before


def test_rows_outlive_the_cache(clock):
    table = filled(clock)
    everywhere(table)
    spill = table._context.runs._spill
    block = next(iter(spill.blocks._kept.values())).block
    rows = block.source.batch
    expected = rows.to_pylist()
    table.close()
    del block, spill, table
    gc.collect()
    assert rows.to_pylist() == expected


FORK = """
import os
import lsmerge
import pyarrow as pa
from lsmerge.storage import unnamed_files

unnamed_files.is_on_disk = lambda handle: True
options = {"file.block-size": "4 kb", "lookup.cache-max-memory-size": "20 kb"}
schema = pa.schema({"k": pa.int64(), "v": pa.string()})
table = lsmerge.create_table("memory://fork", schema, "k", options=options)
rows = [{"k": k, "v": f"{k:050d}"} for k in range(2000)]
table.upsert(rows)

def gets():
    assert [table.get(row["k"]) for row in rows] == rows

gets()
child = os.fork()
if child == 0:
    gets()
    table.close()
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
before = table.cache_stats()
gets()
after = table.cache_stats()
print(before.disk_blocks, after.disk_hits - before.disk_hits, after.evictions - before.evictions)
"""


def test_a_forked_process_shares_what_is_there():
    # In a process that has no other threads, as forks of others are not safe.
    run = [sys.executable, "-W", "ignore", "-c", FORK]
    done = subprocess.run(run, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    blocks, hits, evictions = map(int, done.stdout.split())
    assert blocks > 10
    assert hits > 10
    assert evictions == 0


def test_memory_is_no_disk(monkeypatch):
    monkeypatch.undo()
    if not os.path.ismount("/dev/shm"):
        pytest.skip("there is no file system in memory")
    monkeypatch.setattr(unnamed_files, "ON_DISK", "/dev/shm")
    monkeypatch.setattr("tempfile.tempdir", "/dev/shm")
    assert UnnamedFiles().free_bytes() == 0


def test_the_second_directory_is_taken_if_the_first_is_no_disk(monkeypatch, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    inode = disk.stat().st_ino
    monkeypatch.setattr(unnamed_files, "ON_DISK", str(disk))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(
        unnamed_files, "is_on_disk", lambda handle: os.fstat(handle).st_ino == inode
    )
    assert UnnamedFiles()._directory == str(disk)


def test_nothing_is_mapped_where_address_space_is_limited(monkeypatch):
    assert UnnamedFiles().free_bytes() > 0
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1 << 40, resource.RLIM_INFINITY))
    assert UnnamedFiles().free_bytes() == 0


def test_blocks_are_those_of_their_schema(clock):
    table = filled(clock)
    everywhere(table)
    table.alter(rename={"v": "w"}, add={"v": pa.string()})
    expected = [{"k": k, "w": f"{k:050d}", "v": None} for k in range(0, KEYS, 7)]
    for _ in range(2):
        assert table.get_many(list(range(0, KEYS, 7))).to_pylist() == expected


def test_threads_share_the_cache(clock):
    table = filled(clock, **{"lookup.cache-max-disk-size": "60 kb"})

    def work(seed):
        chance = random.Random(seed)
        for _ in range(15):
            look_up(table, sorted(chance.sample(range(KEYS), 20)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    stats = table.cache_stats()
    assert 0 < stats.disk_bytes <= stats.max_disk_bytes


def test_single_gets_use_blocks_on_disk(clock):
    table = filled(clock)
    everywhere(table)
    before = table.cache_stats()
    for _ in range(2):
        for k in range(0, KEYS, 7):
            assert table.get(k) == {"k": k, "v": f"{k:050d}"}
    stats = table.cache_stats()
    decoded = stats.misses - stats.disk_hits
    assert decoded == before.misses - before.disk_hits
    assert stats.disk_hits - before.disk_hits > KEYS // 7
