"""How the reliability programme runs its parts: nothing that one of them does is lost, or stops the others."""

import os
import threading

import pytest

from tests.long import running
from tests.long.figures import Experiment, Place, Tally, as_markdown


def count(number: int) -> Tally:
    return Tally(tried=number)


def end(_number: int) -> Tally:
    os._exit(7)


def fail(_number: int) -> Tally:
    raise ValueError("on purpose")


def hang(_number: int) -> Tally:
    threading.Event().wait()
    raise AssertionError


def run(*experiments, most_s=600.0):
    rows = running.run_all(experiments, 2, most_s)
    return {row.experiment.id: row for row in rows}


def test_parts_add_up_wherever_they_run():
    parts = [(1,), (2,), (3,)]
    found = run(*(Experiment(place.name, "counting", count, parts, place) for place in Place))
    assert {name: row.tally.tried for name, row in found.items()} == dict.fromkeys(
        [place.name for place in Place], 6
    )
    assert "| TOGETHER | counting | 6 | 0 |" in as_markdown([found["TOGETHER"]], ["last"])


@pytest.mark.parametrize(("work", "told"), [(end, "ended with 7"), (fail, "on purpose")])
def test_a_part_that_breaks_is_a_violation_and_stops_no_other(work, told):
    found = run(Experiment("bad", "", work, [(1,)]), Experiment("good", "", count, [(1,)]))
    assert [told in violation for violation in found["bad"].tally.violations] == [True]
    assert found["good"].tally.violations == []


def test_a_part_that_hangs_is_given_up(monkeypatch):
    monkeypatch.setattr(running, "LOOK_AFTER_S", 0.05)
    found = run(Experiment("bad", "", hang, [(1,)]), most_s=0.1)
    assert ["hangs" in violation for violation in found["bad"].tally.violations] == [True]
