"""The page of the command line: its commands run in the order of the page and print what it shows."""

import doctest
import re
import shlex
from pathlib import Path

import pytest

from lsmerge.cli.failures import FAMILIES

PAGE = (Path(__file__).parent.parent.parent / "docs" / "cli.md").read_text()
# Files that the page shows under their name, and what is typed.
BLOCK = re.compile(
    r"`([\w.]+)`:\n\n```\w+\n(.*?)^```|^```console\n(.*?)^```", re.DOTALL | re.MULTILINE
)
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def stages(line):
    """The programs of a pipeline, all of them ours."""
    words = shlex.split(line.replace("|", " '|' "), posix=True)
    found = [[]]
    for word in words:
        if word == "|":
            found.append([])
        else:
            found[-1].append(word)
    assert all(stage[0] == "lsmerge" for stage in found)
    return [stage[1:] for stage in found]


def printed(line):
    """What a command line prints, errors last."""
    from click.testing import CliRunner

    from lsmerge.cli.app import app

    text, errors = None, ""
    for args in stages(line):
        result = CliRunner().invoke(app, args, input=text)
        text, errors = result.stdout_bytes, errors + result.stderr
    return text.decode() + errors


def test_the_page_shows_what_is_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = 0
    for name, content, console in BLOCK.findall(PAGE):
        if name:
            (tmp_path / name).write_text(content)
        for line, expected in COMMAND.findall(console):
            got = printed(line)
            assert doctest.OutputChecker().check_output(expected, got, FLAGS), f"{line}\n{got}"
            shown += 1
    assert shown > 20


@pytest.mark.parametrize("code", sorted({code for _, code in FAMILIES} | {0, 1, 9, 130, 141}))
def test_the_page_tells_every_exit_code(code):
    assert f"| {code} | " in PAGE
