"""Which files of a compaction are moved, kept or rewritten; and that moved files read right."""

from dataclasses import replace

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.engine.move import MoveRules, divide
from lsmerge.engine.sections import split_into_sections
from lsmerge.meta.data_file import BucketId, DataFile
from lsmerge.meta.version import sorted_runs
from lsmerge.storage.run_file import RunSummary
from tests.table_decoder import read_table

TARGET = 100
PLACE = BucketId((), 0)


def file(name: str, level: int, keys: str, size: int = TARGET) -> DataFile:
    """A file whose first and last key are the letters of `keys`."""
    first, last = (letter.encode() for letter in (keys[0], keys[-1]))
    run = RunSummary(name, "arrow", size, 0, 0, 10, 0, first, last, 0, 9)
    return DataFile(PLACE, level, run, 0, 0, sequence_base=100 - 10 * level)


def divided(files, output_level=5, unfit=()):
    rules = MoveRules(output_level, TARGET, lambda f: f.name not in unfit)
    division = divide(split_into_sections(sorted_runs(files)), rules)
    groups = [[f.name for section in group for f in section.files] for group in division.rewrites]
    return [f.name for f in division.moves], groups


def test_files_that_overlap_nothing_are_moved():
    assert divided([file("x", 1, "ab"), file("y", 2, "cd")]) == (["x", "y"], [])


def test_files_in_place_are_left_alone():
    assert divided([file("x", 1, "ab"), file("y", 5, "cd")]) == (["x"], [])


def test_what_overlaps_is_rewritten_and_its_neighbours_are_not():
    files = [file("x", 1, "cd"), file("y", 5, "ab"), file("z", 5, "de"), file("w", 5, "fg")]
    assert divided(files) == ([], [["x", "z"]])


def test_small_neighbours_are_joined():
    small = [file("x", 1, "ab", 10), file("y", 5, "cd", 10), file("z", 5, "ef")]
    assert divided(small) == ([], [["x", "y"]])


def test_a_small_file_joins_the_section_beside_it():
    files = [file("x", 1, "bc"), file("y", 5, "cd"), file("z", 1, "ef", 10)]
    assert divided(files) == ([], [["x", "y", "z"]])


def test_a_small_file_alone_between_large_ones_is_moved():
    files = [file("x", 5, "ab"), file("y", 1, "cd", 10), file("z", 5, "ef")]
    assert divided(files) == (["y"], [])


def test_a_file_that_may_not_stay_as_it_is_gets_rewritten():
    files = [file("x", 5, "ab"), file("y", 1, "cd"), file("z", 5, "ef")]
    assert divided(files, unfit={"y", "z"}) == ([], [["y", "z"]])


# ------------------------------------------------------------------------------------------ tables

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
# One format for all levels, every file large: whatever overlaps nothing moves.
MOVING = {
    "file.format": "arrow",
    "target-file-size": "4 kb",
    "file.block-size": "4 kb",
    "write-only": "true",
}


def rows(start: int, stop: int, text: str) -> pa.Table:
    keys = range(start, stop)
    return pa.table({"k": keys, "v": [f"{text}{key:090d}" for key in keys]}, schema=SCHEMA)


@pytest.fixture
def table(memory_uri):
    return lsmerge.create_table(memory_uri, SCHEMA, "k", options=MOVING)


def test_disjoint_commits_are_compacted_without_rewriting(table):
    for start in (200, 0, 100):
        table.upsert(rows(start, start + 100, "a"))
    before = table.scan().to_arrow()
    report = table.compact(full=True)
    assert (report.files_moved, report.files_added, report.bytes_written) == (3, 0, 0)
    assert table.scan().to_arrow() == before
    assert table.stats().levels == (5,)
    assert table.stats().write_amplification == 1.0
    assert table.verify().ok


def test_moved_files_keep_their_sequence_base(table):
    """Their stored numbers start at 0 each: taken as they are, an old row would win."""
    table.upsert(rows(0, 50, "old"))
    table.upsert(rows(50, 100, "old"))
    table.upsert(rows(100, 150, "old"))
    assert table.compact(full=True).files_moved == 3
    table.upsert(rows(0, 150, "new"))
    assert all(text.startswith("new") for text in table.scan().to_arrow()["v"].to_pylist())
    assert [table.get(key)["v"][:3] for key in (0, 75, 149)] == ["new"] * 3
    assert table.compact(full=True).files_moved == 0
    assert all(text.startswith("new") for text in table.scan().to_arrow()["v"].to_pylist())


def test_files_of_one_run_have_bases_of_their_own(table):
    """The run's first file has a larger base and few rows: with it the second file's rows would be newest."""
    table.upsert(rows(10, 160, "old"))
    table.upsert(rows(0, 10, "old"))
    assert table.compact(full=True).files_moved == 2
    table.upsert(rows(0, 160, "new").take(list(range(159, -1, -1))))
    assert all(text.startswith("new") for text in table.scan().to_arrow()["v"].to_pylist())
    table.compact(full=True)
    assert all(text.startswith("new") for text in table.scan().to_arrow()["v"].to_pylist())


def test_an_independent_decoder_reads_moved_files(tmp_path):
    table = lsmerge.create_table(str(tmp_path / "t"), SCHEMA, "k", options=MOVING)
    table.upsert(rows(10, 160, "old"))
    table.upsert(rows(0, 10, "old"))
    assert table.compact(full=True).files_moved == 2
    table.upsert(rows(0, 160, "new").take(list(range(159, -1, -1))))
    found = sorted(read_table(tmp_path / "t", 4), key=lambda row: row["k"])
    assert found == table.scan().to_arrow().to_pylist()


def test_delete_markers_are_not_moved_to_where_they_can_go(table):
    table.upsert(rows(0, 100, "a"))
    table.delete(list(range(200, 300)))
    report = table.compact(full=True)
    assert (report.files_moved, report.rows_read, report.rows_written) == (1, 100, 0)
    assert table.stats().rows == 100


def test_a_level_with_another_format_takes_no_moved_file(memory_uri):
    options = MOVING | {"file.format": "parquet", "file.format.per.level": "0:arrow"}
    table = lsmerge.create_table(memory_uri, SCHEMA, "k", options=options)
    table.upsert(rows(0, 100, "a"))
    report = table.compact(full=True)
    assert (report.files_moved, report.rows_written) == (0, 100)


def test_a_level_with_another_compression_takes_no_moved_file(memory_uri):
    options = MOVING | {"file.compression.per.level": "5:zstd"}
    table = lsmerge.create_table(memory_uri, SCHEMA, "k", options=options)
    table.upsert(rows(0, 100, "a"))
    assert table.compact(full=True).files_moved == 0


def test_a_move_that_lost_the_race_takes_nothing_away(table):
    """The file it names is still there, at another level: that is a conflict, and the file stays."""
    table.upsert(rows(0, 100, "a"))
    context = table._context
    stale = context.snapshots.latest()
    table.compact(full=True)
    loser = lsmerge.open_table(table.uri)
    frozen = replace(loser._context, snapshots=_Stale(stale))
    loser._open_context = frozen
    with pytest.raises(lsmerge.CommitConflictError, match="moved"):
        loser.compact(full=True)
    assert table.scan().count() == 100
    assert table.verify().ok


class _Stale:
    """Snapshots as somebody sees them who has not looked for a while."""

    def __init__(self, snapshot):
        self._snapshot = snapshot

    def latest(self):
        return self._snapshot
