"""The cache of decoded blocks: bounded in memory and on disk, and never the cause of a wrong row."""

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.engine import opening
from lsmerge.engine.block_spill import BlockSpill
from lsmerge.storage.local_store import LocalStore
from lsmerge.storage.memory_disk import MemoryDisk
from tests.test_tags_and_rollback import Clock

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string()})
KEYS = 2000
SMALL = {
    "file.block-size": "4 kb",
    "lookup.cache-max-memory-size": "20 kb",
    "lookup.cache-max-disk-size": "1 mb",
}


@pytest.fixture
def clock():
    return Clock()


def filled(clock, **options):
    """A table in compacted Parquet files of many blocks."""
    store = LocalStore("/t", MemoryDisk())
    context = opening.create(
        store, SCHEMA, "k", (), SMALL | options, exist_ok=False, env=clock.env()
    )
    table = lsmerge.Table(context)
    table.upsert({"k": list(range(KEYS)), "v": [f"{k:050d}" for k in range(KEYS)]})
    table.compact(full=True)
    return table


def look_up(table, keys):
    found = table.get_many(keys).to_pylist()
    assert found == [{"k": k, "v": f"{k:050d}"} for k in keys]


def everywhere(table):
    look_up(table, list(range(0, KEYS, 7)))


def scratch_files(table):
    root = Path(table._context.runs._spill._store._root)
    return sorted(path for path in root.iterdir() if path.is_file())


def test_blocks_that_leave_memory_serve_from_disk(clock):
    table = filled(clock)
    everywhere(table)
    first = table.cache_stats()
    everywhere(table)
    stats = table.cache_stats()
    assert first.disk_blocks > 10
    assert stats.disk_hits > 10
    assert stats.size_bytes <= stats.max_bytes
    assert len(scratch_files(table)) == stats.disk_blocks


def test_the_disk_is_bounded(clock):
    table = filled(clock, **{"lookup.cache-max-disk-size": "40 kb"})
    for _ in range(3):
        everywhere(table)
    stats = table.cache_stats()
    sizes = [path.stat().st_size for path in scratch_files(table)]
    assert 0 < stats.disk_bytes == sum(sizes) <= stats.max_disk_bytes == 40 * 1024


def test_without_the_option_nothing_goes_to_disk(memory_uri):
    table = lsmerge.create_table(memory_uri, SCHEMA, "k")
    table.upsert({"k": [1], "v": ["a"]})
    assert table.get(1) == {"k": 1, "v": "a"}
    assert table._context.runs._spill is None
    assert table.cache_stats().max_disk_bytes == 0


def test_blocks_of_near_arrow_files_are_not_copied(clock):
    table = filled(clock, **{"file.format": "arrow"})
    everywhere(table)
    assert table.cache_stats().evictions > 10
    assert table.cache_stats().disk_blocks == 0


def test_unused_blocks_go_after_their_time(clock):
    table = filled(clock, **{"lookup.cache-file-retention": "10 s"})
    everywhere(table)
    assert table.cache_stats().disk_blocks > 10
    clock.ms += 10_000
    look_up(table, [0])
    assert table.cache_stats().disk_blocks <= 1
    assert len(scratch_files(table)) <= 1


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
def test_a_damaged_file_gives_no_wrong_row(clock, damage):
    table = filled(clock)
    everywhere(table)
    for path in scratch_files(table):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.unlink()
        if damage != "gone":
            path.write_bytes(data if damage == "flipped" else data[:-8])
    before = table.cache_stats().disk_hits
    look_up(table, list(range(KEYS // 2)))
    assert table.cache_stats().disk_hits <= before + 1
    everywhere(table)


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
    assert stats.disk_bytes == sum(path.stat().st_size for path in scratch_files(table))
    assert stats.disk_bytes <= stats.max_disk_bytes


def test_nothing_is_left_after_the_table(clock):
    table = filled(clock)
    everywhere(table)
    root = scratch_files(table)[0].parent
    table.close()
    assert not root.exists()


def test_a_block_larger_than_the_bound_is_not_kept(clock):
    spill = BlockSpill(clock.env(), 100, 1000)
    spill.keep("a", pa.record_batch({"v": [1] * 1000}))
    assert (len(spill), spill.size_bytes, spill.find("a")) == (0, 0, None)
