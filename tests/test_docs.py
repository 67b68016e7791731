"""Examples in docstrings and in the documentation run, each page top to bottom."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Spark's page needs a session: tests/spark/test_docs.py.
PAGES = [
    path
    for path in sorted((ROOT / "docs").glob("*.md"))
    if FENCE.search(path.read_text()) and path.name != "spark.md"
]


DOCUMENTED = (
    *("lsmerge", "lsmerge.table", "lsmerge.engine.read", "lsmerge.envelope"),
    *("lsmerge.engine.feed", "lsmerge.engine.work"),
    *("lsmerge.mergers", "lsmerge.user_functions", "lsmerge.testing"),
)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_docstrings(name):
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.attempted > 0
    assert outcome.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = "\n".join(FENCE.findall(page.read_text()))
    exec(compile(source, str(page), "exec"), {})


def test_the_first_example_of_the_readme(tmp_path):
    (source, *_) = FENCE.findall((ROOT / "README.md").read_text())
    names: dict[str, object] = {}
    exec(
        compile(source.replace("/data/orders", str(tmp_path / "orders")), "README.md", "exec"),
        names,
    )
    assert names["orders"].get(1)["status"] == "sent"
