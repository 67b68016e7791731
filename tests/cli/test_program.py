"""The program in this process: help, usage errors, exit codes, what it imports and completes."""

import io
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

import lsmerge as library
from lsmerge.cli import failures, progress
from lsmerge.cli.app import COMMANDS, app
from lsmerge.cli.settings import Settings

ROOT = Path(__file__).parent.parent.parent


def python(program):
    """A program of one line in a process of its own."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)


def test_debug_shows_the_way(lsmerge, tmp_path):
    found = lsmerge("scan", tmp_path / "nothing", "--debug", code=3)
    assert found.err.startswith("Traceback")
    assert found.err.splitlines()[-1].startswith("lsmerge: [TABLE_NOT_FOUND]")
    assert lsmerge("--debug", "scan", tmp_path / "nothing", code=3).err.startswith("Traceback")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("scna",), "no command 'scna'; did you mean 'scan'? (see: lsmerge --help)"),
        (("scan",), "Missing argument 'TABLE'. (see: lsmerge scan --help)"),
        (("scan", "t", "--nonsense"), "--nonsense"),
        (("tag", "create", "t"), "Missing argument 'NAME'. (see: lsmerge tag create --help)"),
        (("info", "t", "--storage-option", "x"), "--storage-option x: write it as NAME=VALUE"),
        (("info", "t", "--import", "no_such_module"), "--import no_such_module: "),
        (("info", "ftp://x/y"), "ftp"),
    ],
)
def test_usage_errors(lsmerge, args, message):
    assert message in lsmerge(*args, code=2).error


def test_every_error_has_its_number():
    codes = {
        library.InvalidOptionError("x"): 2,
        library.SnapshotExpiredError("x"): 3,
        library.TagExistsError("x"): 4,
        library.MergeValueError("x"): 5,
        library.CorruptFileError("p", "x"): 6,
        library.StorageError("p", "read", "x"): 7,
        OSError("x"): 7,
        library.CommitUnknownError("x"): 8,
        library.TableClosedError("x"): 9,
    }
    assert {str(e): failures.exit_code(e) for e in codes} == {str(e): n for e, n in codes.items()}


def test_a_merger_of_your_own_is_imported(lsmerge, tmp_path, monkeypatch):
    (tmp_path / "cli_test_merger.py").write_text(
        "import lsmerge\n"
        "class Longest:\n"
        "    def merge(self, older, newer):\n"
        "        return max(older, newer, key=lambda row: len(row['v']))\n"
        "lsmerge.register_merger('cli-test-longest', Longest)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    columns = ("k INT, v STRING", "-k", "k", "-o", "record.merge.mode=custom")
    named = ("-o", "record.merge.strategy-id=cli-test-longest")
    lsmerge("create", tmp_path / "t", *columns, *named)
    write = ("write", tmp_path / "t", "-F", "csv")
    refused = lsmerge(*write, text="k,v\n1,a\n1,b\n", code=2)
    assert "--import MODULE" in refused.error
    merger = ("--import", "cli_test_merger")
    for value in ("long", "x"):
        lsmerge(*write, *merger, text=f"k,v\n1,{value}\n")
    assert lsmerge("get", tmp_path / "t", "1", "--json").rows == [{"k": 1, "v": "long"}]


def test_help_of_every_command(lsmerge):
    listed = lsmerge("--help").out
    for name, meaning in COMMANDS.items():
        assert f"{name} " in listed
        assert meaning.split(":")[0] in listed
        shown = lsmerge(name, "--help").out
        assert shown.startswith(f"Usage: lsmerge {name}")
    assert lsmerge("--version").out == f"lsmerge, version {library.__version__}\n"


def test_help_imports_neither_tables_nor_pictures():
    program = (
        "import sys; from lsmerge.cli.app import app; app.main(['--help'], standalone_mode=False); "
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    run = python(program)
    loaded = set(run.stderr.split())
    assert "lsmerge.cli.app" in loaded
    assert loaded & {"pyarrow", "rich", "lsmerge.table"} == set()


def test_importing_the_library_brings_no_command_line():
    program = "import sys, lsmerge; lsmerge.Table; print(*sorted(sys.modules))"
    loaded = set(python(program).stdout.split())
    assert "lsmerge.table" in loaded
    assert loaded & {"click", "rich"} == set()


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_its_packages_the_program_says_what_to_install(missing):
    program = (
        f"import sys; sys.modules[{missing!r}] = None; "
        "from lsmerge.cli.entry import main; sys.exit(main())"
    )
    run = python(program)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == f"lsmerge: the command line needs {missing}: pip install 'lsmerge[cli]'\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(lsmerge, shell):
    assert "_LSMERGE_COMPLETE" in lsmerge("completion", shell).out
    assert "lsmerge" in lsmerge("completion", shell, "--json").document["source"]


def completed(*args, incomplete=""):
    complete = BashComplete(app, {}, "lsmerge", "_LSMERGE_COMPLETE")
    return [item.value for item in complete.get_completions([str(a) for a in args], incomplete)]


def test_names_are_completed(orders):
    assert completed(incomplete="comp") == ["compact", "completion"]
    assert "--filter" in completed("scan", incomplete="--f")
    assert completed("create", "t", "-o", incomplete="bucket") == ["bucket=", "bucket-key="]
    assert completed("scan", orders, "-c", incomplete="") == ["id", "status", "amount"]
    assert completed("scan", orders, "-c", incomplete="id,st") == ["id,status"]
    assert completed("scan", "no-table", "-c", incomplete="i") == []


def test_without_a_command_the_help_is_shown_as_it_is(lsmerge):
    for args in ((), ("tag",)):
        found = lsmerge(*args, code=2)
        assert found.err.startswith("Usage: lsmerge")
        assert "\nCommands:\n" in found.err


def test_tags_and_consumers_are_completed(lsmerge, orders):
    lsmerge("tag", "create", orders, "monday")
    lsmerge("tag", "create", orders, "tuesday")
    for command in (("scan", orders, "--tag"), ("rollback", orders, "--tag"), ("diff", orders)):
        assert completed(*command, incomplete="m") == ["monday"]
    assert completed("tag", "delete", orders, incomplete="") == ["monday", "tuesday"]
    lsmerge("tail", orders, "--once", "--consumer", "billing")
    assert completed("consumer", "delete", orders) == ["billing"]
    assert completed("tail", orders, "--consumer", incomplete="b") == ["billing"]


def test_ways_out_are_those_of_the_command_line(lsmerge, orders, tmp_path):
    exists = lsmerge("create", orders, "id INT", "-k", "id", code=4).error
    assert "exist_ok" not in exists
    assert "--if-not-exists" in exists
    missing = lsmerge("scan", tmp_path / "nowhere", code=3).error
    assert "`lsmerge create` makes one" in missing
    widened = lsmerge("alter", orders, "--add", "n INT NOT NULL", code=5).error
    assert "-o fields.n.default-value=VALUE" in widened
    bucket = lsmerge("alter", orders, "-o", "bucket=3", code=2).error
    assert "`lsmerge rescale` splits" in bucket
    identity = lsmerge("write", orders, "-", "-F", "json", "--commit-id", "1", text="{}", code=2)
    assert "--commit-user None --commit-id 1: give both" in identity.error


def test_completion_runs_nobodys_code(tmp_path, monkeypatch):
    (tmp_path / "cli_test_trap.py").write_text("raise SystemExit('run')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "--filter" in completed("scan", "--import", "cli_test_trap", incomplete="--f")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_is_drawn_for_who_watches(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress.bar(Settings(), "compact") as hook:
        hook(progress.RowsDone(5, 10))
        hook(progress.RowsDone(10, None))
    assert "compact" in sys.stderr.getvalue()
    with progress.bar(Settings(json=True), "compact") as hook:
        assert hook is None


def test_nothing_but_the_answer_where_nobody_watches(lsmerge, orders):
    assert lsmerge("compact", orders, "--full").err == ""
    assert lsmerge("verify", orders).err == ""


@pytest.mark.parametrize("command", ["get", "delete"])
def test_a_negative_key_is_told_where_it_belongs(lsmerge, orders, command):
    error = lsmerge(command, orders, "-15", code=2).error
    assert f"goes behind --, as in: lsmerge {command} TABLE -- -1" in error
    assert lsmerge(command, orders, "--", "-15", "1", code=int(command == "get")).out
