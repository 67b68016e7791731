"""What happens where the extra `sql` is not installed."""

import subprocess
import sys

HIDING = """
import sys
for name in ("duckdb", "sqlglot", "prompt_toolkit"):
    sys.modules[name] = None
"""


def run(program):
    command = [sys.executable, "-c", HIDING + program]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_public_name_is_there():
    assert run("from lsmerge import *; print(callable(sql))").stdout == "True\n"


def test_a_call_says_what_to_install():
    told = run("import lsmerge; lsmerge.sql('SELECT 1')").stderr.splitlines()[-1]
    assert told == "ModuleNotFoundError: SQL needs sqlglot: pip install 'lsmerge[sql]'"


def test_the_command_says_what_to_install():
    outcome = run("from lsmerge.cli.app import app; app(['sql', '-e', 'SELECT 1'])")
    assert outcome.stderr.startswith("lsmerge: SQL needs sqlglot: pip install 'lsmerge[cli,sql]'")
    assert outcome.returncode == 2
    assert run("from lsmerge.cli.app import app; app(['sql', '--help'])").returncode == 0
