"""K4, K5: power lost at every call that changes the disk, many outcomes each; hints torn at every length.

The scripts are those of tests/test_fault_loop.py and tests/test_expiry_faults.py, which try one outcome.
"""

import random
from functools import partial
from pathlib import Path

import lsmerge
from tests import test_expiry_faults as expiry
from tests import test_fault_loop as commits
from tests.long import scripts
from tests.long.figures import Tally
from tests.long.stages import scratch, stages


def lose_power(script: str, clones: int) -> Tally:
    """Of what was not synced at the loss, a part chosen by chance survives, so many times."""
    tally = Tally()
    seen: set[object] = set()
    tries = (
        expiry.failed_tries(forever=True)
        if script == "expiry"
        else commits.failed_tries(commits.SCRIPTS[script], forever=True)
    )
    check = expiry.check_once if script == "expiry" else commits.check_once
    for number, failed in enumerate(tries):
        call = failed.call if script == "expiry" else failed.failed_call
        if call not in commits.CHANGING:
            continue
        tally.notes["instants"] += 1
        for clone in range(clones):
            keep = ("none", "all", "some")[min(clone, 2)]
            disk = failed.disk.crash(random.Random(number * clones + clone), keep)
            tally.attempt((script, number, clone, keep), partial(check, failed, disk, seen))
    tally.notes["different disks"] = len(seen)
    return tally


def tear_hints(engine: str) -> Tally:
    """The hint is written without a sync: whatever a power loss makes of it harms nobody."""
    tally = Tally()
    with scratch() as root:
        stage = stages("life", engine, root)[-1]
        hint = stage.copy / "snapshot" / "LATEST"
        content = hint.read_bytes()
        for torn in (
            *(content[:length] for length in range(len(content) + 1)),
            *(bytes(length) for length in (1, 4, 4096)),
            *(random.Random(seed).randbytes(seed % 9) for seed in range(200)),
            *(str(number).encode() for number in (0, -1, 1)),
        ):
            tally.attempt(torn, partial(_with_hint, stage.copy, torn, stage.before))
        for number in (10**6, 10**30):
            tally.attempt(number, partial(_with_hint_ahead, stage.copy, number, stage.before))
    return tally


def _with_hint(table: Path, hint: bytes, right: scripts.Seen | None) -> None:
    (table / "snapshot" / "LATEST").write_bytes(hint)
    found = scripts.seen(str(table))
    if found != right:
        raise AssertionError(f"{found} instead of {right}")
    with lsmerge.open_table(str(table)) as opened:
        opened.snapshots()


def _with_hint_ahead(table: Path, number: int, right: scripts.Seen | None) -> None:
    """Reads are right, and verify takes the hint at its word: the newest snapshot may have been removed."""
    (table / "snapshot" / "LATEST").write_bytes(str(number).encode())
    with lsmerge.open_table(str(table)) as opened:
        found, problems = scripts.shown(opened), opened.verify().problems
    if found != right:
        raise AssertionError(f"{found} instead of {right}")
    if len(problems) != 1 or f"snapshot-{number}.json" not in problems[0]:
        raise AssertionError(f"{problems}")
