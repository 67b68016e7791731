"""How experiments are run: each part in a process of its own, so many at a time, whichever experiment it belongs to.

So no core waits for the last part of an experiment. What lasts a fixed time runs beside all others at a low priority,
what measures speed when all others have ended. A part that ends its process, or does not end, is a violation.
"""

import contextlib
import gc
import multiprocessing
import os
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from typing import Any

from tests.long.figures import Experiment, Place, Row, Tally

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["tests.long.programme", "tests.long.preloaded"])
LOW_PRIORITY = 5
LOOK_AFTER_S = 10


@dataclass
class Running:
    """A part, and the process that does it."""

    experiment: Experiment
    part: tuple[Any, ...]

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        self.told, theirs = _SERVER.Pipe(duplex=False)
        niceness = LOW_PRIORITY if self.experiment.place is Place.BESIDE else 0
        work = (theirs, niceness, self.experiment.work, self.part)
        self._process: ForkServerProcess = _SERVER.Process(target=_do, args=work)
        self._process.start()
        theirs.close()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def tally(self) -> Tally:
        """What came of it, once it has told or is gone."""
        try:
            return self.told.recv()
        except EOFError:
            self._process.join()
            ended = f"ended with {self._process.exitcode}"
            return Tally(violations=[f"part {self.part}: its process {ended}"])
        finally:
            self._process.join()

    def give_up(self) -> Tally:
        """End it: nothing takes that long."""
        self._process.kill()
        self._process.join()
        return Tally(violations=[f"part {self.part}: hangs after {self.seconds:.0f} s"])


def _do(tell: Connection, niceness: int, work: Callable[..., Tally], part: tuple[Any, ...]) -> None:
    """In a process of its own, forked from one whose objects are frozen."""
    gc.unfreeze()
    os.nice(niceness)
    try:
        found = work(*part)
    except Exception:  # noqa: BLE001 - whatever a part raises is a violation
        found = Tally(violations=[f"part {part}: {traceback.format_exc()}"])
    tell.send(found)


@dataclass
class Progress:
    """What is known of an experiment while its parts run."""

    left: int
    tally: Tally = field(default_factory=Tally)
    seconds: float = 0


def run_all(experiments: Sequence[Experiment], jobs: int, most_s: float) -> Iterator[Row]:
    """Run experiments; each is told of when it is done. Nothing may take longer than `most_s`."""
    together = [e for e in experiments if e.place is not Place.ALONE]
    yield from _run(together, jobs, most_s)
    for experiment in experiments:
        if experiment.place is Place.ALONE:
            yield from _run([experiment], 1, most_s)


def _run(experiments: Sequence[Experiment], jobs: int, most_s: float) -> Iterator[Row]:
    progress = {e.id: Progress(len(e.parts)) for e in experiments}
    beside = [(e, part) for e in experiments if e.place is Place.BESIDE for part in e.parts]
    # What is in few pieces begins, so that no core waits for a long one in the end.
    others = sorted((e for e in experiments if e.place is not Place.BESIDE), key=_num_parts)
    waiting = deque((e, part) for e in others for part in e.parts)
    running = [Running(*pair) for pair in beside]
    with contextlib.ExitStack() as ending:
        ending.callback(lambda: [one.give_up() for one in running])
        while running or waiting:
            while waiting and _count(running) < jobs:
                running.append(Running(*waiting.popleft()))
            wait([one.told for one in running], timeout=LOOK_AFTER_S)
            for one in list(running):
                found = _ended(one, most_s)
                if found is None:
                    continue
                running.remove(one)
                known = progress[one.experiment.id]
                known.left -= 1
                known.seconds += one.seconds
                known.tally.add(found)
                if known.left == 0:
                    yield Row(one.experiment, known.tally, known.seconds)


def _num_parts(experiment: Experiment) -> int:
    return len(experiment.parts)


def _count(running: Sequence[Running]) -> int:
    return sum(one.experiment.place is not Place.BESIDE for one in running)


def _ended(one: Running, most_s: float) -> Tally | None:
    if one.told.poll():
        return one.tally()
    return one.give_up() if one.seconds > most_s else None
