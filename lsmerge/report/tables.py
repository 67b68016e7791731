"""The parts of the page that are tables and figures."""

from collections.abc import Iterable, Sequence

from lsmerge.report import wording
from lsmerge.report.figures import Event, Figures
from lsmerge.report.markup import Content, Markup, element

MAX_ROWS = 50


def tiles(figures: Figures) -> Markup:
    """The table in a few numbers."""
    shown = (
        ("size", wording.size(figures.size_bytes)),
        ("stored rows", wording.number(figures.rows)),
        ("files", wording.number(figures.files)),
        ("buckets", wording.number(len(figures.buckets))),
        ("snapshots", wording.number(len(figures.history))),
        ("read amplification", str(figures.read_amplification)),
        ("write amplification", f"{figures.write_amplification:.1f}"),
        ("space amplification", f"{figures.space_amplification:.1f}"),
    )
    return element(
        "dl",
        [element("div", element("dt", name), element("dd", value)) for name, value in shown],
        class_="tiles",
    )


def amplification(figures: Figures) -> Content:
    """What the three factors mean here, and the buckets in which reads have most to merge."""
    committed, anew = wording.size(figures.bytes_committed), wording.size(figures.bytes_rewritten)
    shares = f"{committed} committed, {anew} written anew"
    worst = sorted(figures.buckets, key=lambda b: (-len(b.runs), -b.space_amplification))[:10]
    return [
        listing(
            "What each byte and each read costs",
            ("factor", "value", "meaning"),
            (
                (
                    "write",
                    f"{figures.write_amplification:.2f}",
                    f"bytes written for each that commits wrote, changelog included: {shares} in all snapshots",
                ),
                (
                    "space",
                    f"{figures.space_amplification:.2f}",
                    "bytes stored for each byte of the oldest runs, an upper estimate",
                ),
                (
                    "read",
                    str(figures.read_amplification),
                    "sorted runs that a read of one key may have to look at, in the worst bucket",
                ),
            ),
        ),
        listing(
            "Buckets in which reads have most to merge",
            ("bucket", "runs", "files", "size", "space"),
            (
                (
                    bucket.name,
                    str(len(bucket.runs)),
                    wording.number(len(bucket.files)),
                    wording.size(bucket.size_bytes),
                    f"{bucket.space_amplification:.2f}",
                )
                for bucket in worst
            ),
        ),
    ]


def snapshots(history: Sequence[Event]) -> Markup:
    """The newest snapshots."""
    newest = history[::-1][:MAX_ROWS]
    return details(
        f"Snapshots: the newest {len(newest)} of {wording.number(len(history))}",
        listing(
            "Newest first",
            ("snapshot", "time (UTC)", "kind", "rows", "new bytes", "files", "removed", "user"),
            (
                (
                    str(event.id),
                    wording.moment(event.time),
                    event.kind,
                    wording.number(event.rows),
                    wording.size(event.bytes_added),
                    wording.number(event.files_added),
                    wording.number(event.files_removed),
                    wording.shortened(event.user or ""),
                )
                for event in newest
            ),
        ),
    )


def definition(figures: Figures) -> Content:
    """Columns, options, tags and consumers."""
    return [
        details("Columns", _pairs("Columns", "column", "type", figures.columns)),
        details("Options", _pairs("Options that were set", "option", "value", figures.options)),
        details("Tags", _pairs("Tags", "tag", "snapshot", figures.tags)),
        details("Consumers", _pairs("Consumers", "consumer", "next snapshot", figures.consumers)),
    ]


def details(summary: str, content: Content) -> Markup:
    """A part that is folded at first."""
    return element("details", element("summary", summary), content)


def listing(caption: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """A table that scrolls by itself where it is too wide."""
    body = [element("tr", [element("td", cell) for cell in row]) for row in rows]
    head = element("tr", [element("th", name, scope="col") for name in header])
    table = element(
        "table", element("caption", caption), element("thead", head), element("tbody", body)
    )
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label=caption)


def _pairs(caption: str, name: str, value: str, pairs: Sequence[tuple[str, object]]) -> Content:
    if not pairs:
        return element("p", "none")
    shown = [(wording.shortened(key), wording.shortened(found)) for key, found in pairs[:MAX_ROWS]]
    more = len(pairs) - len(shown)
    left_out = element("p", f"and {wording.number(more)} more") if more else None
    return [listing(caption, (name, value), shown), left_out]
