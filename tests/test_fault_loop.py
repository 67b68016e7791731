"""Fail at every single call to the disk, one after another: what was acknowledged stays.

Each step of a script of commits and compactions is tried again and again from the same disk; in try n
its n-th call fails. Whatever fails, the table afterwards shows the steps before, or those and this one,
and doing the step again ends as if nothing had happened. The tries end with the first that meets no
failure, so no call can be missed, also none that is added later. All tries of a step happen in the same
world, so that many leave the same disk, which is then looked at once.
"""

import errno
import gc
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.storage.memory_disk import MemoryDisk
from tests.disks import contents, mounted, repeated_world
from tests.model import Change, Model

# Before any other call the disk is as it was before the call that came last.
CHANGING = {"make_directory", "create_file", "write", "sync", "link", "rename", "unlink"}
SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])


@dataclass(frozen=True)
class Step:
    """One call of a user, and the commit it makes if it makes one."""

    run: Callable[[str], Any]
    changes: Sequence[Change] = field(default=())
    is_overwrite: bool = False


def create(**options: str) -> Step:
    named = {name.replace("_", "-"): value for name, value in options.items()}
    return Step(lambda uri: lsmerge.create_table(uri, SCHEMA, ["k"], options=named, exist_ok=True))


def compact(uri: str) -> None:
    with lsmerge.open_table(uri) as table:
        table.compact(full=True)


def commit(number: int, *changes: tuple[str, int, str | None]) -> Step:
    """A commit with an identity, so that it can be repeated without knowing how it ended."""
    rows = [{"k": key, "v": value} for _, key, value in changes]
    kinds = [kind for kind, _, _ in changes]
    data = pa.Table.from_pylist(rows, schema=SCHEMA).append_column("_row_kind", pa.array(kinds))

    def run(uri: str) -> None:
        with lsmerge.open_table(uri) as table:
            table.write(data, commit_user="script", commit_id=number)

    return Step(run, [Change(kind, row) for kind, row in zip(kinds, rows, strict=True)])


def overwrite(number: int, *rows: tuple[int, str]) -> Step:
    """Everything replaced, with an identity."""
    data = pa.table({"k": [key for key, _ in rows], "v": [value for _, value in rows]})

    def run(uri: str) -> None:
        with lsmerge.open_table(uri) as table:
            table.overwrite(data, commit_user="script", commit_id=number)

    return Step(run, [Change("+I", row) for row in data.to_pylist()], is_overwrite=True)


def rescale(uri: str) -> None:
    with lsmerge.open_table(uri) as table:
        table.rescale(2)


def cluster(uri: str) -> None:
    with lsmerge.open_table(uri) as table:
        table.sort_compact("v", buckets=2)


Script = Sequence[Step]
ASKED: Script = [
    create(write_only="true"),
    commit(1, ("+I", 1, "a"), ("+I", 2, "b"), ("+I", 3, "c")),
    commit(2, ("+I", 1, "a2"), ("-D", 2, None)),
    Step(compact),
    commit(3, ("+U", 3, "c3"), ("+I", 4, "d")),
    overwrite(4, (3, "c4"), (5, "e")),
    Step(rescale),
]
# Two runs of like size are compacted by the commit that made the second one.
BY_ITSELF: Script = [
    create(**{"num-sorted-run.compaction-trigger": "2"}),
    commit(1, ("+I", 1, "a"), ("+I", 2, "b"), ("+I", 3, "c")),
    commit(2, ("+I", 1, "a2"), ("-D", 2, None), ("+I", 4, "d")),
]
CLUSTERED: Script = [
    create(write_only="true", bucket="-1"),
    commit(1, ("+I", 1, "b"), ("+I", 2, "a")),
    Step(cluster),
    commit(2, ("+U", 2, "d"), ("+I", 3, "a")),
]
SCRIPTS = {"asked": ASKED, "by-itself": BY_ITSELF, "clustered": CLUSTERED}


def model_after(steps: Sequence[Step]) -> Model:
    model = Model(SCHEMA.names, ["k"])
    for number, step in enumerate(steps, start=1):
        if step.is_overwrite:
            model.overwrite(step.changes, number, lambda _row: True)
        elif step.changes:
            model.commit(step.changes, number)
    return model


def state(uri: str) -> tuple[Any, Any] | None:
    """Rows and changes of the table, None if there is no table."""
    try:
        table = lsmerge.open_table(uri)
    except lsmerge.TableNotFoundError:
        return None
    rows = {(row["k"],): row for row in table.scan().to_arrow().to_pylist()}
    changes = [row for batch in table.changelog() for row in batch.to_pylist()]
    return rows, sorted(_change(r["_row_kind"], r["k"], r["v"]) for r in changes)


def expected_state(steps: Sequence[Step]) -> tuple[Any, Any]:
    model = model_after(steps)
    changes = [change for _, change in model.changelog()]
    return model.rows(), sorted(_change(c.kind, c.row["k"], c.row["v"]) for c in changes)


