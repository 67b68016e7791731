"""What was done over time, and how much of it was told to followers: bars of a bounded number of periods."""

from collections.abc import Sequence

from lsmerge.report import wording
from lsmerge.report.drawing import Bar, chart, legend
from lsmerge.report.figures import Event
from lsmerge.report.markup import Content, Markup, element
from lsmerge.report.periods import Period, periods


def timeline(history: Sequence[Event]) -> Content:
    """Bytes that commits and rewrites wrote, period by period."""
    found = periods(history)
    if not found:
        return element("p", "Nothing was committed yet.")
    bars = [
        Bar(
            (("commit", period.bytes_committed), ("rewrite", period.bytes_rewritten)),
            _told(period),
        )
        for period in found
    ]
    highest = wording.size(max(bar.total for bar in bars))
    return [
        legend(
            ("commit", "written by commits"),
            ("rewrite", "written anew by compaction, rescale, sort"),
        ),
        element("p", f"highest bar: {highest}", class_="facts"),
        chart(bars, f"Bytes written over time, up to {highest} in one period"),
        _times(found),
    ]


def changelog(history: Sequence[Event], producer: str) -> Content:
    """Changes told to followers, period by period."""
    found = periods(history)
    rows, size = (
        sum(getattr(period, name) for period in found)
        for name in ("changelog_rows", "changelog_bytes")
    )
    if producer == "none" or not found:
        written = sum(period.rows_committed for period in found)
        return element(
            "p",
            f"No producer is set, so there are no changelog files: followers read the {wording.number(written)} rows "
            "that commits wrote.",
        )
    bars = [Bar((("change", p.changelog_rows),), _changes_told(p)) for p in found]
    highest = wording.number(max(bar.total for bar in bars))
    return [
        element(
            "p",
            f"Producer {producer}: {wording.number(rows)} changes in {wording.size(size)}; highest bar: "
            f"{highest} changes",
            class_="facts",
        ),
        chart(bars, f"Changes over time, up to {highest} in one period"),
        _times(found),
    ]


def _told(period: Period) -> str:
    kinds: dict[str, int] = {}
    for event in period.events:
        kinds[event.kind] = kinds.get(event.kind, 0) + 1
    what = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "nothing"
    sizes = f"{wording.size(period.bytes_committed)} committed, {wording.size(period.bytes_rewritten)} written anew"
    return f"{wording.moment(period.start)}: {what}; {sizes}"


def _changes_told(period: Period) -> str:
    changes = wording.counted(period.changelog_rows, "change")
    return f"{wording.moment(period.start)}: {changes}, {wording.size(period.changelog_bytes)}"


def _times(found: Sequence[Period]) -> Markup:
    first, last = found[0].events[0].time, found[-1].events[-1].time
    return element(
        "p",
        element("span", wording.moment(first)),
        element("span", "UTC", class_="scale"),
        element("span", wording.moment(last)),
        class_="ends",
    )
