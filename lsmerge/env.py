"""The outside world as one value: clock, identifiers, randomness, sleep.

Nothing else in lsmerge reads a clock or draws a random number, so a schedule can be replayed from a seed.
"""

import os
import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass


def _cores() -> int:
    """What this process may use, which on a shared machine is less than what it has.

    `OMP_NUM_THREADS` says how many threads libraries may start, to Arrow as well; Spark sets it for each task. Of a
    list for nested levels the first number counts, and 0 says nothing.
    """
    has_affinity = hasattr(os, "sched_getaffinity")
    found = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return min(found, int(limit) or found) if limit.isdecimal() else found


CORES = max(1, min(8, _cores()))
# Where tests end this process, or make it fail: `failpoints.py` knows the names.
FAILPOINT = os.environ.get("LSMERGE_FAILPOINT")


def in_forked_processes(work: Callable[[], None]) -> None:
    """Have every process that is forked from this one do `work` first. Where there are no forks, nothing happens."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=work)


@dataclass(frozen=True, slots=True)
class Env:
    """Where time, names and chance come from."""

    now_ms: Callable[[], int]
    new_id: Callable[[], str]
    random: random.Random
    sleep: Callable[[float], None]

    @classmethod
    def system(cls) -> "Env":
        """The real clock, random identifiers, the operating system's entropy."""
        return cls(
            now_ms=lambda: time.time_ns() // 1_000_000,
            new_id=lambda: uuid.uuid4().hex,
            random=random.SystemRandom(),
            sleep=time.sleep,
        )

    @classmethod
    def seeded(cls, seed: int, start_ms: int = 1_700_000_000_000) -> "Env":
        """A reproducible world: time advances by one millisecond a reading, sleeping takes none."""
        source = random.Random(seed)  # noqa: S311 - reproducible on purpose
        ticks = iter(range(start_ms, start_ms + 2**40))
        return cls(
            now_ms=lambda: next(ticks),
            new_id=lambda: f"{source.getrandbits(128):032x}",
            random=source,
            sleep=lambda _seconds: None,
        )
