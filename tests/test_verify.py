"""`verify` reads every file that a retained snapshot needs, each once, and names all that is wrong."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.storage.memory_disk import MemoryDisk
from tests.disks import mounted

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string()})


class CountingDisk(MemoryDisk):
    """Counts how often each file is opened for reading."""

    def __init__(self) -> None:
        super().__init__(record=False)
        self.opened: Counter[str] = Counter()

    def open_file(self, directory: int, name: str) -> int:
        self.opened[name] += 1
        return super().open_file(directory, name)


@pytest.fixture
def location(tmp_path):
    return tmp_path / "table"


@pytest.fixture
def table(location):
    """Four snapshots, the last of them a compaction that replaced all files before it."""
    table = lsmerge.create_table(str(location), SCHEMA, "k")
    for number in range(3):
        table.upsert([{"k": number, "v": "x"}])
    table.compact(full=True)
    return table


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def files_of(location: Path) -> list[Path]:
    found = [path for path in location.rglob("*") if path.is_file() and path.name != "LATEST"]
    return sorted(found)


def test_a_whole_table_has_no_problems(table):
    report = table.verify()
    assert report.ok
    assert (report.snapshots, report.files) == (4, 4)
    assert report.bytes_read > 0


def test_a_table_without_a_commit_has_no_problems(memory_uri):
    report = lsmerge.create_table(memory_uri, SCHEMA, "k").verify()
    assert report.ok
    assert (report.snapshots, report.files, report.bytes_read) == (0, 0, 0)


def test_every_file_is_opened_once_however_many_snapshots_name_it():
    disk = CountingDisk()
    with mounted(disk) as uri:
        # Its writer leaves compaction alone, so that the number of files is known.
        table = lsmerge.create_table(uri, SCHEMA, "k", options={"write-only": "true"})
        for number in range(70):
            table.upsert([{"k": number, "v": "x"}])
        table.compact(full=True)
        disk.opened.clear()
        report = lsmerge.open_table(uri).verify()
    assert report.ok
    assert (report.snapshots, report.files) == (71, 71)
    assert disk.opened.pop("schema-0.json") == 2, "once to open the table, once to verify it"
    assert set(disk.opened.values()) == {1}


def test_a_flipped_byte_in_any_file_is_named(table, location):
    for path in files_of(location):
        whole = path.read_bytes()
        flip_a_byte(path)
        (problem,) = table.verify().problems
        assert path.name in problem
        path.write_bytes(whole)
    assert table.verify().ok


def test_any_missing_file_is_named_except_where_history_ends(table, location):
    ends = {"snapshot-1.json", "snapshot-4.json"}
    for path in files_of(location):
        whole = path.read_bytes()
        path.unlink()
        problems = table.verify().problems
        if path.name not in ends:
            assert len(problems) == 1
            assert path.name in problems[0]
        path.write_bytes(whole)


def test_all_damage_is_named_not_only_the_first(table, location):
    paths = files_of(location)
    for path in paths:
        if path.parent.name != "snapshot":
            flip_a_byte(path)
    problems = table.verify().problems
    damaged = [path.name for path in paths if path.parent.name in ("schema", "manifest")]
    assert sorted(name for name in damaged if any(name in line for line in problems)) == damaged


def test_damage_to_what_is_cached_in_memory_is_seen(table, location):
    table.scan().to_arrow()
    manifest = max((location / "manifest").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    flip_a_byte(manifest)
    assert any(manifest.name in problem for problem in table.verify().problems)


@pytest.mark.parametrize(
    "pattern", ["bucket-0/data-*", "manifest/*", "snapshot/snapshot-2.json", "schema/schema-0.json"]
)
def test_a_symbolic_link_is_reported(table, location, tmp_path, pattern):
    path = sorted(location.glob(pattern))[0]
    moved = tmp_path / path.name
    path.rename(moved)
    path.symlink_to(moved)
    assert any(path.name in problem for problem in table.verify().problems)


def test_a_wide_gap_of_snapshots_is_one_problem(table, location):
    last = location / "snapshot" / "snapshot-4.json"
    (location / "snapshot" / f"snapshot-{10**15}.json").write_bytes(last.read_bytes())
    gap, content = table.verify().problems
    assert "snapshot-5.json" in gap
    assert f"snapshot-{10**15}.json" in content


def test_files_of_expired_snapshots_are_not_missed(table, location):
    """What only snapshots before the first retained one needed may be gone."""
    live = max((location / "bucket-0").iterdir(), key=lambda path: path.suffix == ".parquet")
    for path in (location / "bucket-0").iterdir():
        if path != live:
            path.unlink()
    for number in (1, 2, 3):
        (location / "snapshot" / f"snapshot-{number}.json").unlink()
    report = lsmerge.open_table(str(location)).verify()
    assert report.problems == ()
    assert (report.snapshots, report.files) == (1, 1)


def test_a_schema_that_a_snapshot_needs_is_missed(table, location):
    schema = location / "schema" / "schema-0.json"
    schema.unlink()
    (problem,) = table.verify().problems
    assert "schema-0.json" in problem


def test_a_newest_snapshot_that_is_lost_is_missed(table, location):
    (location / "snapshot/snapshot-4.json").unlink()
    report = lsmerge.open_table(str(location)).verify()
    assert [problem for problem in report.problems if "snapshot-4.json" in problem]


@pytest.mark.parametrize("hint", [b"", b"x", b"3"])
def test_a_hint_that_says_less_is_no_problem(table, location, hint):
    (location / "snapshot/LATEST").write_bytes(hint)
    assert table.verify().ok


def test_a_hint_ahead_of_all_snapshots_is_told_and_changes_no_answer(table, location):
    before = table.scan().to_arrow()
    (location / "snapshot/LATEST").write_bytes(b"1000000")
    again = lsmerge.open_table(str(location))
    assert again.scan().to_arrow() == before
    (problem,) = again.verify().problems
    assert "snapshot/snapshot-1000000.json: missing, although snapshot/LATEST names it" in problem
    again.upsert(before.slice(0, 1))
    assert lsmerge.open_table(str(location)).verify().ok
