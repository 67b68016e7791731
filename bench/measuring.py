"""Taking time on a machine that others use too.

Works are taken in turn, and the best of each counts, since others only ever add to it. Beside the clock there is
processor time, of all threads and of the kernel on their behalf, which waiting for others does not change.
"""

import gc
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

Work = Callable[[], object]


@dataclass(frozen=True)
class Spent:
    """Seconds of the processors and on the clock."""

    processor: float
    clock: float


def spent(work: Work) -> Spent:
    """What one call takes; garbage of earlier calls is collected before."""
    gc.collect()
    processor, clock = time.process_time(), time.perf_counter()
    work()
    return Spent(time.process_time() - processor, time.perf_counter() - clock)


def best(samples: list[Spent]) -> Spent:
    return Spent(min(s.processor for s in samples), min(s.clock for s in samples))


def in_turn(works: Mapping[str, Work], repeat: int) -> dict[str, Spent]:
    """The best of `repeat` calls of each, after one of each that does not count."""
    samples: dict[str, list[Spent]] = {name: [] for name in works}
    for number in range(repeat + 1):
        for name, work in works.items():
            taken = spent(work)
            if number:
                samples[name].append(taken)
    return {name: best(taken) for name, taken in samples.items()}


def spent_below(work: Work) -> Spent:
    """What one call takes, with the processes that this one started (Linux)."""
    before, clock = _used_below(os.getpid()), time.perf_counter()
    work()
    taken = time.perf_counter() - clock
    return Spent(_seconds_between(before, _used_below(os.getpid())), taken)


@dataclass(frozen=True)
class Used:
    """What a process has used so far, in ticks: itself, and those it started that ended and that it waited for."""

    own: int = 0
    ended: int = 0


def _seconds_between(before: Mapping[int, Used], after: Mapping[int, Used]) -> float:
    """What processes used meanwhile; one that ended is seen in what its parent waited for, or not at all."""
    own = sum(used.own - before.get(pid, Used()).own for pid, used in after.items())
    ended = sum(used.ended - before.get(pid, Used()).ended for pid, used in after.items())
    known = sum(used.own + used.ended for pid, used in before.items() if pid not in after)
    return (own + max(0, ended - known)) / os.sysconf("SC_CLK_TCK")


def _used_below(root: int) -> dict[int, Used]:
    """What a process and all below it have used so far."""
    used: dict[int, Used] = {}
    below: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        pid = int(entry.parent.name)
        below.setdefault(int(fields[1]), []).append(pid)
        own, ended = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
        used[pid] = Used(own, ended)
    tree = [root]
    for pid in tree:
        tree += below.get(pid, [])
    return {pid: used[pid] for pid in tree if pid in used}
