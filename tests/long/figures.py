"""What an experiment is and found, and how that is shown as a table."""

import enum
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Tally:
    """How much was tried, what else there is to say of it in numbers, and every violation."""

    tried: int = 0
    notes: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    skipped: str = ""
    places: Counter[str] = field(default_factory=Counter)
    """How often each of the places was tried that there is a list of."""

    def add(self, other: "Tally") -> None:
        self.tried += other.tried
        self.notes.update(other.notes)
        self.violations += other.violations
        self.skipped = self.skipped or other.skipped
        self.places.update(other.places)

    def attempt(self, what: object, check: Callable[[], Any]) -> Any:
        """Count a try; what its check raises is a violation, told with what was tried."""
        self.tried += 1
        try:
            return check()
        except Exception:  # noqa: BLE001 - whatever a try raises is a violation
            self.violations.append(f"{what}: {traceback.format_exc(limit=-6)}")
            return None


Work = Callable[..., Tally]


class Place(enum.Enum):
    """Beside what an experiment runs."""

    TOGETHER = "its parts take their turns with those of others"
    BESIDE = "it lasts a fixed time, at a low priority beside all of them"
    ALONE = "it measures speed, and has the machine for itself"


@dataclass(frozen=True)
class Experiment:
    """One row of the table: parts that can run side by side, each a call of `work`."""

    id: str
    what: str
    work: Work
    parts: Sequence[tuple[Any, ...]]
    place: Place = Place.TOGETHER


@dataclass(frozen=True)
class Row:
    """What is printed of an experiment."""

    experiment: Experiment
    tally: Tally
    seconds: float
    """Of all parts, one after the other."""

    @property
    def cells(self) -> tuple[str, ...]:
        notes = ", ".join(f"{count:,} {name}" for name, count in sorted(self.tally.notes.items()))
        what = f"{self.experiment.what}{'; ' if notes else ''}{notes}"
        if self.tally.places:
            (rarest, least), *_ = sorted(self.tally.places.items(), key=lambda pair: pair[1])
            what = f"{what}; {len(self.tally.places)} places, the rarest ({rarest}) {least} times"
        if self.tally.skipped:
            what = f"{what}; not run: {self.tally.skipped}"
        found = f"{len(self.tally.violations):,}"
        return self.experiment.id, what, f"{self.tally.tried:,}", found, f"{self.seconds:,.0f} s"


HEAD = ("id", "what was tried", "tries", "violations", "time")


def as_markdown(rows: Iterable[Row], last: Sequence[str]) -> str:
    """The table, with a line below it that is no experiment."""
    lines = [HEAD, *(row.cells for row in rows), last]
    head, *others = (f"| {' | '.join(cells)} |" for cells in lines)
    return "\n".join([head, f"|{'---|' * len(HEAD)}", *others])
