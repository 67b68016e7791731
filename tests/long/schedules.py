"""X4: a seeded scheduler of writers, a compactor, an expirer, a tagger and a reader on one disk in memory.

Every actor has a thread, and exactly one runs: at each call to the disk the seed says who goes on, whether the call
fails, whether its answer is lost, or whether the actor dies. Names, chance and clocks, which may be days apart, come
from the seed too, so a seed gives the same history every time; a failing one is told, and is a test case of its own.
"""

import contextlib
import errno
import functools
import gc
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import lsmerge
from lsmerge.engine import parallel
from lsmerge.env import Env
from lsmerge.storage.memory_disk import MemoryDisk
from tests.disks import mounted
from tests.long.figures import Tally
from tests.long.load import OPTIONS, SCHEMA, check_snapshot, transfer

CALLS = (
    "open_root",
    "open_directory",
    "make_directory",
    "create_file",
    "open_file",
    "stat_handle",
    "stat",
    "entries",
    "read",
    "write",
    "sync",
    "link",
    "rename",
    "unlink",
)
COMMITS = 3
LATER = 10**15
DAY_MS = 86_400_000


class Died(BaseException):
    """The actor's process is gone: nothing it does has any effect."""


@dataclass
class Actor:
    """A thread that runs when it has the baton."""

    name: str
    play: Callable[["Actor"], None]
    baton: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    is_dead: bool = False
    begun: int = -1
    acknowledged: int = -1
    failure: str = ""
    skew_ms: int = 0
    """How far its clock is ahead."""


