"""`lsmerge sql`: from a file, from the command line, from standard input, and typed at a prompt."""

import json

import pytest
from click.testing import CliRunner
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from lsmerge.cli import sql
from lsmerge.cli.app import app
from lsmerge.cli.settings import Settings
from lsmerge.cli.sql_prompt import Prompt
from lsmerge.statements import Session

SCRIPT = "CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, v STRING);\nINSERT INTO t VALUES (1, 'a'), (2, NULL);\n"
DRAWN = "+---+------+\n| k | v    |\n+---+------+\n| 1 | a    |\n| 2 | NULL |\n+---+------+\n"


def run(*arguments, stdin=""):
    return CliRunner().invoke(app, ["sql", *map(str, arguments)], input=stdin)


def test_a_file(tmp_path):
    (tmp_path / "script.sql").write_text(
        SCRIPT + "SELECT * FROM t;\n" + DRAWN + "SELECT count(*) AS n FROM t"
    )
    result = run(tmp_path / "house", "-f", tmp_path / "script.sql")
    assert result.stdout == DRAWN + "+---+\n| n |\n+---+\n| 2 |\n+---+\n"
    assert (result.stderr, result.exit_code) == ("", 0)


def test_text_of_the_command_line_sees_what_earlier_runs_made(tmp_path):
    assert run(tmp_path, "-e", SCRIPT).output == ""
    assert run(
        tmp_path, "-e", "SELECT * FROM t", "-e", "SHOW TABLES", "--json"
    ).output.splitlines() == [
        '{"k":1,"v":"a"}',
        '{"k":2,"v":null}',
        '{"table name":"t"}',
    ]


def test_standard_input(tmp_path):
    assert run(tmp_path, stdin=SCRIPT + "SELECT * FROM t").output == DRAWN
    assert run(tmp_path, "-f", "-", stdin="SELECT * FROM t").output == DRAWN


def test_without_a_warehouse_tables_are_in_memory():
    assert run("-e", "DROP TABLE IF EXISTS t;" + SCRIPT, "-e", "SELECT * FROM t").output == DRAWN


def test_json_of_values_that_json_lacks(tmp_path):
    query = "SELECT 1.50 AS m, TIMESTAMP '2024-01-31 12:00:00.5' AS t, X'00ff' AS y, DATE '2024-01-31' AS d, [1] AS l"
    assert json.loads(run(tmp_path, "--json", "-e", query).output) == {
        "m": "1.50",
        "t": "2024-01-31T12:00:00.5",
        "y": "AP8=",
        "d": "2024-01-31",
        "l": [1],
    }


def test_statements_without_rows_are_told_in_json(tmp_path):
    text = SCRIPT + (
        "UPDATE t SET v = 'x' WHERE k = 1; UPDATE t SET v = 'x' WHERE k = 7; DELETE FROM t WHERE k = 2;"
        "SELECT * FROM t; ALTER TABLE t ADD w INT; TRUNCATE TABLE t; DROP TABLE t"
    )
    assert [
        json.loads(line) for line in run(tmp_path, "--json", "-e", text).output.splitlines()
    ] == [
        {"statement": "CREATE", "snapshot": None},
        {"statement": "INSERT", "snapshot": 1, "rows": 2},
        {"statement": "UPDATE", "snapshot": 2, "rows": 1},
        {"statement": "UPDATE", "snapshot": None, "rows": 0},
        {"statement": "DELETE", "snapshot": 3, "rows": 1},
        {"k": 1, "v": "x"},
        {"statement": "ALTER", "snapshot": None},
        {"statement": "TRUNCATE", "snapshot": 4},
        {"statement": "DROP", "snapshot": None},
    ]


def test_an_error_of_a_script_ends_it(tmp_path):
    result = run(tmp_path, "-e", SCRIPT + "SELECT w FROM t; SELECT 1")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(
        "lsmerge: [INVALID_STATEMENT] line 3, column 8: unknown column 'w'"
    )
    assert result.stderr.count("\n") == 1


# -------------------------------------------------------------------------------------- the prompt


@pytest.fixture
def typed(tmp_path):
    """What a prompt gives for keys that are pressed."""

    def press(keys):
        with create_pipe_input() as pipe:
            pipe.send_text(keys)
            return list(Prompt(str(tmp_path / "history"), input=pipe, output=DummyOutput()))

    return press


def test_a_statement_is_read_until_its_semicolon(typed):
    assert typed("SELECT 1\r, ';'\r;\rSELECT 2;\rexit\r") == ["SELECT 1\n, ';'\n;", "SELECT 2;"]


def test_the_end_is_a_word_or_a_key(typed):
    assert typed("quit\r") == typed("EXIT;\r") == typed("\\q\r") == typed("\x04") == []


def test_ctrl_c_gives_up_what_was_typed(typed):
    assert typed("SELECT\x03SELECT 1;\rexit\r") == ["SELECT 1;"]


def test_history_lasts(typed):
    typed("SELECT 1;\rexit\r")
    up, enter = "\x1b[A", "\r"
    assert typed(f"{up}{up}{enter}exit{enter}") == ["SELECT 1;"]


def test_an_error_at_the_prompt_is_one_line(memory_uri, capsys):
    session = Session(memory_uri)
    sql.run_typed(session, "SELECT * FROM\n nothing;", Settings())
    sql.run_typed(session, "SELECT 1 AS one;", Settings())
    output, errors = capsys.readouterr()
    assert errors.count("\n") == 1
    assert errors.startswith("lsmerge: [TABLE_NOT_FOUND] line 2, column 2: no table 'nothing'")
    assert output == "+-----+\n| one |\n+-----+\n|   1 |\n+-----+\n"


def test_columns_of_one_name_are_told_apart_in_json(memory_uri, capsys):
    text = "SELECT 1 AS k, 2 AS k, 3 AS k_2;"
    sql.run_typed(Session(memory_uri), text, Settings(json=True))
    assert capsys.readouterr().out == '{"k":1,"k_2":2,"k_2_2":3}\n'


def test_sessions_without_a_warehouse_do_not_see_each_other():
    with Session() as one, Session() as other:
        one.sql(SCRIPT)
        other.sql("CREATE TABLE t (other INT PRIMARY KEY NOT ENFORCED)")
        assert one.sql("SELECT count(*) AS n FROM t").to_pylist() == [{"n": 2}]
        place = one.catalog.uri
    assert Session(place).sql("SHOW TABLES").to_pylist() == []
