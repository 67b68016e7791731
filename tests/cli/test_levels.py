"""`levels`: the picture of a tree, wide and narrow, and the same as JSON."""

import datetime
from decimal import Decimal
from types import SimpleNamespace

import pytest

from lsmerge.cli.tree_view import KeyAxis, cells


def file(low, high):
    return SimpleNamespace(min_key={"k": low}, max_key={"k": high})


def drawn(run, axis, width):
    line = cells(run, axis, width)
    return "".join("." if number is None else str(number) for number in line)


def axis_of(*runs):
    ends = [(f.min_key, f.max_key) for run in runs for f in run]
    return KeyAxis([key for pair in ends for key in pair])


def test_numbers_are_drawn_to_scale():
    old, new = [file(0, 49), file(50, 99)], [file(20, 39)]
    axis = axis_of(old, new)
    assert drawn(old, axis, 10) == "0000011111"
    assert drawn(new, axis, 10) == "..00......"


@pytest.mark.parametrize(
    "low",
    [
        datetime.date(2024, 1, 1),
        datetime.datetime(2024, 1, 1),
        datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
    ],
)
def test_times_are_drawn_to_scale(low):
    day = datetime.timedelta(days=1)
    runs = [[file(low, low + 10 * day)], [file(low + 5 * day, low + 10 * day)]]
    assert drawn(runs[1], axis_of(*runs), 10) == ".....00000"


def test_text_is_drawn_by_its_order():
    """Three distinct ends: the middle one is in the middle, however far in the alphabet."""
    runs = [[file("a", "z")], [file("a", "b")]]
    assert drawn(runs[1], axis_of(*runs), 10) == "00000....."


def test_a_file_is_never_too_small_to_see():
    runs = [[file(0, 10**9)], [file(5, 5)], [file(10**9, 10**9)]]
    axis = axis_of(*runs)
    assert drawn(runs[1], axis, 10) == "0........."
    assert drawn(runs[2], axis, 10) == ".........0"


def test_one_key_fills_the_line():
    run = [file(Decimal(7), Decimal(7))]
    assert drawn(run, axis_of(run), 5) == "00000"


@pytest.fixture
def tree(lsmerge, tmp_path):
    """A bucket with a compacted run of keys 0 to 99 below a small new one; and another partition."""
    path = tmp_path / "t"
    columns = (
        "p INT, k INT, v STRING",
        "-k",
        "p,k",
        "--partition-by",
        "p",
        "-o",
        "write-only=true",
    )
    lsmerge("create", path, *columns)
    rows = "".join(f"1,{k},x\n" for k in range(100))
    lsmerge("write", path, "-F", "csv", text=f"p,k,v\n{rows}")
    lsmerge("compact", path, "--full")
    lsmerge("write", path, "-F", "csv", text="p,k,v\n1,50,y\n1,99,y\n2,7,z\n")
    return path


def test_runs_are_drawn_newest_first(lsmerge, tree):
    lines = [line.rstrip() for line in lsmerge("levels", tree, "--width", "80").out.splitlines()]
    assert lines[0].startswith("p=1/bucket-0  2 runs, 2 files, ")
    assert lines[0].endswith("102 rows")
    assert lines[1].startswith(" L0 ")
    assert lines[1].endswith("2 rows      1 file")
    assert lines[2].startswith(" L5  ████")
    assert lines[2].endswith("100 rows      1 file")
    assert lines[3].split() == ["0", "99"]
    assert lines[5].startswith("p=2/bucket-0  1 run")
    bars = [line[5:42] for line in lines[1:3]]
    assert bars[0] == " " * 18 + "█" * 19
    assert bars[1] == "█" * 37


@pytest.mark.parametrize("width", [20, 30, 40, 71, 72, 120])
def test_lines_fit_the_width(lsmerge, tree, width):
    lines = lsmerge("levels", tree, "--width", width).out.splitlines()
    drawn = [line for line in lines if line.startswith(" ")]
    assert all(len(line) <= width for line in drawn)
    assert any("█" in line for line in drawn)


def test_files_are_listed_with_their_keys(lsmerge, tree):
    shown = lsmerge("levels", tree, "--files").out
    assert "keys 50 … 99" in shown
    assert "data-" in shown


def test_one_bucket_one_partition_one_time(lsmerge, tree):
    found = lsmerge("levels", tree, "-p", "p=2", "--json").document
    assert [bucket["partition"] for bucket in found] == [{"p": 2}]
    assert lsmerge("levels", tree, "-b", "7", "--json").document == []
    old = lsmerge("levels", tree, "--snapshot", "1", "--json").document
    assert [[run["level"] for run in bucket["runs"]] for bucket in old] == [[0]]


def test_levels_as_json(lsmerge, tree):
    first, second = lsmerge("levels", tree, "--json").document
    assert [run["level"] for run in first["runs"]] == [0, 5]
    assert [run["rows"] for run in first["runs"]] == [2, 100]
    [file] = second["runs"][0]["files"]
    assert (file["min_key"], file["max_key"], file["rows"]) == ({"k": 7}, {"k": 7}, 1)


def test_many_buckets_are_cut_to_the_largest(lsmerge, tree):
    shown = lsmerge("levels", tree, "-n", "1").out
    assert "p=1/" in shown
    assert "p=2/" not in shown
    assert shown.endswith("and 1 smaller bucket; --limit shows more\n")
