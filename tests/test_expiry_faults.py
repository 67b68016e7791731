"""Fail at every single call to the disk while snapshots expire: no row that must stay is lost.

As in test_fault_loop, which has the commits, each step is tried from the same disk with its n-th call failing: every
call that changes the disk, and some of those that read. Whatever fails, the table is whole afterwards and holds
what it held before the step or what it holds after it; doing the step again ends as if nothing had happened, and
what is left over then are orphans that can be removed. Tries of a step that leave the same disk are looked at once.
"""

import errno
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.storage.memory_disk import MemoryDisk
from tests.disks import contents, mounted, repeated_world

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string()})
LATER = 10**14

CHANGING = {"make_directory", "create_file", "write", "sync", "link", "rename", "unlink"}
# Of the calls that only read, one in so many is tried.
SAMPLED = 31

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Step:
    """One call of a user; repeating it, once it took effect, may be refused."""

    run: Callable[[lsmerge.Table], Any]
    done: type[lsmerge.LsmergeError] | tuple[()] = ()
    is_tried: bool = True


@dataclass(frozen=True)
class State:
    """What readers see: the rows of today, of every tag, and the numbers of snapshots."""

    rows: Rows
    tags: dict[str, Rows]
    columns: list[str]


def commit(number: int, *keys: int) -> Step:
    rows = {"k": list(keys), "v": [f"v{number}"] * len(keys)}
    return Step(lambda table: table.write(rows), is_tried=False)


SCRIPT = [
    commit(1, 1, 2),
    commit(2, 2, 3),
    Step(lambda table: table.create_tag("second", 2), lsmerge.TagExistsError),
    commit(3, 1),
    Step(lambda table: table.compact(full=True), is_tried=False),
    Step(lambda table: table.expire_snapshots(retain_max=1)),
    Step(lambda table: table.alter(add={"c": pa.int32()}), lsmerge.SchemaMismatchError),
    Step(lambda table: table.upsert({"k": [4], "v": ["v4"], "c": [4]}), is_tried=False),
    Step(lambda table: table.rollback_to(tag="second")),
    Step(lambda table: table.delete_tag("second"), lsmerge.SnapshotNotFoundError),
    Step(lambda table: table.expire_snapshots(retain_max=1)),
]


def run(step: Step, uri: str) -> None:
    with lsmerge.open_table(uri) as table:
        try:
            step.run(table)
        except lsmerge.LsmergeError as error:
            if not isinstance(error, step.done):
                raise


def state(uri: str) -> State:
    """What there is to see; that nothing is missing or damaged is made sure on the way."""
    with lsmerge.open_table(uri) as table:
        assert table.verify().problems == ()
        tags = {n: rows(table.scan(tag=n)) for n in table.tags() if not n.startswith("rollback-")}
        return State(rows(table.scan()), tags, table.schema.names)


def rows(scan: Any) -> Rows:
    return sorted(tuple(row.values()) for row in scan.to_arrow().to_pylist())


def copy_of(disk: MemoryDisk) -> MemoryDisk:
    return disk.crash(random.Random(0), "all")


@dataclass(frozen=True)
class FailedTry:
    """A disk as a failure left it, healed since; what was seen before the step, and after it."""

    disk: MemoryDisk
    step: Step
    before: State
    after: State
    acknowledged: bool
    call: str


def failed_tries(**fault: bool) -> Iterator[FailedTry]:
    disk = MemoryDisk()
    with mounted(disk) as uri:
        lsmerge.create_table(uri, SCHEMA, "k")
    for place, step in enumerate(SCRIPT):
        done = copy_of(disk)
        with mounted(disk) as uri:
            before = state(uri)
        with mounted(done) as uri, repeated_world(place):
            run(step, uri)
            calls = list(done.calls)
            after = state(uri)
        for number in _numbers_to_fail(calls) if step.is_tried else ():
            tried = copy_of(disk)
            tried.fail_at(number, OSError(errno.EIO, f"call {number} fails"), **fault)
            with mounted(tried) as uri, repeated_world(place):
                acknowledged = is_acknowledged(step, uri)
            tried.heal()
            yield FailedTry(tried, step, before, after, acknowledged, calls[number - 1])
        disk = done


def _numbers_to_fail(calls: list[str]) -> list[int]:
    numbered = enumerate(calls, start=1)
    return [n for n, call in numbered if call in CHANGING or n % SAMPLED == 0]


def is_acknowledged(step: Step, uri: str) -> bool:
    try:
        run(step, uri)
    except lsmerge.LsmergeError:
        return False
    return True


def check(failed: FailedTry, disk: MemoryDisk) -> None:
    with mounted(disk) as uri:
        assert state(uri) in (
            [failed.after] if failed.acknowledged else [failed.before, failed.after]
        )
        run(failed.step, uri)
        with lsmerge.open_table(uri) as table:
            table.remove_orphan_files(LATER, dry_run=False)
            assert table.remove_orphan_files(LATER).files == ()
        assert state(uri) == failed.after


def check_once(failed: FailedTry, disk: MemoryDisk, seen: set[Any]) -> None:
    found = (id(failed.step), failed.acknowledged, contents(disk))
    if found not in seen:
        seen.add(found)
        check(failed, disk)


@pytest.mark.parametrize("after", [False, True], ids=["refused", "answer-lost"])
def test_one_failing_call_loses_nothing(after):
    tries, seen = 0, set()
    for failed in failed_tries(after=after):
        check_once(failed, failed.disk, seen)
        tries += 1
    assert tries > 50


@pytest.mark.parametrize("keep", ["none", "some"])
def test_power_loss_at_any_call_loses_nothing(keep):
    seen = set()
    for number, failed in enumerate(failed_tries(forever=True)):
        if failed.call in CHANGING:
            check_once(failed, failed.disk.crash(random.Random(number), keep), seen)
