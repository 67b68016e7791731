"""K8: memory that runs out in kernels, at one allocation after the other.

Kernels allocate by two calls of Python's raw domain (lsmerge_native/buffers.pyx), which a small library wraps: compiled
here and loaded by each try, it fails the n-th that comes from a kernel. Whatever allocation fails: the step is done, or
ends with MemoryError or an error of ours; nothing crashes, no descriptor leaks, and the table shows the steps before or
those and this one.
"""

import ctypes
import functools
import shutil
import subprocess
import sysconfig
import tempfile
from functools import partial
from pathlib import Path

from tests.long.figures import Tally
from tests.long.stages import Stage, Try, do_step, fresh, scratch, stages

SOURCE = Path(__file__).parent / "failing_allocator.c"


@functools.cache
def library(directory: Path) -> Path | None:
    """The compiled library, None where nothing compiles."""
    built = directory / "failing_allocator.so"
    include = sysconfig.get_path("include")
    command = ["gcc", "-O1", "-shared", "-fPIC", f"-I{include}", str(SOURCE), "-o", str(built)]
    if shutil.which("gcc") is None or subprocess.run(command, check=False).returncode:
        return None
    return built


def loaded(built: Path) -> ctypes.PyDLL:
    """The library in this process."""
    allocator = ctypes.PyDLL(str(built))
    allocator.end_watch.restype = ctypes.c_long
    allocator.watch_allocations.argtypes = [ctypes.c_long]
    return allocator


def do_step_short(script: str, engine: str, number: int, uri: str, lib: str, nth: int) -> object:
    """In a try: the step, whose n-th allocation fails; what became of it, and how many there were."""
    allocator = loaded(Path(lib))
    allocator.watch_allocations(nth)
    told = do_step(script, engine, number, uri)
    return told, allocator.end_watch()


def run_out(script: str, engine: str, every: int = 1) -> Tally:
    """Every n-th allocation of every step."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as place, scratch() as root:
        lib = library(Path(place))
        if lib is None:
            tally.skipped = "gcc is not available"
            return tally
        for stage in stages(script, engine, root):
            for nth in range(1, count(stage, lib, root) + 1, every):
                check = partial(_short, stage, lib, nth, root, tally)
                tally.attempt((str(stage), f"allocation {nth}"), check)
    return tally


def count(stage: Stage, lib: Path, root: Path) -> int:
    """How many allocations a step makes."""
    with fresh(stage, root) as uri:
        told, seen = _tried(stage, uri, lib, 0)
    if told != "done":
        raise AssertionError(f"{stage}: {told}")
    return seen


def _short(stage: Stage, lib: Path, nth: int, root: Path, tally: Tally) -> None:
    with fresh(stage, root) as uri:
        told, _ = _tried(stage, uri, lib, nth)
        kind = "no memory" if told.startswith("not ours: MemoryError") else told.partition(":")[0]
        if kind not in ("done", "refused", "no memory"):
            raise AssertionError(told)
        tally.notes[kind] += 1
        took_effect = stage.check(uri)
        if kind == "done" and not took_effect:
            raise AssertionError("what was acknowledged is lost")


def _tried(stage: Stage, uri: str, lib: Path, nth: int) -> tuple[str, int]:
    attempt = Try(do_step_short, stage.script, stage.engine, stage.number, uri, str(lib), nth)
    attempt.go()
    outcome = attempt.outcome()
    if not isinstance(outcome.told, tuple):
        raise AssertionError(f"the process ended with {outcome.exit_code}: {outcome.told}")
    return outcome.told
