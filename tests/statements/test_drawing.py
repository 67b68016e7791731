"""Rows as text."""

import datetime
from decimal import Decimal

import pyarrow as pa

from lsmerge.statements.drawing import MEASURED_ROWS, cell, drawn


def draw(table):
    return list(drawn(table.schema, table.to_batches()))


def test_numbers_to_the_right_text_to_the_left():
    table = pa.table({"id": [1, 22], "name": ["a", None], "x": [1.5, -0.25]})
    assert draw(table) == [
        "+----+------+-------+",
        "| id | name | x     |",
        "+----+------+-------+",
        "|  1 | a    |   1.5 |",
        "| 22 | NULL | -0.25 |",
        "+----+------+-------+",
    ]


def test_no_rows():
    assert draw(pa.table({"a": pa.array([], pa.int64())})) == ["+---+", "| a |", "+---+", "+---+"]


def test_cells_of_several_lines():
    assert draw(pa.table({"a": ["x\nyy"], "b": [1]})) == [
        "+----+---+",
        "| a  | b |",
        "+----+---+",
        "| x  | 1 |",
        "| yy |   |",
        "+----+---+",
    ]


def test_cells():
    assert cell(True) == "true"
    assert cell(Decimal("1E+3")) == "1000"
    assert cell(b"\x00\xff") == "x'00ff'"
    assert cell(datetime.datetime(2024, 1, 31, 12)) == "2024-01-31 12:00:00"
    assert cell(datetime.datetime(2024, 1, 31, 12, 0, 0, 500000)) == "2024-01-31 12:00:00.500"
    assert (
        cell(datetime.datetime(2024, 1, 31, 12, 0, 0, 1, datetime.UTC))
        == "2024-01-31 12:00:00.000001Z"
    )
    assert cell([1, None, "a"]) == "[1, NULL, a]"
    assert cell([("k", 1)]) == "{k=1}"
    assert cell({"a": {"b": [False]}}) == "{a={b=[false]}}"


def test_floats_of_32_bits_have_their_own_digits():
    assert draw(pa.table({"f": pa.array([0.1], pa.float32())}))[3] == "| 0.1 |"


def test_a_large_result_is_drawn_as_it_comes():
    read = []

    def batches():
        for number in range(10):
            read.append(number)
            yield pa.record_batch({"k": pa.array([10**number] * MEASURED_ROWS, pa.int64())})

    lines = drawn(pa.schema({"k": pa.int64()}), batches())
    assert [next(lines) for _ in range(4)][3] == "| 1 |"
    assert len(read) <= 2
    *_, last, border = lines
    assert (last, border) == ("| 1000000000 |", "+---+")


def test_what_moves_a_cursor_is_written_out():
    assert cell("a\x1b[31mb\r\x07") == "a\\x1b[31mb\\r\\x07"


def test_letters_take_the_places_that_a_terminal_gives_them():
    lines = draw(pa.table({"name": ["日本", "é", "e\u0301"]}))
    assert lines[3:6] == ["| 日本 |", "| é    |", "| e\u0301    |"]


def test_intervals_are_told_in_words(session):
    text = "SELECT INTERVAL 14 MONTH AS a, INTERVAL 1 DAY AS b, INTERVAL '1.5' SECOND AS c, INTERVAL 0 DAY AS d"
    [line] = str(session.sql(text)).splitlines()[3:-1]
    assert [cell.strip() for cell in line.strip("|").split("|")] == [
        *("14 months", "1 day", "1.5 seconds", "0 seconds"),
    ]
