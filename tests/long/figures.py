"""What an experiment found, and how experiments are run side by side and shown as a table."""

import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any


@dataclass
class Tally:
    """How much was tried, what else there is to say of it in numbers, and every violation."""

    tried: int = 0
    notes: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    skipped: str = ""

    def add(self, other: "Tally") -> None:
        self.tried += other.tried
        self.notes.update(other.notes)
        self.violations += other.violations
        self.skipped = self.skipped or other.skipped

    def attempt(self, what: object, check: Callable[[], Any]) -> Any:
        """Count a try; what its check raises is a violation, told with what was tried."""
        self.tried += 1
        try:
            return check()
        except Exception:  # noqa: BLE001 - whatever a try raises is a violation
            self.violations.append(f"{what}: {traceback.format_exc(limit=-2)}")
            return None


Work = Callable[..., Tally]


@dataclass(frozen=True)
class Experiment:
    """One row of the table: parts that can run side by side, each a call of `work`."""

    id: str
    what: str
    work: Work
    parts: Sequence[tuple[Any, ...]]
    alone: bool = False
    """Measures speed, or needs the machine for itself."""


@dataclass(frozen=True)
class Row:
    """What is printed of an experiment."""

    experiment: Experiment
    tally: Tally
    seconds: float

    @property
    def cells(self) -> tuple[str, ...]:
        notes = ", ".join(f"{count:,} {name}" for name, count in sorted(self.tally.notes.items()))
        what = f"{self.experiment.what}{'; ' if notes else ''}{notes}"
        if self.tally.skipped:
            what = f"{what}; not run: {self.tally.skipped}"
        found = f"{len(self.tally.violations):,}"
        return self.experiment.id, what, f"{self.tally.tried:,}", found, f"{self.seconds:,.0f} s"


HEAD = ("id", "what was tried", "tries", "violations", "time")


def run_all(experiments: Iterable[Experiment], jobs: int) -> Iterator[Row]:
    """Run experiments one after the other, the parts of each on `jobs` processes."""
    for experiment in experiments:
        began = time.monotonic()
        total = Tally()
        with ProcessPoolExecutor(
            1 if experiment.alone else jobs, mp_context=get_context("spawn")
        ) as pool:
            futures = [pool.submit(experiment.work, *part) for part in experiment.parts]
            for part, future in zip(experiment.parts, futures, strict=True):
                total.add(_tally_of(part, future))
        yield Row(experiment, total, time.monotonic() - began)


def _tally_of(part: tuple[Any, ...], future: Future[Tally]) -> Tally:
    try:
        return future.result()
    except Exception:  # noqa: BLE001 - whatever a part raises is a violation
        return Tally(violations=[f"part {part}: {traceback.format_exc()}"])


def as_markdown(rows: Iterable[Row]) -> str:
    """The table, for a terminal and for documents alike."""
    lines = [HEAD, *(row.cells for row in rows)]
    head, *others = (f"| {' | '.join(cells)} |" for cells in lines)
    return "\n".join([head, f"|{'---|' * len(HEAD)}", *others])
