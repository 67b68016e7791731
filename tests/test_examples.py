"""The programs in examples/ run, check themselves, and say something; tests/spark/test_tour.py runs that of Spark."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
NEEDS_SPARK = {"spark_tour"}


@pytest.mark.parametrize(
    "path",
    [path for path in EXAMPLES if path.stem not in NEEDS_SPARK],
    ids=lambda path: path.stem,
)
def test_example(path, capsys):
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out
