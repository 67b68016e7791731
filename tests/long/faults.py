"""K6, K7: system calls that fail, one after the other, and limits that are met: space, file size, descriptors.

Whatever fails: the step is done or refused by an error of ours, no descriptor leaks, the table shows the steps before
or those and this one, and the step succeeds once nothing fails any more.
"""

import contextlib
import os
import resource
import shutil
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Thread

import lsmerge
from tests.long import tracing
from tests.long.figures import Tally
from tests.long.stages import Outcome, Stage, Try, do_step, fresh, scratch, stages, start
from tests.long.tracing import Point

# Which errors a call may give; `close` gives its descriptor back whatever it says, which strace cannot imitate.
ERRORS = {
    "fsync": ("EIO",),
    "write": ("ENOSPC", "EDQUOT", "EIO", "EINTR"),
    "openat": ("EMFILE", "ENFILE", "EACCES", "EIO", "EINTR"),
    "mkdirat": ("ENOSPC", "EROFS"),
    "linkat": ("EIO", "EROFS", "ENOSPC"),
    "renameat": ("EIO", "EROFS"),
    "unlinkat": ("EIO", "EROFS"),
    "preadv": ("EIO", "EINTR"),
    "pread64": ("EIO",),
    "getdents64": ("EIO",),
    "newfstatat": ("EIO", "EACCES"),
    "fstat": ("EIO",),
}


def fail_syscalls(script: str, engine: str, every: int = 1, only: str = "") -> Tally:
    """Every n-th call of every step, failing with the errors of its kind in turn."""
    tally = Tally()
    if not tracing.is_available():
        tally.skipped = "strace is not available"
        return tally
    with scratch() as root:
        number = 0
        for stage in stages(script, engine, root):
            for point in tracing.points(stage, root):
                if point.name not in ERRORS or (only and point.name != only):
                    continue
                number += 1
                if number % every == 0:
                    error = ERRORS[point.name][number % len(ERRORS[point.name])]
                    what = (str(stage), point, error)
                    tally.attempt(what, partial(_failing, stage, point, error, root, tally))
    return tally


def _failing(stage: Stage, point: Point, error: str, root: Path, tally: Tally) -> None:
    with fresh(stage, root) as uri:
        options = point.injecting(f"error={error}")
        outcome = tracing.attached(start(stage, uri), options, root / "calls")
        _judge(stage, uri, outcome, tally)


def _judge(stage: Stage, uri: str, outcome: Outcome, tally: Tally) -> None:
    kind = str(outcome.told).partition(":")[0]
    if kind not in ("done", "refused"):
        raise AssertionError(f"{outcome}")
    tally.notes[kind] += 1
    took_effect = stage.check(uri)
    if kind == "done" and not took_effect:
        raise AssertionError("what was acknowledged is lost")


