"""History as a bounded number of periods of equal length: pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lsmerge.report.figures import Event

MAX_PERIODS = 60


@dataclass(frozen=True, slots=True)
class Period:
    """What happened from a time on, up to the next period."""

    start: datetime
    events: tuple[Event, ...]

    @property
    def bytes_committed(self) -> int:
        return sum(event.bytes_added for event in self.events if event.is_commit)

    @property
    def bytes_rewritten(self) -> int:
        return sum(event.bytes_added for event in self.events if not event.is_commit)

    @property
    def rows_committed(self) -> int:
        return sum(event.rows for event in self.events if event.is_commit)

    @property
    def changelog_rows(self) -> int:
        return sum(event.changelog_rows for event in self.events)

    @property
    def changelog_bytes(self) -> int:
        return sum(event.changelog_bytes for event in self.events)


def periods(history: Sequence[Event], at_most: int = MAX_PERIODS) -> list[Period]:
    """The whole time of the history in at most so many periods; commits that fall into one are together."""
    if not history:
        return []
    start, end = history[0].time, history[-1].time
    count = min(at_most, max(1, len(history)))
    length = (end - start) / count or timedelta(milliseconds=1)
    members: list[list[Event]] = [[] for _ in range(count)]
    for event in history:
        members[min(count - 1, int((event.time - start) / length))].append(event)
    return [Period(start + number * length, tuple(events)) for number, events in enumerate(members)]
