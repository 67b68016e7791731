"""Where statements begin and end, and what their places are called."""

import pytest

from lsmerge import InvalidStatementError, SchemaMismatchError
from lsmerge.statements.script import is_complete, statements
from lsmerge.statements.tokens import Words


def texts(script):
    return [statement.text for statement in statements(script)]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("", []),
        (" \n ; ;; -- nothing\n /* at; all */ ", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1; SELECT 2;", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';' -- a; b\n, 2; X", ["SELECT ';' -- a; b\n, 2", "X"]),
        (
            "SELECT 'it''s; so' /* ; */, \"a;b\", `c;d`; X",
            ["SELECT 'it''s; so' /* ; */, \"a;b\", `c;d`", "X"],
        ),
        ("SELECT 1 - -1; X", ["SELECT 1 - -1", "X"]),
        ("SELECT a / b * c; X", ["SELECT a / b * c", "X"]),
        # Output that a document shows between statements is passed over, whatever is in it.
        ("SELECT 1;\n+---+\n| a'; |\n+---+\nSELECT 2", ["SELECT 1", "SELECT 2"]),
        ("  +--+--+\n  | a | b |\n  +--+--+\nSELECT 2", ["SELECT 2"]),
        # Inside a statement the same signs are what they are.
        ("SELECT '\n+---+\n| a |\n'", ["SELECT '\n+---+\n| a |\n'"]),
        ("SELECT 1\n+--- a comment\n2; X", ["SELECT 1\n+--- a comment\n2", "X"]),
    ],
)
def test_statements(script, expected):
    assert texts(script) == expected


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("", True),
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT ';", False),
        ("SELECT 1; SELECT", False),
        ("SELECT 1; -- more", True),
        ("/* SELECT 1;", False),
    ],
)
def test_what_was_typed_is_complete_when_a_semicolon_ends_it(typed, expected):
    assert is_complete(typed) == expected


def test_places_are_counted_in_the_whole_script():
    first, second = statements("SELECT 1;\n\n  SELECT\n    x")
    assert first.located(7, "here") == "line 1, column 8: here (at: 1)"
    assert second.located(second.text.index("x"), "here") == "line 4, column 5: here (at: x)"


def test_refusals_from_inside_get_the_place_of_what_they_name():
    [statement] = statements("INSERT INTO t (k,\n  wrong) VALUES (1, 2)")
    with (
        pytest.raises(SchemaMismatchError, match=r"line 2, column 3: column 'wrong'"),
        statement.locating(0),
    ):
        raise SchemaMismatchError("column 'wrong' is wrong")


@pytest.mark.parametrize(
    ("script", "place"),
    [("SELECT 'a", "line 1, column 8: '"), ("SELECT\n/* a", "line 2, column 1: /*")],
)
def test_what_is_opened_must_be_closed(script, place):
    *_, last = statements(script)
    with pytest.raises(InvalidStatementError) as refusal:
        Words(last)
    assert f"{place} is never closed" in str(refusal.value)


def test_hints_are_found_outside_of_text_only_by_their_sign():
    [statement] = statements("SELECT /*+ A(1) */ * /* B(2) */ FROM t /*+ OPTIONS('a'='b') */")
    assert [content for _, content in statement.hints()] == ["A(1)", "OPTIONS('a'='b')"]
