"""The pure pick of universal compaction, on the conformance cases and at its edges."""

import json
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from lsmerge.engine.pick import CompactionPlan, PickRules, RunSize, pick, pick_full

CASES = json.loads((Path(__file__).parent / "conformance" / "compaction_pick.json").read_text())
RULES = PickRules(num_levels=6, trigger=5, max_size_amplification_percent=200, size_ratio=1)


@pytest.mark.parametrize("case", CASES["universal_pick"], ids=lambda case: case["fact"])
def test_conformance(case):
    rules = PickRules(
        case["num_levels"],
        case["trigger"],
        case["max_size_amp"],
        case["size_ratio"],
        case["force_l0"],
    )
    plan = pick([RunSize(*run) for run in case["runs"]], rules)
    found = (plan.count, plan.output_level) if plan else (0, None)
    assert found == (case["picked"], case["output_level"])


def test_a_full_pick_takes_all_that_is_not_done():
    top = RunSize(5, 100)
    assert pick_full([], RULES) is None
    assert pick_full([top], RULES) is None
    assert pick_full([RunSize(5, 100, can_forget=True)], RULES) == CompactionPlan(1, 5)
    assert pick_full([RunSize(4, 100)], RULES) == CompactionPlan(1, 5)
    assert pick_full([RunSize(0, 1), top], RULES) == CompactionPlan(2, 5)


def test_level_zero_below_a_pick_joins_up_to_the_next_level():
    runs = [RunSize(0, 1)] * 4 + [RunSize(0, 1000), RunSize(3, 2000), RunSize(5, 9_000_000)]
    assert pick(runs, RULES) == CompactionPlan(6, 3)


def test_runs_of_unlike_size_wait_where_there_are_levels_for_them():
    runs = [
        RunSize(0, 1),
        RunSize(4, 3),
        RunSize(5, 9),
        RunSize(6, 27),
        RunSize(7, 81),
        RunSize(8, 900),
    ]
    rules = replace(RULES, num_levels=9)
    assert pick(runs, rules) == CompactionPlan(2, 4)
    assert pick(runs, replace(rules, most_runs=8)) is None
    many = [RunSize(level, 3**level) for level in range(9)]
    assert pick(many, replace(rules, most_runs=8)) == CompactionPlan(5, 4)


GATHERING = replace(RULES, most_runs=5, gathered=4, most_waiting=7)


@pytest.mark.parametrize("young", [1, 2, 3])
def test_few_young_runs_wait_for_more_of_their_kind(young):
    runs = [RunSize(0, 1)] * young + [RunSize(3, 9), RunSize(4, 30), RunSize(5, 900)]
    assert pick(runs, GATHERING) is None
    more = [RunSize(0, 1)] * 4 + runs[young:]
    assert pick(more, GATHERING) == CompactionPlan(4, 2)


def test_young_runs_that_would_join_an_older_one_do_not_wait():
    runs = [RunSize(0, 1)] * 2 + [RunSize(3, 2), RunSize(4, 30), RunSize(5, 900)]
    assert pick(runs, GATHERING) == CompactionPlan(3, 3)


def test_young_runs_do_not_wait_where_no_level_is_free():
    runs = [RunSize(0, 1)] * 2 + [RunSize(level, 10**level) for level in range(1, 6)]
    assert pick(runs, GATHERING) == CompactionPlan(3, 1)


def test_young_runs_do_not_wait_beyond_their_limit():
    runs = [RunSize(0, 1)] * 3 + [RunSize(level, 10**level) for level in (3, 4, 5)]
    assert pick(runs, GATHERING) is None
    assert pick(runs, replace(GATHERING, most_waiting=5)) == CompactionPlan(3, 2)


def test_amplification_does_not_wait():
    runs = [RunSize(0, 1)] * 2 + [RunSize(3, 9), RunSize(4, 30), RunSize(5, 20)]
    assert pick(runs, GATHERING) == CompactionPlan(5, 5)


def test_a_long_stream_is_rewritten_less_with_more_levels():
    """Bytes written for each byte committed, by 500 commits into a table of 500 times their size."""
    assert rewritten(PickRules(6, 5, 200, 1, most_runs=5), 500).bytes_written > 9
    assert rewritten(PickRules(9, 5, 200, 1, most_runs=8), 500).bytes_written < 5


@pytest.mark.parametrize("commits", [50, 300])
def test_a_stream_is_compacted_less_where_young_runs_gather(commits):
    eager = rewritten(replace(RULES, most_runs=5), commits, share=50)
    patient = rewritten(GATHERING, commits, share=50)
    assert patient.compactions < 0.6 * eager.compactions
    assert patient.bytes_written < 0.9 * eager.bytes_written
    assert patient.most_runs < 8
    assert patient.mean_runs < eager.mean_runs + 0.5


class Rewritten(NamedTuple):
    """What a stream costs: bytes for each byte committed, compactions, and the runs that are left after commits."""

    bytes_written: float
    compactions: int
    mean_runs: float
    most_runs: int


def rewritten(rules, commits, share=500):
    """Commits of one byte into a table of `share`."""
    runs, written, found = [RunSize(rules.top_level, share)], [], []
    for _ in range(commits):
        runs.insert(0, RunSize(0, 1))
        plan = pick(runs, rules)
        if plan is not None:
            size = sum(run.size_bytes for run in runs[: plan.count])
            runs[: plan.count] = [RunSize(plan.output_level, size)]
            written.append(size)
        found.append(len(runs))
    return Rewritten(sum(written) / commits, len(written), sum(found) / commits, max(found))
