"""Which runs to compact: a pure function from sorted runs to a plan.

Universal compaction. Runs are ordered newest first; a pick is always a prefix, so that a compacted run stays older
than what is above it and newer than what is below. Reasons, in order:

1. size amplification: everything but the oldest run has grown beyond a share of it -> take all;
2. size ratio: neighbours of similar size, starting from the newest;
3. number of runs: more than there may be -> enough of them to get back to the trigger.

The third is a last resort: it joins runs of unlike size, and would do so after every commit once the levels are full.
With room for more runs than the trigger, those that wait grow alike and are joined by size.

Few level-0 runs are not worth a compaction of their own: what it writes is soon written again, and most of what it
takes does not depend on how little that is. They wait for more of their kind while there is room for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class RunSize(NamedTuple):
    """What the pick needs to know of a run."""

    level: int
    size_bytes: int
    can_forget: bool = False  # holds delete markers that the oldest run need not keep


@dataclass(frozen=True, slots=True)
class PickRules:
    """The options that steer the pick."""

    num_levels: int
    trigger: int
    max_size_amplification_percent: int
    size_ratio: int
    force_level_zero: bool = False
    most_runs: int = 0  # how many there may be; the trigger if that is more
    gathered: int = 0  # level-0 runs that are compacted together rather than fewer
    most_waiting: int = 0  # how many runs there may be while level 0 gathers

    @property
    def top_level(self) -> int:
        return self.num_levels - 1


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """Merge the `count` newest runs into `output_level`."""

    count: int
    output_level: int


def pick(runs: Sequence[RunSize], rules: PickRules) -> CompactionPlan | None:
    """What to compact now, if anything."""
    count = _by_amplification(runs, rules) or _by_shape(runs, rules) or _by_force(runs, rules)
    return _plan(runs, count, rules) if count else None


def pick_full(runs: Sequence[RunSize], rules: PickRules) -> CompactionPlan | None:
    """Everything into the top level; None if it is there already and nothing in it can be forgotten."""
    if not runs:
        return None
    if len(runs) == 1 and runs[0].level == rules.top_level and not runs[0].can_forget:
        return None
    return CompactionPlan(len(runs), rules.top_level)


def _by_amplification(runs: Sequence[RunSize], rules: PickRules) -> int:
    if len(runs) < rules.trigger:
        return 0
    newer = sum(run.size_bytes for run in runs[:-1])
    limit = rules.max_size_amplification_percent * runs[-1].size_bytes
    return len(runs) if 100 * newer > limit else 0


def _by_shape(runs: Sequence[RunSize], rules: PickRules) -> int:
    count = _by_size_ratio(runs, rules)
    if _gathers(runs, count, rules):
        return 0
    return count or _by_run_count(runs, rules)


def _gathers(runs: Sequence[RunSize], count: int, rules: PickRules) -> bool:
    """Whether level 0 waits for more runs: nothing above it would be joined, and a level is free for the result."""
    young = sum(run.level == 0 for run in runs)
    has_room = young < len(runs) <= rules.most_waiting and runs[young].level > 1
    return has_room and count <= young < rules.gathered


def _by_size_ratio(runs: Sequence[RunSize], rules: PickRules) -> int:
    if len(runs) < rules.trigger:
        return 0
    count = _extend(runs, 1, rules)
    return count if count > 1 else 0


def _by_run_count(runs: Sequence[RunSize], rules: PickRules) -> int:
    if len(runs) <= max(rules.trigger, rules.most_runs):
        return 0
    return _extend(runs, len(runs) - rules.trigger + 1, rules)


def _by_force(runs: Sequence[RunSize], rules: PickRules) -> int:
    return sum(run.level == 0 for run in runs) if rules.force_level_zero else 0


def _extend(runs: Sequence[RunSize], count: int, rules: PickRules) -> int:
    """Take the next run while it is not much larger than all that was taken."""
    taken = sum(run.size_bytes for run in runs[:count])
    while count < len(runs) and taken * (100 + rules.size_ratio) >= 100 * runs[count].size_bytes:
        taken += runs[count].size_bytes
        count += 1
    return count


def _plan(runs: Sequence[RunSize], count: int, rules: PickRules) -> CompactionPlan:
    """The output goes just below the next run. Level 0 is never an output: then the next run above it joins."""
    output_level = runs[count].level - 1 if count < len(runs) else rules.top_level
    while output_level <= 0 and count < len(runs):
        output_level = runs[count].level
        count += 1
    return CompactionPlan(count, rules.top_level if count == len(runs) else output_level)
