"""The page as a whole."""

from lsmerge.report import tables, wording
from lsmerge.report.figures import Figures
from lsmerge.report.markup import Content, Markup, element
from lsmerge.report.style import STYLE
from lsmerge.report.timeline_view import changelog, timeline
from lsmerge.report.tree_view import trees

# The page asks nobody for anything, and runs nothing, whatever is in it.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(figures: Figures) -> str:
    """One HTML document."""
    options = dict(figures.options)
    body = element(
        "main",
        _header(figures),
        tables.tiles(figures),
        _section(
            "Trees",
            "One per bucket: sorted runs, the newest on top; keys from left to right.",
            trees(figures.buckets),
        ),
        _section("Timeline", "What was written, commit by commit.", timeline(figures.history)),
        _section("Amplification", None, tables.amplification(figures)),
        _section(
            "Changelog", None, changelog(figures.history, options.get("changelog-producer", "none"))
        ),
        _section(
            "Definition and snapshots",
            None,
            [tables.definition(figures), tables.snapshots(figures.history)],
        ),
    )
    return f"<!doctype html>\n{element('html', _head(figures), element('body', body), lang='en')}\n"


def _head(figures: Figures) -> Markup:
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("link", rel="icon", href="data:,"),
        element("title", f"{_name(figures)} · lsmerge"),
        element("style", Markup(STYLE)),
    )


def _header(figures: Figures) -> Markup:
    engine = dict(figures.options).get("merge-engine", "deduplicate")
    key = ", ".join(figures.primary_key)
    parts = f", partitioned by {', '.join(figures.partition_by)}" if figures.partition_by else ""
    if figures.history:
        last = figures.history[-1]
        when = f"snapshot {last.id} of {wording.moment(last.time)} UTC"
    else:
        when = "no snapshot yet"
    return element(
        "header",
        element("h1", _name(figures)),
        element("p", figures.uri, class_="uri"),
        element("p", f"{engine}, key {key}{parts}; {when}"),
    )


def _name(figures: Figures) -> str:
    return figures.uri.rstrip("/").rpartition("/")[2] or figures.uri


def _section(title: str, about: str | None, content: Content) -> Markup:
    name = title.lower().replace(" ", "-")
    heading = element("h2", title, id=name)
    return element(
        "section",
        heading,
        None if about is None else element("p", about),
        content,
        aria_labelledby=name,
    )