def do_step_limited(script: str, engine: str, number: int, uri: str, limit: str, most: int) -> str:
    """In a try: the step under a limit, which for descriptors is counted beyond those that are open."""
    if limit == "descriptors":
        most += len(os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    return do_step(script, engine, number, uri)


def limited(script: str, engine: str, limit: str, every: int = 1) -> Tally:
    """Every step with 0, 1, 2 ... descriptors, or with ever larger files, until it is done."""
    tally = Tally()
    with scratch() as root:
        for stage in stages(script, engine, root):
            for most in _sizes(limit, every):
                check = partial(_under, stage, limit, most, root, tally)
                told = tally.attempt((str(stage), limit, most), check)
                if told == "done":
                    break
    return tally


def _sizes(limit: str, every: int) -> Iterator[int]:
    if limit == "descriptors":
        yield from range(0, 64, every)
    else:
        yield from (size * every for size in (0, *(round(1.6**power) for power in range(24))))


def _under(stage: Stage, limit: str, most: int, root: Path, tally: Tally) -> str:
    with fresh(stage, root) as uri:
        attempt = Try(do_step_limited, stage.script, stage.engine, stage.number, uri, limit, most)
        attempt.go()
        outcome = attempt.outcome()
        _judge(stage, uri, outcome, tally)
        return str(outcome.told)


def do_step_in_pieces(script: str, engine: str, number: int, uri: str, most: int) -> str:
    """In a try: the step, where no call of the kernel moves more than so many bytes."""
    write, read = os.write, os.preadv

    def read_some(handle: int, into: list[memoryview], offset: int) -> int:
        return read(handle, [into[0][:most]], offset)

    os.write = lambda handle, data: write(handle, data[:most])
    os.preadv = read_some  # type: ignore[assignment]
    try:
        return do_step(script, engine, number, uri)
    finally:
        os.write, os.preadv = write, read


PIECES = (1, 7, 512)


def in_pieces(script: str, engine: str) -> Tally:
    """Every step with short writes and short reads, which are gone on with until all is done."""
    tally = Tally()
    with scratch() as root:
        for stage in stages(script, engine, root):
            for most in PIECES:
                check = partial(_in_pieces, stage, most, root, tally)
                tally.attempt((str(stage), f"{most} bytes at a time"), check)
    return tally


def _in_pieces(stage: Stage, most: int, root: Path, tally: Tally) -> None:
    with fresh(stage, root) as uri:
        attempt = Try(do_step_in_pieces, stage.script, stage.engine, stage.number, uri, most)
        attempt.go()
        outcome = attempt.outcome()
        if outcome.told != "done":
            raise AssertionError(f"{outcome}")
        _judge(stage, uri, outcome, tally)


@contextlib.contextmanager
def small_disk(root: Path, size: str) -> Iterator[Path | None]:
    """A file system of so many bytes; None where it cannot be had."""
    place = root / "small"
    place.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(command, check=False).returncode:
        yield None
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def full_disk(script: str, engine: str, every: int = 1) -> Tally:
    """Every step on a disk with ever more pages free, until it is done; after each try it goes on with more."""
    tally = Tally()
    with scratch() as root, small_disk(root, "4m") as disk:
        if disk is None:
            tally.skipped = "a file system of its own cannot be mounted"
            return tally
        for stage in stages(script, engine, root):
            for free in range(0, 400, every):
                check = partial(_crowded, stage, disk, free * 4096, tally)
                told = tally.attempt((str(stage), free), check)
                if told == "done":
                    break
    return tally


def _crowded(stage: Stage, disk: Path, free: int, tally: Tally) -> str:
    with fresh(stage, disk) as uri:
        filler = disk / "filler"
        status = os.statvfs(disk)
        filler.write_bytes(bytes(max(0, status.f_bavail * status.f_frsize - free)))
        try:
            attempt = start(stage, uri)
            attempt.go()
            outcome = attempt.outcome()
        finally:
            filler.unlink()
        _judge(stage, uri, outcome, tally)
        return str(outcome.told)


DELAY_S = 1.0


def slow_sync(engine: str) -> Tally:
    """K6: a writer whose every fsync takes a second; readers beside it wait for nothing."""
    tally = Tally()
    if not tracing.is_available():
        tally.skipped = "strace is not available"
        return tally
    with scratch() as root:
        stage = stages("life", engine, root)[2]
        with fresh(stage, root) as uri:
            delay = ["-e", "trace=fsync", "-e", f"inject=fsync:delay_enter={DELAY_S * 1e6:.0f}"]
            writer = Thread(
                target=tracing.attached, args=(start(stage, uri), delay, root / "calls")
            )
            writer.start()
            while writer.is_alive():
                tally.attempt("a read", partial(_timed_read, uri, tally))
    return tally


def _timed_read(uri: str, tally: Tally) -> None:
    began = time.monotonic()
    with lsmerge.open_table(uri) as table:
        table.scan().count()
    seconds = time.monotonic() - began
    tally.notes["ms for the slowest"] = max(
        tally.notes["ms for the slowest"], round(seconds * 1000)
    )
    if seconds > DELAY_S:
        raise AssertionError(f"took {seconds:.2f} s")
