"""The judge is judged: the model gives the answers of the conformance cases of its engines."""

import pytest

from lsmerge.options import resolve
from tests.model import Model
from tests.model_engines import Change, merge_order
from tests.test_conformance import CASES

STEPS = {"write", "compact", "expect_rows", "expect_changelog"}
# Python's numbers neither overflow nor round as these columns do; the nested functions have a judge of
# their own in tests/test_functions.py, and defaults are no matter of an engine.
NOT_MODELLED = (
    *("on-overflow", "float32", "decimal", "default-value", "distinct", "nested", "array<", "map<"),
    *("'count'", "collect", "rbm32", "rbm64"),
)


def is_judged(case) -> bool:
    if not all(step.keys() <= STEPS for step in case["steps"]):
        return False
    if any("default-value" in name for name in case["options"]):
        return False
    options = resolve(case["options"])
    if options.get("changelog-producer") == "full-compaction":
        return False  # what is told depends on the schedule: tests/test_changelog_law.py judges it
    if options.get("merge-engine", "deduplicate") == "deduplicate":
        return True
    changes = any("expect_changelog" in step for step in case["steps"])
    return not changes and not any(word in f"{case}" for word in NOT_MODELLED)


JUDGED = [id_ for id_, case in CASES.items() if is_judged(case)]


def model_of(case) -> Model:
    columns = [name for name, _ in case["columns"]]
    options, partition_by = resolve(case["options"]), case.get("partition_keys", ())
    return Model(columns, case["primary_key"], options, partition_by=partition_by)


@pytest.mark.parametrize("case_id", JUDGED)
def test_model_conforms(case_id):
    case = CASES[case_id]
    model, seen = model_of(case), 0
    for number, step in enumerate(case["steps"], start=1):
        if "write" in step:
            rows = [(kind, dict(zip(model.columns, v, strict=True))) for kind, v in step["write"]]
            model.commit([Change(kind, row) for kind, row in rows], number)
        elif "compact" in step:
            model.publish(number)
        elif "expect_rows" in step:
            found = [list(row.values()) for row in model.rows().values()]
            assert sorted(found, key=repr) == sorted(step["expect_rows"], key=repr)
        else:
            changes = [change for _, change in model.changelog(start=seen + 1)]
            found = [[change.kind, list(change.row.values())] for change in changes]
            assert sorted(found, key=repr) == sorted(step["expect_changelog"], key=repr)
            seen = number


def test_most_cases_are_judged():
    assert len(JUDGED) > 150


def test_every_snapshot_stays_as_it_was():
    model = Model(["k", "v"], ["k"])
    model.commit([Change("+I", {"k": 1, "v": "a"})], 1)
    model.publish(2)
    model.commit([Change("-D", {"k": 1}), Change("+I", {"k": 2, "v": "b"})], 3)
    assert model.rows(1) == model.rows(2) == {(1,): {"k": 1, "v": "a"}}
    assert model.rows(3) == model.rows() == {(2,): {"k": 2, "v": "b"}}
    assert [(id_, change.kind) for id_, change in model.changelog(2)] == [(3, "-D"), (3, "+I")]
    assert [(id_, change.kind) for id_, change in model.changelog(1, 2)] == [(1, "+I")]


def test_null_is_oldest_both_ways_and_ties_keep_arrival():
    values = [(2, "a"), (None, "b"), (1, "c"), (2, "d"), (None, "e")]
    changes = [Change("+I", {"s": s, "v": v}) for s, v in values]
    ascending = [c.row["v"] for c in merge_order(changes, ["s"])]
    descending = [c.row["v"] for c in merge_order(changes, ["s"], descending=True)]
    assert (ascending, descending) == (list("becad"), list("beadc"))
