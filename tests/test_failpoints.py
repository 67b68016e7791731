"""K2 and K9, the fast part: a process killed at each failpoint loses nothing, and a vacuum leaves what is needed.

tests/long kills at more passings, under all engines, and at every system call.
"""

import ast
from pathlib import Path

import pytest

import lsmerge
from lsmerge import failpoints
from tests.long import kills, scripts
from tests.long.figures import Tally
from tests.long.stages import scratch, stages

ROOT = Path(__file__).parent.parent / "lsmerge"


def names_in(path: Path) -> list[str]:
    calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return [
        ast.literal_eval(call.args[0])
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id == "failpoint"
    ]


def test_each_failpoint_is_in_one_place_and_in_the_registry():
    found = [name for path in ROOT.rglob("*.py") for name in names_in(path)]
    assert sorted(found) == sorted(failpoints.FAILPOINTS)
    assert len(found) >= 40


@pytest.mark.parametrize("text", ["nothing:kill", "file.after-link", "file.after-link:kill@x"])
def test_a_trigger_that_cannot_be_is_refused(text):
    with pytest.raises(lsmerge.InvalidOptionError, match="LSMERGE_FAILPOINT"):
        failpoints.parse_trigger(text)


def test_a_trigger_fails_once(memory_uri, monkeypatch):
    fuse = failpoints.Fuse(failpoints.parse_trigger("commit.after-manifest:error@2"))
    monkeypatch.setattr(failpoints, "hook", fuse)
    table = lsmerge.create_table(memory_uri, scripts.SCHEMA, "k")
    table.upsert(scripts.rows(1, [1]))
    with pytest.raises(lsmerge.StorageError, match=r"commit\.after-manifest"):
        table.upsert(scripts.rows(2, [2]))
    table.upsert(scripts.rows(3, [3]))
    assert table.scan().to_arrow()["k"].to_pylist() == [1, 3]


def test_a_kill_at_each_failpoint_loses_nothing():
    tally, left = Tally(), set(failpoints.FAILPOINTS)
    with scratch() as root:
        for script in ("races", "whole-life"):
            for stage in stages(script, "deduplicate", root / script):
                for name in sorted(left & stage.passed.keys()):
                    last = stage.passed[name]
                    kills.trigger(stage, f"{name}:kill@{last}", root, tally)
                    left.remove(name)
    assert left == set()
    assert tally.notes["killed"] == len(failpoints.FAILPOINTS)


def test_a_vacuum_takes_what_a_killed_expiry_left(tmp_path, monkeypatch):
    table = lsmerge.create_table(str(tmp_path / "table"), scripts.SCHEMA, "k")
    for number in range(3):
        table.upsert(scripts.rows(number, [number]))
    fuse = failpoints.Fuse(failpoints.parse_trigger("expire.after-mark:error"))
    monkeypatch.setattr(failpoints, "hook", fuse)
    with pytest.raises(lsmerge.StorageError):
        table.expire_snapshots(retain_max=1)
    scripts.check_vacuum(str(tmp_path / "table"))
    assert sorted(p.name for p in (tmp_path / "table/snapshot").glob("*.json")) == [
        "snapshot-3.json"
    ]
