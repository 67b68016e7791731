"""H1, H2, H5, H6, H7: a table that means harm is refused, and nothing of what it asks for happens.

Each case runs in a process of its own, under an audit hook and with its memory limited.
"""

import json
import subprocess
import sys

import pytest

from tests.long.hostile import CASES


def told(case, directory):
    command = [sys.executable, "-m", "tests.long.hostile", case, str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_a_table_that_means_no_harm_is_read(tmp_path):
    assert set(told("nothing", tmp_path)) == {"answered"}


SOME = ["merger os.system", "run outside", "linked snapshots"]


@pytest.mark.parametrize("case", SOME)
def test_a_hostile_table_is_refused(case, tmp_path):
    answers = told(case, tmp_path)
    assert [answer for answer in answers if answer.startswith("not ours")] == []
    assert [answer for answer in answers if answer.startswith("refused")] != []


def test_the_hook_sees_an_attack(tmp_path, monkeypatch):
    program = (
        "import os, pathlib; from tests.long import hostile; "
        f"hostile.watch(pathlib.Path({str(tmp_path)!r})); os.system('true')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 3


def test_cases_are_many():
    assert len(CASES) > 30
