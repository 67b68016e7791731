"""Removals of some columns against a dictionary of the values that each key has."""

import random

import pytest

from lsmerge_native.regroup import filter_rows
from lsmerge_native.removal import VALUE_ANY, VALUE_FIRST, VALUE_LAST, whole_removals
from tests.native.merged_runs import random_runs
from tests.native.test_plan import groups_of
from tests.native.test_regroup import random_flags


def has_value(rule, written):
    """Whether a column has a value, of those written to it: True for one, False for null."""
    if rule == VALUE_ANY:
        return any(written)
    return bool(written) and written[0 if rule == VALUE_FIRST else -1]


def expected_flags(groups, removals, columns):
    flags, row = [], 0
    for group in groups:
        written = [[] for _ in columns]
        for _ in group:
            own = [bool(wrote[row]) for wrote, _, _ in columns]
            others = [
                has_value(rule, values)
                for (_, _, rule), values, mine in zip(columns, written, own, strict=True)
                if not mine
            ]
            is_whole = bool(removals[row]) and not any(others)
            for place, (_, valid, _) in enumerate(columns):
                if is_whole or (removals[row] and own[place]):
                    written[place] = []
                elif own[place] and not removals[row]:
                    written[place].append(bool(valid[row]))
            flags.append(is_whole)
            row += 1
    return bytes(flags)


@pytest.mark.parametrize("seed", range(40))
def test_a_removal_is_whole_if_no_other_column_has_a_value(seed):
    rng = random.Random(seed)
    plan = random_runs(rng).plan
    plan = filter_rows(plan, random_flags(rng, plan.num_rows))
    removals = random_flags(rng, plan.num_rows)
    columns = [
        (
            random_flags(rng, plan.num_rows),
            random_flags(rng, plan.num_rows),
            rng.choice([VALUE_ANY, VALUE_FIRST, VALUE_LAST]),
        )
        for _ in range(rng.randrange(5))
    ]
    found = bytes(whole_removals(plan, removals, columns))
    assert found == expected_flags(groups_of(plan), removals, columns)


def test_wrong_arguments_are_refused():
    plan = random_runs(random.Random(1)).plan
    flags = bytes(plan.num_rows)
    with pytest.raises(ValueError, match="removals: 1 flags"):
        whole_removals(plan, b"\1", [])
    with pytest.raises(ValueError, match="valid: 0 flags"):
        whole_removals(plan, flags, [(flags, b"", VALUE_ANY)])
    with pytest.raises(ValueError, match="column 0: no rule 3"):
        whole_removals(plan, flags, [(flags, flags, 3)])
