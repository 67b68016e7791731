"""Examples in docstrings and in the documentation run, each page top to bottom."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Pages that need other packages have tests beside those of the packages: tests/spark, tests/interop, tests/statements.
ELSEWHERE = ("interop.md", "spark.md", "sql.md")
PAGES = [
    path
    for path in sorted((ROOT / "docs").glob("*.md"))
    if FENCE.search(path.read_text()) and path.name not in ELSEWHERE
]


DOCUMENTED = (
    *("lsmerge", "lsmerge.table", "lsmerge.engine.read", "lsmerge.envelope"),
    *("lsmerge.engine.feed", "lsmerge.engine.work", "lsmerge.report"),
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


def figures(page):
    """The cells of the comparison, by work and column."""
    lines = [line for line in (ROOT / page).read_text().splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    (start,) = [place for place, row in enumerate(rows) if row[:3] == ["work", "unit", "lsmerge"]]
    header, found = rows[start], {}
    for work, *cells in rows[start + 2 :]:
        if len(cells) + 1 == len(header):
            found |= {(work, name): cell for name, cell in zip(header[1:], cells, strict=True)}
    return found


def test_the_figures_of_the_readme_are_those_of_the_page_about_performance():
    short, whole = figures("README.md"), figures("docs/performance.md")
    assert len(short) > 20
    assert {place: whole.get(place) for place in short} == short