class Schedule:
    """Who goes on after each call; what goes wrong on the way."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.history: list[tuple[str, str]] = []
        self.faults: list[str] = []
        self._switch = self.random.choice([0.02, 0.1, 0.5])
        self._fault = self.random.choice([0, 0, 0.002, 0.01])
        self._death = self.random.choice([0, 0, 0.001, 0.003])
        self._waiting: list[Actor] = []
        self._current: Actor | None = None
        self._threads: dict[int, Actor] = {}
        self._ended = threading.Event()

    def run(self, actors: list[Actor]) -> None:
        """Until all have ended."""
        threads = [threading.Thread(target=self._perform, args=(actor,)) for actor in actors]
        if self.random.random() < 0.5:
            for actor in actors:
                actor.skew_ms = self.random.choice([-DAY_MS, 0, DAY_MS])
        self._waiting = list(actors)
        for thread in threads:
            thread.start()
        self._hand_over()
        self._ended.wait()
        for thread in threads:
            thread.join()

    def skew_ms(self) -> int:
        """Of the clock of whoever asks."""
        actor = self._threads.get(threading.get_ident())
        return actor.skew_ms if actor is not None else 0

    def step(self, call: str) -> str:
        """Before a call: maybe others first; then what becomes of it: '', 'fails' or 'lost'."""
        actor = self._threads.get(threading.get_ident())
        if actor is None:
            return ""
        if actor.is_dead:
            raise OSError(errno.EIO, "nothing that a dead process cleans up takes effect")
        if self._waiting and self.random.random() < self._switch:
            self._waiting.append(actor)
            self._hand_over()
            actor.baton.acquire()
        self.history.append((actor.name, call))
        return self._fate(actor, call)

    def _fate(self, actor: Actor, call: str) -> str:
        if self.random.random() < self._death:
            actor.is_dead = True
            self.faults.append(f"{actor.name} died at {call}")
            raise Died
        if self.random.random() < self._fault:
            fate = self.random.choice(["fails", "lost"])
            self.faults.append(f"{call} of {actor.name}: {fate}")
            return fate
        return ""

    def _hand_over(self) -> None:
        if not self._waiting:
            self._ended.set()
            return
        chosen = self._waiting.pop(self.random.randrange(len(self._waiting)))
        chosen.baton.release()

    def _perform(self, actor: Actor) -> None:
        actor.baton.acquire()
        self._threads[threading.get_ident()] = actor
        try:
            actor.play(actor)
        except Died:
            pass
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a violation
            actor.failure = "" if actor.is_dead else f"{actor.name}: {error!r}"
        finally:
            del self._threads[threading.get_ident()]
            self._hand_over()


class ScheduledDisk(MemoryDisk):
    """A disk whose every call is a step of a schedule."""

    def __init__(self, env: Env) -> None:
        super().__init__(env, record=False)
        self.schedule: Schedule | None = None


def _scheduled(name: str) -> Callable[..., Any]:
    original = getattr(MemoryDisk, name)

    def call(disk: ScheduledDisk, *arguments: Any) -> Any:
        fate = disk.schedule.step(name) if disk.schedule is not None else ""
        if fate == "fails":
            raise OSError(errno.EIO, f"{name} fails")
        result = original(disk, *arguments)
        if fate == "lost":
            disk._forget_handles_from(result)
            raise OSError(errno.EIO, f"the answer of {name} is lost")
        return result

    return call


for _name in CALLS:
    setattr(ScheduledDisk, _name, _scheduled(_name))

# What any actor may be told when the disk fails or others are faster.
FAILS = (lsmerge.StorageError, lsmerge.CommitUnknownError, lsmerge.CommitConflictError)

TOLD = (*FAILS, lsmerge.SnapshotNotFoundError, lsmerge.TagExistsError)


def write(uri: str, number: int) -> Callable[[Actor], None]:
    def play(actor: Actor) -> None:
        for commit in range(COMMITS):
            actor.begun = commit
            _until_done(partial(_commit, uri, number, commit))
            actor.acknowledged = commit

    return play


def _commit(uri: str, number: int, commit: int) -> None:
    with lsmerge.open_table(uri) as table:
        table.write(transfer(number, commit), commit_user=f"w{number}", commit_id=commit)


def _until_done(work: Callable[[], Any]) -> None:
    """Try again after a failure that says so, as a user would; the commit has a name."""
    for _ in range(50):
        try:
            work()
        except FAILS:
            continue
        return
    raise AssertionError("fifty failures in a row")


def trying(
    uri: str, times: int, work: Callable[[lsmerge.Table, int], Any]
) -> Callable[[Actor], None]:
    """Do something a few times, whatever becomes of it."""

    def play(_actor: Actor) -> None:
        for turn in range(times):
            with contextlib.suppress(*TOLD), lsmerge.open_table(uri) as table:
                work(table, turn)

    return play


def compact(table: lsmerge.Table, turn: int) -> None:
    table.compact(full=turn % 2 == 0)


def expire(table: lsmerge.Table, turn: int) -> None:
    table.expire_snapshots(retain_max=1 + turn % 2)


def tag(table: lsmerge.Table, turn: int) -> None:
    table.create_tag(f"t{turn}")
    check_snapshot(table.scan(tag=f"t{turn}"), {})
    if turn % 2:
        table.delete_tag(f"t{turn}")


def read(table: lsmerge.Table, _turn: int) -> None:
    check_snapshot(table.scan(), {})


@contextlib.contextmanager
def one_world(env: Env) -> Iterator[None]:
    """Everything that happens comes from one seeded environment, on one thread at a time."""
    for found in gc.get_objects():
        if isinstance(found, functools.cached_property) and hasattr(found, "lock"):
            # Before Python 3.12 it is shared by all objects of a class: whoever has it would wait for the baton.
            found.lock = contextlib.nullcontext()
    system, cores = Env.__dict__["system"], parallel.CORES
    Env.system = classmethod(lambda _cls: env)  # type: ignore[method-assign,assignment]
    parallel.CORES = 1
    try:
        yield
    finally:
        Env.system = system  # type: ignore[method-assign]
        parallel.CORES = cores


def explore(seed: int) -> Schedule:
    """One history; AssertionError if it breaks a promise."""
    env, schedule = Env.seeded(seed), Schedule(seed)
    disk = ScheduledDisk(env)
    skewed = replace(env, now_ms=lambda: env.now_ms() + schedule.skew_ms())
    with one_world(skewed), mounted(disk) as uri:
        options = OPTIONS | {"bucket": "1", "num-sorted-run.compaction-trigger": "3"}
        lsmerge.create_table(uri, SCHEMA, "k", options=options).close()
        disk.schedule = schedule
        writers = [Actor(f"writer {n}", write(uri, n)) for n in range(2)]
        others = [
            Actor("compactor", trying(uri, 2, compact)),
            Actor("expirer", trying(uri, 2, expire)),
            Actor("tagger", trying(uri, 2, tag)),
            Actor("reader", trying(uri, 2, read)),
        ]
        schedule.run([*writers, *others])
        disk.schedule = None
        failures = [actor.failure for actor in (*writers, *others) if actor.failure]
        if failures:
            raise AssertionError(f"seed {seed}: {failures}; {schedule.faults}")
        _check_end(uri, writers, schedule, seed)
    return schedule


def _check_end(uri: str, writers: list[Actor], schedule: Schedule, seed: int) -> None:
    with lsmerge.open_table(uri) as table:
        wanted: dict[int, int] = {}
        for number, actor in enumerate(writers):
            if actor.begun > actor.acknowledged:
                _commit(uri, number, actor.begun)
            for commit in range(actor.begun + 1):
                for row in transfer(number, commit):
                    wanted[row["k"]] = wanted.get(row["k"], 0) + row["n"]
        rows = {row["k"]: row["n"] for row in table.scan().to_arrow().to_pylist()}
        if rows != wanted:
            raise AssertionError(f"seed {seed}: {rows} instead of {wanted}; {schedule.faults}")
        for name in table.tags():
            check_snapshot(table.scan(tag=name), {})
        table.remove_orphan_files(LATER, dry_run=False)
        problems = table.verify().problems
        if problems:
            raise AssertionError(f"seed {seed}: damaged: {problems}; {schedule.faults}")


def explore_many(first: int, last: int) -> Tally:
    """Seeds from `first` to before `last`."""
    tally = Tally()
    for seed in range(first, last):
        schedule = tally.attempt(f"seed {seed}", partial(explore, seed))
        if schedule is not None:
            tally.notes["calls"] += len(schedule.history)
            tally.notes["faults"] += len(schedule.faults)
    return tally
