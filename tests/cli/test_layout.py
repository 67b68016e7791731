"""Rows on lines: beside each other, or below each other where a terminal is too narrow."""

import io

import pytest
from rich.console import Console

from lsmerge.cli.layout import field_lines, layout
from lsmerge.statements.grid import Grid, printable, text_width


def terminal(width):
    return Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)


HEADER = ("snapshot", "time", "kind", "rows added", "commit")
ROWS = [
    ["1", "2024-01-31 12:00:00Z", "append", "1000", ""],
    ["2", "2024-02-01 12:00:00Z", "compact", "5", "job 7"],
]


def lines(width):
    found = layout(terminal(width), HEADER, ROWS, [True, False, False, True, False])
    return list(found.lines(HEADER, ROWS, [None] * len(ROWS)))


def test_a_line_for_each_row_where_there_is_room():
    header, rule, first, second = lines(80)
    assert header.split() == ["snapshot", "time", "kind", "rows", "added", "commit"]
    assert set(rule) == {"─"}
    assert "2024-01-31 12:00:00Z   append" in first
    assert second.endswith("5   job 7")


@pytest.mark.parametrize("width", [20, 30, 40])
def test_a_line_for_each_value_where_there_is_none(width):
    text = "\n".join(lines(width))
    for row in ROWS:
        for value in row:
            assert value in text
    assert "…" not in text


@pytest.mark.parametrize("width", [10, 20, 40, 120])
def test_fields_show_their_values_however_narrow(width):
    fields = {"read amplification": "12", "uri": "/data/warehouse/orders"}
    text = "\n".join(field_lines(terminal(width), fields))
    assert "12" in text
    assert "/data/warehouse/orders" in text


def test_nothing_is_cut_or_squeezed_elsewhere():
    console = Console(file=io.StringIO(), width=20)
    found = layout(console, HEADER, ROWS, [False] * 5)
    assert "2024-02-01 12:00:00Z" in list(found.lines(HEADER, ROWS, [None, None]))[3]


def test_wide_letters_are_cut_by_the_places_that_they_take():
    grid = Grid.measured([False, True], [["値" * 20, "1"]], " ", room=12)
    line = grid.line(["値" * 20, "1"])
    assert text_width(line) <= 12
    assert line.endswith(" 1")
    assert "…" in line


def test_long_values_of_listings_go_on_in_the_next_line():
    meaning = "Columns whose hash chooses the fixed bucket; by default the primary key."
    rows = [["bucket-key", meaning], ["bucket", "How many."]]
    found = layout(terminal(50), ("option", "meaning"), rows, [False, False], wraps=True)
    shown = list(found.lines(("option", "meaning"), rows, [None, None]))
    assert max(map(text_width, shown)) <= 50
    assert " ".join(" ".join(line.split()) for line in shown[2:5]) == f"bucket-key {meaning}"


def test_accents_take_no_place():
    assert text_width("e\u0301") == 1
    assert text_width("a\nlonger") == 6


def test_what_would_steer_the_terminal_is_spelled():
    assert printable("a\x1b[31mb\n") == "a\\x1b[31mb\\n"
    assert printable("a\nb\t", lines=True) == "a\nb\\t"
