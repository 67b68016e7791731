"""A dashboard in real time: events are written as they come, and the table adds them up.

An aggregation table holds one row per minute and page. Writers send increments, never totals, so they read nothing and
any number of them may run. The dashboard follows the changelog: each change says what a counter was and what it is now,
so that totals over all pages are kept by adding the difference.

    python examples/dashboard_counters.py
"""

import random
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyroaring import BitMap

import lsmerge

SCHEMA = pa.schema(
    {
        "minute": pa.int64(),
        "page": pa.string(),
        "views": pa.int64(),
        "revenue": pa.float64(),
        "slowest_ms": pa.int64(),
        "visitors": pa.binary(),  # the set of them, as a bitmap: those who come twice count once
    }
)
OPTIONS = {
    "merge-engine": "aggregation",
    "fields.views.aggregate-function": "sum",
    "fields.revenue.aggregate-function": "sum",
    "fields.slowest_ms.aggregate-function": "max",
    "fields.visitors.aggregate-function": "rbm32",
    "changelog-producer": "lookup",
}
BATCHES, EVENTS_PER_BATCH = 20, 200
PAGES = ("/", "/docs", "/buy")
Event = dict[str, Any]


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="lsmerge-dashboard-") as directory:
        table = lsmerge.create_table(
            Path(directory) / "counters", SCHEMA, primary_key=["minute", "page"], options=OPTIONS
        )
        dashboard, events = Dashboard(), []
        for batch in event_batches():
            table.upsert([increment(event) for event in batch])
            dashboard.catch_up(table)  # in life another process: changelog(follow=True)
            events += batch
        check(table, dashboard, events)
        print(f"{len(events)} events are {table.scan().count()} counters; {dashboard}")


class Dashboard:
    """Views per page over all minutes, kept up to date from changes alone."""

    def __init__(self) -> None:
        self.views: Counter[str] = Counter()

    def catch_up(self, table: lsmerge.Table) -> None:
        """Take in what was committed since the last call; the table remembers how far this reader got."""
        for batch in table.changelog("earliest", consumer="dashboard"):
            for change in batch.select(["_row_kind", "page", "views"]).to_pylist():
                sign = 1 if change["_row_kind"] in ("+I", "+U") else -1
                self.views[change["page"]] += sign * change["views"]

    def __str__(self) -> str:
        return ", ".join(f"{page} {views} views" for page, views in sorted(self.views.items()))


def increment(event: Event) -> Event:
    """The row that one event adds."""
    return {
        "minute": event["at_s"] // 60,
        "page": event["page"],
        "views": 1,
        "revenue": event["revenue"],
        "slowest_ms": event["took_ms"],
        "visitors": BitMap([event["visitor"]]).serialize(),
    }


def event_batches() -> Iterator[list[Event]]:
    """The same events in every run; some are up to three minutes late."""
    draw = random.Random(7)  # noqa: S311 - events of an example
    for number in range(BATCHES):
        yield [drawn_event(draw, number * 30) for _ in range(EVENTS_PER_BATCH)]


def drawn_event(draw: random.Random, now_s: int) -> Event:
    page = draw.choice(PAGES)
    return {
        "at_s": max(0, now_s - draw.choice([0, 0, 0, 180])),
        "page": page,
        "revenue": float(draw.randrange(5, 50)) if page == "/buy" else 0.0,
        "took_ms": draw.randrange(5, 900),
        "visitor": draw.randrange(300),
    }


def check(table: lsmerge.Table, dashboard: Dashboard, events: Iterable[Event]) -> None:
    """Count again, the slow way."""
    for row in table.scan().to_arrow().to_pylist():
        mine = [
            event
            for event in events
            if (event["at_s"] // 60, event["page"]) == (row["minute"], row["page"])
        ]
        assert row["views"] == len(mine)
        assert row["revenue"] == sum(event["revenue"] for event in mine)
        assert row["slowest_ms"] == max(event["took_ms"] for event in mine)
        assert set(BitMap.deserialize(row["visitors"])) == {event["visitor"] for event in mine}
    assert dashboard.views == Counter(event["page"] for event in events)


if __name__ == "__main__":
    main()
