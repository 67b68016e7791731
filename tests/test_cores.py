"""How many threads lsmerge starts: no more than the process may use, and than libraries are told to."""

import os
import subprocess
import sys

import pytest

COUNT = "import lsmerge.env; print(lsmerge.env.CORES)"


def cores(**environment: str) -> int:
    without = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    command = [sys.executable, "-c", COUNT]
    done = subprocess.run(
        command, env={**without, **environment}, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def test_what_libraries_are_told_limits_threads():
    assert cores(OMP_NUM_THREADS="1") == 1


@pytest.mark.parametrize("said", ["64", "", "many", "-1"])
def test_what_says_nothing_or_more_than_there_is_does_not(said):
    assert cores(OMP_NUM_THREADS=said) == cores()
