"""The report in a browser: readable on a phone and on a desktop, light and dark, alone with itself."""

import os
from pathlib import Path

import pytest

from lsmerge.report import to_html
from lsmerge.report.page import page
from tests import browser, reports

PROGRAM = browser.find()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium: apt-get install chromium")
PHONE, DESKTOP = (360, 800), (1280, 900)
PAGES = {
    "usual": lambda: to_html(reports.orders("memory://shop-in-a-browser/orders")),
    "empty": lambda: page(reports.figures()),
    "many": lambda: page(reports.many()),
    "hostile": lambda: page(reports.hostile()),
}


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    opened = browser.Browser(PROGRAM, tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    written = {}
    for name, make in PAGES.items():
        written[name] = tmp_path_factory.mktemp("pages") / f"{name}.html"
        written[name].write_text(make(), encoding="utf-8")
    return written


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", [PHONE, DESKTOP], ids=["phone", "desktop"])
@pytest.mark.parametrize("name", PAGES)
def test_page(chromium, pages, name, screen, scheme):
    visit = chromium.visit(pages[name], *screen, scheme)
    assert chromium.evaluate(visit, "document.documentElement.scrollWidth") <= screen[0]
    assert chromium.evaluate(visit, "document.querySelectorAll('h1').length") == 1
    background = chromium.evaluate(visit, "getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, background[4:-1].split(","))) < 200) == (scheme == "dark")
    # Letters are never too small to be read.
    sizes = "[...document.querySelectorAll('main *')].map(e => parseFloat(getComputedStyle(e).fontSize))"
    assert chromium.evaluate(visit, f"Math.min(...{sizes})") >= 12
    assert visit.complaints == []
    assert visit.requests == [pages[name].as_uri()]


def test_hostile_names_are_text(chromium, pages):
    visit = chromium.visit(pages["hostile"], *DESKTOP, "light")
    assert chromium.evaluate(visit, "document.querySelectorAll('script, img, iframe').length") == 0
    assert "<script>alert(1)</script>" in chromium.evaluate(visit, "document.body.innerText")


def test_pictures_have_names(chromium, pages):
    visit = chromium.visit(pages["usual"], *DESKTOP, "light")
    count = "document.querySelectorAll('svg').length"
    named = "document.querySelectorAll('svg[role=img][aria-label] > title').length"
    assert chromium.evaluate(visit, count) == chromium.evaluate(visit, named) > 10


def test_screenshot(chromium, pages):
    """`LSMERGE_SCREENSHOTS=docs/images` keeps them where the documentation shows them."""
    for scheme in ("light", "dark"):
        picture = chromium.screenshot(chromium.visit(pages["usual"], 1000, 1600, scheme))
        assert picture.startswith(b"\x89PNG")
        directory = os.environ.get("LSMERGE_SCREENSHOTS")
        if directory:
            Path(directory, f"report-{scheme}.png").write_bytes(picture)
