"""A script taken apart: the table as it is before each step, so that any step can be tried again and again.

Tries run in processes of their own, forked from one that has loaded the library and done nothing else. They end by a
kill, or tell what became of the step. A step happens in a world that repeats: tries that end at the same place leave
the same bytes, and what they left is judged once.
"""

import contextlib
import gc
import hashlib
import multiprocessing
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa

import lsmerge
from lsmerge import failpoints
from lsmerge.engine import parallel
from lsmerge.meta import manifest as manifests
from tests.disks import repeated_world
from tests.long import scripts
from tests.long.scripts import SCRIPTS, Seen, Step
from tests.room import in_memory

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["tests.long.preloaded"])
TIMEOUT_S = 120
# Those that a table has, with room for what is forged.
MOST_MANIFESTS = 16


@dataclass(frozen=True)
class Stage:
    """A step of a script, and the table that it is done to."""

    script: str
    engine: str
    number: int
    copy: Path
    before: Seen | None
    after: Seen | None
    passed: Counter[str]
    """How often each failpoint is passed."""
    judged: dict[bytes, bool] = field(default_factory=dict, compare=False, repr=False)
    """What tries left and was right, by its bytes: whether the step had taken effect."""
    done_again: set[bytes] = field(default_factory=set, compare=False, repr=False)
    """What a vacuum made of that, and the step was done on."""

    @property
    def step(self) -> Step:
        return SCRIPTS[self.script](self.engine)[self.number]

    def __str__(self) -> str:
        return f"{self.engine}/{self.script}/{self.step.name}"

    def check(self, uri: str) -> bool:
        """What a crash left is right, and the step can be done; whether it had taken effect."""
        left = _contents(Path(uri))
        if left not in self.judged:
            with on_one_thread(), manifests_parsed_once():
                found = scripts.check_crash(self.step, self.before, self.after, uri)
                self._check_step(uri)
            self.judged[left] = found
        return self.judged[left]

    def _check_step(self, uri: str) -> None:
        """A vacuum leaves the same of most crashes, and the step is done once on each."""
        clean = _contents(Path(uri))
        if clean not in self.done_again:
            scripts.check_step(self.step, self.after, uri)
            self.done_again.add(clean)


