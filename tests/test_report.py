"""The report: everything escaped, bounded in size, and right about what it draws."""

import itertools
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from html.parser import HTMLParser

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lsmerge
from lsmerge.report import to_html
from lsmerge.report.axis import Axis
from lsmerge.report.figures import Bucket, File, figures_of
from lsmerge.report.markup import Markup, element
from lsmerge.report.overlap import overlap, visible
from lsmerge.report.page import page
from lsmerge.report.periods import MAX_PERIODS, periods
from lsmerge.report.style import STYLE
from tests import reports

VOID = {"meta", "link"}


class Reader(HTMLParser):
    """The elements, attributes and texts of a page; elements must be closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)


# ------------------------------------------------------------------------------------------- the page


@pytest.mark.parametrize("figures", [reports.figures, reports.many, reports.hostile])
def test_a_page_is_whole_and_asks_for_nothing(figures):
    reader = Reader(page(figures()))
    names = {name for name, _ in reader.elements}
    assert names.isdisjoint({"script", "img", "iframe", "object", "embed", "base", "form"})
    for name, attributes in reader.elements:
        assert not [key for key in attributes if key.startswith("on")], name
        assert attributes.get("href", "data:,") == "data:,"
        assert "src" not in attributes
    assert "url(" not in STYLE
    assert "@import" not in STYLE


def test_hostile_names_are_shown_as_they_are():
    reader = Reader(page(reports.hostile()))
    assert "<script>alert(1)</script>" in reader.text
    assert "\x00" not in reader.text
    assert "\u202e" not in reader.text
    # The same names without what makes them hostile give the same elements.
    tame = reports.hostile()
    quiet = page(tame).replace(str(element("i", reports.HOSTILE))[3:-4], "name")
    assert Reader(quiet).elements != []
    assert [name for name, _ in Reader(quiet).elements] == [name for name, _ in reader.elements]


def test_a_hostile_table(memory_uri):
    name = "<b onclick='x'>&amp;\"</b>"
    schema = pa.schema({name: pa.string(), "k": pa.string()})
    table = lsmerge.create_table(
        f"{memory_uri}-<i>", schema, [name, "k"], partition_by=name, options={"bucket": 1}
    )
    table.upsert([{name: "<script>", "k": "</svg><script>"}, {name: "&lt;", "k": "'"}])
    table.create_tag("a.b-c")
    reader = Reader(to_html(table))
    assert reader.count("script") == reader.count("b") == reader.count("i") == 0
    assert f"{name} = <script>, bucket 0" in reader.text


def test_an_empty_table(memory_uri):
    table = lsmerge.create_table(memory_uri, pa.schema({"k": pa.int64()}), "k")
    reader = Reader(to_html(table))
    assert "The table holds no files." in reader.text
    assert "no snapshot yet" in reader.text


def test_a_table_whose_rows_are_all_gone(memory_uri):
    table = lsmerge.create_table(memory_uri, pa.schema({"k": pa.int64()}), "k")
    table.upsert({"k": [1]})
    table.overwrite({"k": []})
    assert "The table holds no files." in Reader(to_html(table)).text


def test_a_usual_table(memory_uri):
    table = reports.orders(memory_uri, commits=10)
    reader, stats = Reader(to_html(table)), table.stats()
    assert reader.count("article") == len(stats.buckets) == 4
    assert f"write amplification {stats.write_amplification:.1f}" in reader.text
    assert f"space amplification {stats.space_amplification:.1f}" in reader.text
    assert f"stored rows {stats.rows:,}" in reader.text
    assert "Producer lookup" in reader.text
    for name in ("order_id", "changelog-producer", "end-of-day"):
        assert name in reader.text


def test_a_page_stays_small_however_large_the_table():
    html = page(reports.many())
    assert len(html.encode()) < 1_000_000
    assert "1,000 buckets; the 12 largest are drawn below" in html
    assert "the newest 50 of 10,000" in html
    assert "28 runs between" in html


def test_the_figures_are_those_of_the_table(memory_uri):
    table = reports.orders(memory_uri, commits=8)
    figures, stats = figures_of(table), table.stats()
    assert (figures.rows, figures.files, figures.size_bytes) == (
        stats.rows,
        stats.files,
        stats.size_bytes,
    )
    assert figures.read_amplification == stats.read_amplification
    assert figures.write_amplification == pytest.approx(stats.write_amplification)
    assert figures.space_amplification == pytest.approx(stats.space_amplification)
    told = sum(batch.num_rows for batch in table.changelog())
    assert sum(event.changelog_rows for event in figures.history) == told


@pytest.mark.parametrize(
    "values",
    [
        [1, 5],
        ["a", "z"],
        [b"\x00", b"\xff"],
        [Decimal("0.5"), Decimal("1.5")],
        [date(2020, 1, 1), date(2021, 1, 1)],
        [datetime(2020, 1, 1, tzinfo=UTC), datetime(2021, 1, 1, tzinfo=UTC)],
        [0.5, float("nan")],
        [True, False],
        [7],
    ],
    ids=str,
)
def test_keys_of_any_type(memory_uri, values):
    data = pa.table({"k": pa.array(values)})
    table = lsmerge.create_table(memory_uri, data.schema, "k")
    table.upsert(data)
    assert Reader(to_html(table)).count("article") == 1


# ------------------------------------------------------------------------------------------- markup


@given(st.text())
def test_any_text_comes_back_as_text(text):
    html = element("p", text, title=text)
    reader = Reader(html)
    assert [name for name, _ in reader.elements] == ["p"]
    shown = "".join(reader.texts)
    kept = re.sub("\ufffd", "", shown)
    assert all(character in text for character in kept)


def test_only_markup_is_not_escaped():
    assert element("p", "<i>", Markup("<i></i>"), 3, None, ["a", ["&"]]) == (
        "<p>&lt;i&gt;<i></i>3a&amp;</p>"
    )


# --------------------------------------------------------------------------------------------- pieces


def test_numbers_are_drawn_to_scale_and_words_in_their_order():
    numbers = Axis([(0,), (10,), (100,)])
    assert [numbers.position((n,)) for n in (0, 10, 100)] == [0.0, 0.1, 1.0]
    words = Axis([("a",), ("b",), ("zz",)])
    assert [words.position((w,)) for w in ("a", "b", "zz")] == [0.0, 0.5, 1.0]
    assert (numbers.is_to_scale, words.is_to_scale) == (True, False)
    pairs = Axis([("a", 2), ("a", 10), ("b", 1)])
    assert [pairs.position(key) for key in (("a", 2), ("a", 10), ("b", 1))] == [0.0, 0.5, 1.0]


def test_one_key_has_a_place():
    assert Axis([(5,), (5,)]).position((5,)) == 0.0
    assert Axis([(float("nan"),), (1.0,)]).position((float("nan"),)) == 1.0


spans = st.tuples(st.integers(0, 20), st.integers(0, 6)).map(
    lambda s: (s[0] / 26, (s[0] + s[1]) / 26)
)


@given(st.lists(st.lists(spans, min_size=1, max_size=4), min_size=1, max_size=5))
def test_overlap_counts_runs(runs):
    found = overlap(runs)

    def depth(position: float) -> int:
        return sum(any(low <= position <= high for low, high in run) for run in runs)

    ends = sorted({end for run in runs for span in run for end in span})
    assert found.deepest == max(map(depth, ends))
    for start, stop, deep in found.stretches:
        if start < stop:
            assert deep == depth((start + stop) / 2)
    drawn = visible(found)
    assert (drawn[0].start, drawn[-1].stop) == (0.0, 1.0)
    assert all(a.stop == b.start for a, b in itertools.pairwise(drawn))


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=200))
def test_periods_hold_every_event_once(offsets):
    times = [reports.START + timedelta(milliseconds=ms) for ms in sorted(offsets)]
    history = [reports.event(n, time=time) for n, time in enumerate(times, start=1)]
    found = periods(history)
    assert len(found) <= MAX_PERIODS
    assert [event for period in found for event in period.events] == history
    assert found[0].start == times[0]
    assert sum(period.bytes_committed for period in found) == sum(e.bytes_added for e in history)


def test_periods_of_nothing():
    assert periods([]) == []


def test_a_bucket_of_one_key_is_drawn():
    file = File(0, 1, 10, ("k",), ("k",))
    html = page(reports.figures(buckets=(Bucket("bucket 0", ((file,), (file,))),)))
    assert "up to 2 runs hold the same keys" in html


# --------------------------------------------------------------------------------------------- colours


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_contrast(scheme):
    blocks = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    colours = dict(re.findall(r"--(\w+): (#\w{6})", blocks[scheme]))
    for ground in ("page", "card"):
        for text in ("text", "muted"):
            assert contrast(colours[text], colours[ground]) >= 4.5
        for shape in ("newest", "between", "oldest", "commit", "rewrite", "change"):
            assert contrast(colours[shape], colours[ground]) >= 3
    for shade in "12345":
        assert contrast(colours[f"on{shade}"], colours[f"deep{shade}"]) >= 4.5