def _change(kind: Any, key: Any, value: Any) -> tuple[Any, Any, str]:
    return kind, key, repr(value)


@dataclass(frozen=True)
class FailedTry:
    """A disk as a failure left it, healed since."""

    disk: MemoryDisk
    script: Script
    step_number: int
    acknowledged: bool
    failed_call: str
    before: Any

    @property
    def possible(self) -> list[tuple[Any, Any] | None]:
        """What the table may show: an acknowledged step, or one that is there or not."""
        after = expected_state(self.script[: self.step_number + 1])
        if self.acknowledged:
            return [after]
        before = expected_state(self.script[: self.step_number]) if self.step_number else None
        return [before, after]


def failed_tries(script: Script, **fault: bool) -> Iterator[FailedTry]:
    """Every step of the script with every one of its calls failing."""
    disk = MemoryDisk()
    for number, step in enumerate(script):
        yield from _failed_tries_of(script, number, disk, fault)
        with mounted(disk) as uri, repeated_world(number):
            step.run(uri)
            assert state(uri) == expected_state(script[: number + 1])


def _failed_tries_of(
    script: Script, number: int, start: MemoryDisk, fault: dict[str, bool]
) -> Iterator[FailedTry]:
    before = contents(start)
    asking = calls_that_ask(script, number, start) if any(fault.values()) else set()
    for call in itertools.count(1):
        if call in asking:
            continue
        disk = copy_of(start)
        disk.fail_at(call, OSError(errno.EIO, f"call {call} fails"), **fault)
        with mounted(disk) as uri, repeated_world(number):
            acknowledged = is_acknowledged(script[number], uri)
        if disk.call_count < call:
            return
        disk.heal()
        yield FailedTry(disk, script, number, acknowledged, disk.calls[call - 1], before)


def calls_that_ask(script: Script, number: int, start: MemoryDisk) -> set[int]:
    """The calls that change nothing: an answer that is lost is one that was refused, and a power loss at one
    is that at the next call that changes something.
    """
    disk = copy_of(start)
    with mounted(disk) as uri, repeated_world(number):
        script[number].run(uri)
    return {number for number, name in enumerate(disk.calls, start=1) if name not in CHANGING}


def is_acknowledged(step: Step, uri: str) -> bool:
    try:
        step.run(uri)
    except lsmerge.LsmergeError:
        return False
    return True


def copy_of(disk: MemoryDisk) -> MemoryDisk:
    return disk.crash(random.Random(0), "all")


def check_survivors(failed: FailedTry, disk: MemoryDisk) -> None:
    """What the disk holds is possible, and the step can be done on it.

    A disk as it was before the step need not be tried: there the loop itself does the step, and the next one is
    tried from what that gives.
    """
    if not failed.acknowledged and contents(disk) == failed.before:
        return
    with mounted(disk) as uri:
        assert state(uri) in failed.possible
        failed.script[failed.step_number].run(uri)
        assert state(uri) == expected_state(failed.script[: failed.step_number + 1])


def check_once(failed: FailedTry, disk: MemoryDisk, seen: set[Any]) -> None:
    """The same unless another failure of the step left just this."""
    found = (failed.step_number, failed.acknowledged, contents(disk))
    if found not in seen:
        seen.add(found)
        check_survivors(failed, disk)


def check_no_handle_leaks(failed: FailedTry) -> None:
    if failed.disk.open_handles:
        gc.collect()  # a reader that an exception's traceback holds in a cycle
    assert failed.disk.open_handles == 0, failed


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
@pytest.mark.parametrize("after", [False, True], ids=["refused", "answer-lost"])
def test_one_failing_call_loses_and_leaks_nothing(after, script):
    tries, seen = 0, set()
    for failed in failed_tries(script, after=after):
        check_no_handle_leaks(failed)
        check_once(failed, failed.disk, seen)
        tries += 1
    assert tries > 100


def test_a_commit_is_acknowledged_whatever_becomes_of_its_compaction():
    """About half of the calls of such a commit are its compaction's, and none of these fails it."""
    disk = MemoryDisk()
    with mounted(disk) as uri:
        for step in BY_ITSELF[:2]:
            step.run(uri)
    tries = list(_failed_tries_of(BY_ITSELF, 2, disk, {}))
    assert sum(failed.acknowledged for failed in tries) > len(tries) // 3


# What may become of bytes and names that were not synced.
KEEP = {"asked": ("all", "none", "some"), "by-itself": ("some",), "clustered": ("some",)}


@pytest.mark.parametrize("name", SCRIPTS)
def test_power_loss_at_any_call_loses_nothing_acknowledged(name):
    """From the failing call on the process does nothing more; of what was not synced, all, some or nothing stays."""
    seen = set()
    for number, failed in enumerate(failed_tries(SCRIPTS[name], forever=True)):
        for keep in KEEP[name]:
            check_once(failed, failed.disk.crash(random.Random(number), keep), seen)
