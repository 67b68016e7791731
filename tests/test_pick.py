"""The pure pick of universal compaction, on the conformance cases and at its edges."""

import json
from dataclasses import replace
from pathlib import Path

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


def test_a_long_stream_is_rewritten_less_with_more_levels():
    """Bytes written for each byte committed, by 500 commits into a table of 500 times their size."""
    assert rewritten(PickRules(6, 5, 200, 1, most_runs=5)) > 9
    assert rewritten(PickRules(9, 5, 200, 1, most_runs=8)) < 5


def rewritten(rules, commits=500):
    runs, written = [RunSize(rules.top_level, commits)], 0
    for _ in range(commits):
        runs.insert(0, RunSize(0, 1))
        plan = pick(runs, rules)
        if plan is not None:
            size = sum(run.size_bytes for run in runs[: plan.count])
            runs[: plan.count] = [RunSize(plan.output_level, size)]
            written += size
    return written / commits
