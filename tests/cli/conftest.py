"""A runner of command lines, and a small table on disk."""

import json

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


@pytest.fixture
def lsmerge():
    """Run a command line in this process: `lsmerge("scan", path, "--json")`."""

    def run(*args, text=None, code=0):
        result = CliRunner().invoke(app, [str(arg) for arg in args], input=text)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        found = Outcome(result)
        assert found.code == code, found.out + found.err
        return found

    return run


@pytest.fixture
def orders(lsmerge, tmp_path):
    """A table of three orders, of two commits, that tells its changes."""
    path = tmp_path / "orders"
    lsmerge("create", path, COLUMNS, "-k", "id", "-o", "changelog-producer=lookup")
    csv = "id,status,amount\n1,new,10.50\n2,new,7.00\n3,,\n"
    lsmerge("write", path, "-", "-F", "csv", text=csv)
    lsmerge("write", path, "-", "-F", "json", text='{"id":2,"status":"paid","amount":"7.00"}\n')
    return path
