"""A runner of command lines, and a small table on disk."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from lsmerge.cli.app import app

COLUMNS = "id BIGINT, status STRING, amount DECIMAL(10,2)"


class Outcome:
    """What a command line printed and ended with."""

    def __init__(self, result):
        self.code, self.out, self.err = result.exit_code, result.stdout, result.stderr

    @property
    def document(self):
        assert self.code in (0, 1), self.err
        return json.loads(self.out)

    @property
    def rows(self):
        assert self.code in (0, 1), self.err
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self):
        """The one line on standard error."""
        [line] = self.err.splitlines()
        return line


def run(*args, text=None, code=0):
    """Run a command line in this process, which must end with `code`."""
    result = CliRunner().invoke(app, [str(arg) for arg in args], input=text)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    found = Outcome(result)
    assert found.code == code, found.out + found.err
    return found


@pytest.fixture(scope="session")
def lsmerge():
    """`lsmerge("scan", path, "--json")`."""
    return run


@pytest.fixture(scope="session")
def three_orders(tmp_path_factory):
    path = tmp_path_factory.mktemp("prepared") / "orders"
    run("create", path, COLUMNS, "-k", "id", "-o", "changelog-producer=lookup")
    csv = "id,status,amount\n1,new,10.50\n2,new,7.00\n3,,\n"
    run("write", path, "-", "-F", "csv", text=csv)
    run("write", path, "-", "-F", "json", text='{"id":2,"status":"paid","amount":"7.00"}\n')
    return path


@pytest.fixture
def orders(three_orders, tmp_path):
    """A table of three orders, of two commits, that tells its changes; a test may do with it what it wants."""
    return Path(shutil.copytree(three_orders, tmp_path / "orders"))
