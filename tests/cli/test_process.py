"""The program as a process: pipes, Ctrl-C, terminals."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import lsmerge as library
from lsmerge.cli import failures

ROOT = Path(__file__).parent.parent.parent
SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string()})
PROGRAM = [sys.executable, "-m", "lsmerge.cli"]


def start(*args, **options):
    return subprocess.Popen(
        [*PROGRAM, *map(str, args)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


def finished(*args, **options):
    process = start(*args, **options)
    out, err = process.communicate()
    return process.returncode, out.decode(), err.decode()


def test_arrow_streams_through_pipes_from_table_to_table(lsmerge, orders, tmp_path):
    lsmerge("create", tmp_path / "copy", "--like", orders, "-k", "id")
    reading = start("scan", orders, "-F", "arrow")
    code, out, err = finished("write", tmp_path / "copy", "-F", "arrow", stdin=reading.stdout)
    reading.communicate()
    assert (code, out, err) == (0, "snapshot 1: 3 rows written\n", "")


def test_parquet_from_a_pipe(lsmerge, orders, tmp_path):
    """A pipe cannot be jumped in, as Parquet needs."""
    lsmerge("scan", orders, "-O", tmp_path / "rows.parquet")
    cat = subprocess.Popen(["cat", tmp_path / "rows.parquet"], stdout=subprocess.PIPE)
    code, out, err = finished("write", orders, "-F", "parquet", stdin=cat.stdout)
    cat.communicate()
    assert (code, out, err) == (0, "snapshot 3: 3 rows written\n", "")


@pytest.mark.parametrize(
    ("form", "unbuffered"), [("table", ""), ("json", ""), ("json", "1"), ("csv", "")]
)
def test_a_reader_that_had_enough_ends_the_program_quietly(tmp_path, form, unbuffered):
    table = library.create_table(tmp_path / "t", SCHEMA, "k")
    table.upsert({"k": range(40_000), "v": ["x" * 20] * 40_000})
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with start("scan", tmp_path / "t", "-F", form, env=environment) as process:
        process.stdout.read(100)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == failures.PIPE_CLOSED


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_follower_ends_with_its_reader_though_nothing_changes(orders, form):
    with start("tail", orders, "--from", "earliest", "-F", form) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=60) == failures.PIPE_CLOSED
        assert process.stderr.read() == b""


@pytest.fixture
def heeds_ctrl_c():
    """Who runs the tests in the background ignores Ctrl-C, and so would their children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_ctrl_c_ends_a_follower(orders):
    with start("tail", orders, "--from", "earliest", "--json") as process:
        assert [json.loads(process.stdout.readline())["id"] for _ in range(5)] == [1, 2, 3, 2, 2]
        process.send_signal(signal.SIGINT)
        assert (process.stdout.read(), process.stderr.read()) == (b"", b"")
    assert process.returncode == failures.INTERRUPTED


def test_a_follower_sees_what_others_write(lsmerge, orders):
    with start("tail", orders, "--from", "2", "-n", "3", "--json") as process:
        assert json.loads(process.stdout.readline())["_row_kind"] == "-U"
        lsmerge("delete", orders, "1")
        kinds = [json.loads(line)["_row_kind"] for line in process.stdout]
        assert process.stderr.read() == b""
    assert (process.returncode, kinds) == (0, ["+U", "-D"])


def test_errors_are_one_line_and_a_number(tmp_path):
    code, out, err = finished("scan", tmp_path / "nothing")
    assert (code, out) == (failures.NOT_FOUND, "")
    assert err.startswith("lsmerge: [TABLE_NOT_FOUND] ")
    assert err.count("\n") == 1


def on_terminal(*args, columns=80):
    """What a program writes to a terminal of so many columns."""
    ours, theirs = pty.openpty()
    settings = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [*PROGRAM, *map(str, args)], cwd=ROOT, stdout=theirs, stderr=theirs, env=settings
    )
    os.close(theirs)
    parts = []
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(ours)
    return process.wait(), b"".join(parts).decode()


def test_a_terminal_gets_colours_and_lines_that_fit(lsmerge, orders):
    text = '{"id":7,"status":"%s"}\n' % ("long " * 40)
    lsmerge("write", orders, "-F", "json", text=text)
    code, shown = on_terminal("scan", orders, columns=40)
    assert code == 0
    assert "\x1b[1m" in shown
    assert "…" in shown
    code, shown = on_terminal("levels", orders, columns=40)
    assert code == 0
    assert "\x1b[33m" in shown


def test_a_terminal_too_narrow_for_columns_gets_them_below_each_other(orders):
    code, shown = on_terminal("tail", orders, "--once", columns=30)
    assert code == 0
    assert "_row_kind" in shown
    assert shown.count("amount") == 5


def test_arrow_is_not_for_a_terminal(orders):
    code, shown = on_terminal("scan", orders, "-F", "arrow")
    assert code == 2
    assert "not for a terminal" in shown


def test_letters_that_the_terminal_does_not_know_are_spelled(tmp_path):
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    library.create_table(tmp_path / "t", pa.schema({"ä": pa.int64()}), "ä")
    _, out, _ = finished("schema", tmp_path / "t", "--json", env=ascii_only)
    assert json.loads(out)["primary_key"] == ["ä"]
    code, out, err = finished("schema", tmp_path / "t", env=ascii_only)
    assert (code, err) == (0, "")
    assert "\\xe4" in out
    assert "---" in out


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_streams_that_are_closed_are_no_reason_to_fail(lsmerge, orders, closed):
    line = f"{' '.join(PROGRAM)} scan {orders} --count {closed}"
    assert subprocess.run(["bash", "-c", line], cwd=ROOT, check=False).returncode == 0


def test_rows_from_a_standard_input_that_is_closed_are_refused(orders):
    line = f"{' '.join(PROGRAM)} write {orders} -F csv <&-"
    found = subprocess.run(
        ["bash", "-c", line], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert found.returncode == failures.STORAGE
    assert found.stderr.startswith("lsmerge: standard input: is closed: give a file")
