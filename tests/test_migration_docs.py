"""The pages for users of Paimon, Fluss and Hudi say of every option what is true of it.

A table whose header begins `option | here` lists options that are known, with their canonical names where these
differ; `not here` lists options that are refused; `only here` lists options by their canonical names. Every name
and alias of the registry is on one of the pages.
"""

import re
from pathlib import Path

import pytest

from lsmerge.errors import InvalidOptionError
from lsmerge.option_registry import OPTIONS
from lsmerge.options import find

DOCS = Path(__file__).parent.parent / "docs"
PAGES = ["paimon", "fluss", "hudi"]
NAME = re.compile(r"`([^`]+)`")


def rows(page, *headers):
    """The cells of all rows in tables whose header begins so, each cell as the names in it."""
    inside = False
    for line in (DOCS / f"coming-from-{page}.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            inside = False
        elif tuple(cells[: len(headers)]) == headers:
            inside = True
        elif inside and not set(line) <= set("|-: "):
            yield [NAME.findall(cell) for cell in cells]


def known(page):
    """Each option that a page says is known, and its canonical name."""
    for spelled, here, *_ in rows(page, "option", "here"):
        for name in spelled:
            yield name, here[0] if here else name
    for names, *_ in rows(page, "only here"):
        yield from ((name, name) for name in names)


def refused(page):
    for names, *_ in rows(page, "not here"):
        yield from names


def filled(name):
    return name.replace("<f>", "price").replace("<function>", "listagg")


@pytest.mark.parametrize("page", PAGES)
def test_known_options_have_the_canonical_names_that_the_page_says(page):
    wrong = [(name, here) for name, here in known(page) if find(filled(name))[1] != filled(here)]
    assert wrong == []
    assert len(list(known(page))) > 4


@pytest.mark.parametrize("page", PAGES)
def test_options_that_the_page_calls_missing_are_refused(page):
    assert [name for name in refused(page) if is_accepted(name)] == []
    assert len(list(refused(page))) > 4


def is_accepted(name):
    try:
        option, _ = find(name)
    except InvalidOptionError:
        return False
    return option.reader is None


def test_every_option_is_on_a_page():
    told = {name for page in PAGES for pair in known(page) for name in pair}
    told |= {name for page in PAGES for name in refused(page)}
    every = {name for option in OPTIONS for name in (option.name, *option.aliases)}
    assert every - told == set()


def test_a_page_names_an_option_once():
    for page in PAGES:
        names = [*(name for name, _ in known(page)), *refused(page)]
        assert sorted({name for name in names if names.count(name) > 1}) == []
