"""System calls of a try, watched and meddled with by strace.

`when=` counts the calls of one name in one thread since strace was attached, so a dry run on one thread tells which of
them touch the table. strace acts when a call begins: a try killed there has not made the call.
"""

import functools
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.long.stages import Outcome, Stage, Try, fresh, start

_CALL = re.compile(r"(\d+)\s+(\w+)\(")
# Calls that leave files as they are; whatever else there is may change them.
_READING = frozenset(
    [
        "close",
        "fcntl",
        "fdatasync",
        "flock",
        "fstat",
        "fsync",
        "getdents64",
        "ioctl",
        "lseek",
        "newfstatat",
        "pread64",
        "preadv",
        "preadv2",
        "read",
        "readv",
        "statx",
    ]
)


@functools.cache
def is_available() -> bool:
    """Whether strace is here and may attach to a process."""
    if shutil.which("strace") is None:
        return False
    with subprocess.Popen(["sleep", "60"]) as watched:
        command = ["strace", "-o", "/dev/null", "-p", str(watched.pid)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as strace:
            assert strace.stderr is not None
            line = strace.stderr.readline()
            watched.kill()
    return "attached" in line


class Point(NamedTuple):
    """The k-th call of a name in a thread."""

    name: str
    number: int

    def injecting(self, what: str) -> list[str]:
        """Options of strace by which `what` happens here."""
        inject = f"inject={self.name}:{what}:when={self.number}"
        return ["-e", f"trace={self.name}", "-e", inject]


def attached(attempt: Try, options: Sequence[str], log: Path) -> Outcome:
    """The outcome of a try under strace."""
    command = ["strace", "-f", "-y", "-o", str(log), "-p", str(attempt.pid), *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as strace:
        assert strace.stderr is not None
        line = strace.stderr.readline()
        if "attached" not in line:
            attempt.kill()
            raise RuntimeError(f"strace could not attach: {line}")
        attempt.go()
        return attempt.outcome()


def points(stage: Stage, root: Path) -> dict[Point, bool]:
    """Every call of a step that touches the table, in order, and whether it is the first since a file changed."""
    log = root / "calls"
    with fresh(stage, root) as uri:
        outcome = attached(start(stage, uri), ["-e", "trace=%file,%desc"], log)
        if outcome.told != "done":
            raise AssertionError(f"{stage}: {outcome}")
        found: dict[Point, bool] = {}
        for point, is_after_change in _touching(log.read_text(), uri):
            found[point] = is_after_change or found.get(point, False)
        return found


def _touching(log: str, uri: str) -> Iterator[tuple[Point, bool]]:
    counts: Counter[tuple[str, str]] = Counter()
    is_after_change = True
    for line in log.splitlines():
        found = _CALL.match(line)
        if found is None:
            continue
        counts[found[1], found[2]] += 1
        if uri in line:
            yield Point(found[2], counts[found[1], found[2]]), is_after_change
            is_after_change = not _is_reading(found[2], line)


def _is_reading(name: str, line: str) -> bool:
    return name in _READING or (name == "openat" and "O_CREAT" not in line)