def _contents(root: Path) -> bytes:
    """Of all that is below a directory: paths, and bytes of files."""
    digest = hashlib.blake2b()
    for path in sorted(root.rglob("*")):
        data = path.read_bytes() if path.is_file() else b""
        digest.update(f"{path.relative_to(root)}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.digest()


@contextlib.contextmanager
def on_one_thread() -> Iterator[None]:
    """Tables of a few rows are read faster so, and a step makes the same calls in the same order every time."""
    before, parallel.CORES = parallel.CORES, 1
    try:
        yield
    finally:
        parallel.CORES = before


@contextlib.contextmanager
def manifests_parsed_once() -> Iterator[None]:
    """Most manifests that a try reads nobody has touched: of bytes that were parsed before, the entries are known.

    Bytes are read, and their checksums compared, every time.
    """
    before = manifests._parse, manifests.live_entries
    manifests._parse, manifests.live_entries = _remembering(*before)
    try:
        yield
    finally:
        manifests._parse, manifests.live_entries = before


def _remembering(parse: Callable[..., pa.Table], live_entries: Callable[..., pa.Table]) -> Any:
    parsed: dict[tuple[str, bytes], pa.Table] = {}
    joined: dict[tuple[int, ...], pa.Table] = {}
    kept: set[int] = set()

    def parse_once(path: str, data: pa.Buffer) -> pa.Table:
        key = path, data.to_pybytes()
        if key in parsed:
            return parsed[key]
        table = parse(path, data)
        if len(parsed) < MOST_MANIFESTS:
            parsed[key] = table
            kept.add(id(table))
        return table

    def join_once(tables: Sequence[pa.Table]) -> pa.Table:
        key = tuple(map(id, tables))
        if not kept.issuperset(key):
            return live_entries(tables)
        if key not in joined:
            joined[key] = live_entries(tables)
        return joined[key]

    return parse_once, join_once


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A directory in memory if there is one: a killed process leaves the same there as on any disk."""
    with tempfile.TemporaryDirectory(prefix="lsmerge-long-", dir=in_memory()) as root:
        yield Path(root)


def stages(script: str, engine: str, root: Path) -> list[Stage]:
    """All steps, from a run that nothing disturbs."""
    scripts.register()
    root.mkdir(exist_ok=True)
    table = root / "undisturbed"
    found, before = [], scripts.seen(str(table))
    for number, step in enumerate(SCRIPTS[script](engine)):
        copy = root / f"before-{number}"
        if table.exists():
            shutil.copytree(table, copy)
        with _counting() as passed, repeated_world(number):
            step.do(str(table))
        after = scripts.seen(str(table))
        found.append(Stage(script, engine, number, copy, before, after, passed))
        before = after
    shutil.rmtree(table)
    return found


@contextlib.contextmanager
def _counting() -> Iterator[Counter[str]]:
    passed: Counter[str] = Counter()
    before, failpoints.hook = failpoints.hook, lambda name: passed.update([name])
    try:
        with scripts.early_folding():
            yield passed
    finally:
        failpoints.hook = before


@contextlib.contextmanager
def fresh(stage: Stage, root: Path) -> Iterator[str]:
    """The table as it is before the step."""
    table = root / "table"
    if stage.copy.exists():
        shutil.copytree(stage.copy, table)
    try:
        yield str(table)
    finally:
        shutil.rmtree(table, ignore_errors=True)


@dataclass(frozen=True)
class Outcome:
    """How a try ended: its exit code, and what it told, None if it was killed before."""

    exit_code: int | None
    told: Any

    @property
    def was_killed(self) -> bool:
        return self.exit_code == -9


class Try:
    """A process that waits for a word and then does one step."""

    def __init__(self, work: Callable[..., Any], *arguments: Any) -> None:
        self._ours, theirs = _SERVER.Pipe()
        self._process = _SERVER.Process(target=_obey, args=(theirs, work, arguments))
        self._process.start()
        theirs.close()
        # A process that still loads its modules makes calls that no dry run has counted.
        if not self._ours.poll(TIMEOUT_S):
            raise TimeoutError("a try does not begin")
        self._ours.recv()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def go(self) -> None:
        """Let it begin."""
        self._ours.send(None)

    def kill(self) -> None:
        self._process.kill()

    def outcome(self) -> Outcome:
        """Wait for its end; a hang is a failure."""
        told = None
        with contextlib.suppress(EOFError, ConnectionResetError):
            told = self._ours.recv() if self._ours.poll(TIMEOUT_S) else "hangs"
        if told == "hangs":
            self._process.kill()
        self._process.join(TIMEOUT_S)
        self._ours.close()
        return Outcome(self._process.exitcode, told)


def _obey(connection: Connection, work: Callable[..., Any], arguments: Any) -> None:
    connection.send("ready")
    connection.recv()
    connection.send(work(*arguments))


def do_step(script: str, engine: str, number: int, uri: str, trigger: str | None = None) -> str:
    """What a try does: `done`, `refused: ...` by an error of ours, or what should not have happened.

    Calls are counted thread by thread, so a step whose calls are counted has but one.
    """
    scripts.register()
    if trigger is not None:
        failpoints.hook = failpoints.Fuse(failpoints.parse_trigger(trigger))
    step = SCRIPTS[script](engine)[number]
    before = _descriptors()
    threads = on_one_thread() if trigger is None else contextlib.nullcontext()
    with scripts.early_folding(), repeated_world(number), threads:
        outcome = _outcome_of(step, uri)
    gc.collect()
    leaked = _descriptors() - before
    return f"leaked {leaked}" if leaked else outcome


def _outcome_of(step: Step, uri: str) -> str:
    try:
        step.do(uri)
    except lsmerge.LsmergeError as error:
        return f"refused: {error}"
    except KeyboardInterrupt as interrupt:
        return f"refused: interrupted at {interrupt}"
    except Exception as error:  # noqa: BLE001 - to be told, not to be handled
        return f"not ours: {error!r}"
    return "done"


def _descriptors() -> set[str]:
    found = set()
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:  # a call that was to fail in another thread; it fails once
        names = os.listdir("/proc/self/fd")
    for name in names:
        with contextlib.suppress(OSError):
            found.add(os.readlink(f"/proc/self/fd/{name}"))
    return {target for target in found if target.startswith("/") and "/proc/" not in target}


def start(stage: Stage, uri: str, trigger: str | None = None) -> Try:
    """A process about to do the step; with a trigger for a failpoint."""
    return Try(do_step, stage.script, stage.engine, stage.number, uri, trigger)
