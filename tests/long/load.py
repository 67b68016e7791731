"""K3, X1, X2, X6: many processes on one table: writers, a compactor, an expirer, readers; killed at random, or not.

Every commit moves an amount between two accounts and counts itself, in a table that adds up. So a commit lost or
applied twice shows in a counter, and a snapshot that is not whole in the accounts, which always add up to nothing.
A writer that was killed repeats the commit it was making under the same identity.
"""

import contextlib
import itertools
import multiprocessing
import os
import random
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

import pyarrow as pa

import lsmerge
from tests.long.figures import Tally
from tests.long.stages import scratch

_SERVER = multiprocessing.get_context("forkserver")
ACCOUNTS = 10
COUNTERS = 100
SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("n", pa.int64())])
OPTIONS = {
    "merge-engine": "aggregation",
    "fields.n.aggregate-function": "sum",
    "bucket": "2",
    "num-sorted-run.compaction-trigger": "4",
}
# A vacuum takes only what is older than any commit takes.
OLD = "60 s"
HELD_S = 30


def transfer(writer: int, commit: int) -> list[dict[str, int]]:
    """What a commit does: an amount from one account to another, and one more commit."""
    draw = random.Random(writer * 1_000_003 + commit)
    giver, taker = draw.sample(range(ACCOUNTS), 2)
    amount = draw.randint(1, 1000)
    return [
        {"k": giver, "n": -amount},
        {"k": taker, "n": amount},
        {"k": COUNTERS + writer, "n": 1},
    ]


def write(uri: str, writer: int, first: int, tell: Connection, most: int | None = None) -> None:
    """Commit from `first` on, for ever or up to a number; tell of each before and after."""
    with lsmerge.open_table(uri) as table:
        for commit in itertools.count(first) if most is None else range(first, most):
            tell.send(("begun", commit))
            began = time.monotonic()
            table.write(transfer(writer, commit), commit_user=f"w{writer}", commit_id=commit)
            tell.send(("waited", time.monotonic() - began))
            tell.send(("acknowledged", commit))


def compact(uri: str, seed: int, _first: int, tell: Connection) -> None:
    draw = random.Random(seed)
    with lsmerge.open_table(uri) as table:
        while True:
            with contextlib.suppress(lsmerge.CommitConflictError):
                table.compact(full=draw.random() < 0.2)
                tell.send(("compacted", 1))
            time.sleep(0.01)


def expire(uri: str, _number: int, _first: int, tell: Connection) -> None:
    with lsmerge.open_table(uri) as table:
        while True:
            table.expire_snapshots(retain_max=5)
            table.remove_orphan_files(OLD, dry_run=False)
            tell.send(("expired", 1))
            time.sleep(0.05)


def read(uri: str, _number: int, _first: int, tell: Connection) -> None:
    """Accounts add up, and counters never go back."""
    last: dict[int, int] = {}
    with lsmerge.open_table(uri) as table:
        while True:
            with contextlib.suppress(lsmerge.SnapshotExpiredError):
                last = check_snapshot(table.scan(), last)
                tell.send(("read", 1))


def hold(uri: str, number: int, _first: int, tell: Connection) -> None:
    """A tagged snapshot is read twice, long apart, and is the same."""
    with lsmerge.open_table(uri) as table:
        for turn in itertools.count():
            name = f"held-{number}-{os.getpid()}-{turn}"
            with contextlib.suppress(lsmerge.SnapshotExpiredError):
                table.create_tag(name)
                batches = table.scan(tag=name).to_batches()
                begun = [next(batches)]
                before = table.scan(tag=name).to_arrow().sort_by("k").to_pylist()
                time.sleep(HELD_S)
                rest = pa.Table.from_batches([*begun, *batches])
                if rest.sort_by("k").to_pylist() != before:
                    raise AssertionError(f"tag {name} shows other rows than before")
                table.delete_tag(name)
                tell.send(("held", 1))


def check_snapshot(scan: Any, last: dict[int, int]) -> dict[int, int]:
    rows = {row["k"]: row["n"] for row in scan.to_arrow().to_pylist()}
    total = sum(n for k, n in rows.items() if k < ACCOUNTS)
    counters = {k: n for k, n in rows.items() if k >= COUNTERS}
    if total != 0:
        raise AssertionError(f"the accounts of a snapshot add up to {total}: {rows}")
    back = {k: (n, counters.get(k)) for k, n in last.items() if counters.get(k, 0) < n}
    if back:
        raise AssertionError(f"counters went back: {back}")
    return counters


Role = Callable[[str, int, int, Connection], None]


def play(
    niceness: int, role: Role, uri: str, number: int, first: int, tell: Connection, *more: Any
) -> None:
    """In a process of its own, as nice as the one that asked for it: what goes wrong is told."""
    os.nice(niceness - os.nice(0))
    try:
        role(uri, number, first, tell, *more)
    except Exception:  # noqa: BLE001 - whatever it is, it is a violation
        tell.send(("failed", traceback.format_exc(limit=-4)))


@dataclass
class Actor:
    """A role, the process that plays it now, and what is known of its commits."""

    role: Role
    uri: str
    number: int
    more: tuple[Any, ...] = ()
    begun: int = -1
    acknowledged: int = -1
    told: Counter[str] = field(default_factory=Counter)
    waits_s: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def start(self) -> None:
        self.ours, theirs = _SERVER.Pipe()
        # The commit that a kill interrupted is made again.
        first = max(self.begun, self.acknowledged + 1, 0)
        arguments = (os.nice(0), self.role, self.uri, self.number, first, theirs, *self.more)
        self.process = _SERVER.Process(target=play, args=arguments)
        self.process.start()
        theirs.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.listen()
        self.ours.close()

    def listen(self) -> None:
        """Take in what was told so far."""
        with contextlib.suppress(EOFError, ConnectionResetError):
            while self.ours.poll():
                what, value = self.ours.recv()
                self._note(what, value)

    def _note(self, what: str, value: Any) -> None:
        self.told[what] += 1
        if what == "begun":
            self.begun = value
        elif what == "acknowledged":
            self.acknowledged = value
        elif what == "waited":
            self.waits_s.append(value)
        elif what == "failed":
            self.failures.append(value)


def expected(writers: list[Actor]) -> dict[int, int]:
    """What the table holds if every commit begun was made once."""
    found: Counter[int] = Counter()
    for actor in writers:
        for commit in range(actor.begun + 1):
            for row in transfer(actor.number, commit):
                found[row["k"]] += row["n"]
    return {key: found[key] for key in sorted(found)}


def settle(writers: list[Actor], uri: str) -> None:
    """Make the commits again that a kill may have interrupted."""
    with lsmerge.open_table(uri) as table:
        for actor in writers:
            if actor.begun > actor.acknowledged:
                identity = {"commit_user": f"w{actor.number}", "commit_id": actor.begun}
                table.write(transfer(actor.number, actor.begun), **identity)
                actor.acknowledged = actor.begun


def check_all(writers: list[Actor], uri: str) -> None:
    """The table holds exactly what was committed, and every byte of it can be read."""
    settle(writers, uri)
    with lsmerge.open_table(uri) as table:
        rows = {row["k"]: row["n"] for row in table.scan().to_arrow().sort_by("k").to_pylist()}
        wanted = expected(writers)
        if rows != wanted:
            raise AssertionError(f"rows {rows} instead of {wanted}")
        if table.verify().problems:
            raise AssertionError(f"damaged: {table.verify().problems}")


@contextlib.contextmanager
def table_for_load(options: dict[str, str] | None = None) -> Iterator[str]:
    with scratch() as root:
        uri = str(root / "table")
        lsmerge.create_table(uri, SCHEMA, "k", options=OPTIONS | (options or {})).close()
        yield uri


def kill_at_random(kills: int, seed: int) -> Tally:
    """K3: SIGKILL to one of eight processes again and again, which is started anew."""
    tally, draw = Tally(), random.Random(seed)
    with table_for_load() as uri:
        writers = [Actor(write, uri, number) for number in range(4)]
        others = [
            Actor(compact, uri, 1),
            Actor(expire, uri, 1),
            Actor(read, uri, 1),
            Actor(read, uri, 2),
        ]
        actors = [*writers, *others]
        for actor in actors:
            actor.start()
        for number in range(1, kills + 1):
            # Listening wakes it up early; what matters is that the instants are arbitrary.
            wait([actor.ours for actor in actors], timeout=draw.uniform(0, 0.02))
            time.sleep(draw.uniform(0, 0.1))
            for actor in actors:
                actor.listen()
            victim = draw.choice(actors)
            victim.kill()
            victim.start()
            tally.tried += 1
            if number % 100 == 0 or number == kills:
                _check_at_rest(actors, writers, uri, tally)
        for actor in actors:
            actor.kill()
        _sum_up(actors, tally)
    return tally


def _check_at_rest(actors: list[Actor], writers: list[Actor], uri: str, tally: Tally) -> None:
    for actor in actors:
        actor.kill()
    tally.attempt("all processes killed", lambda: check_all(writers, uri))
    for actor in actors:
        actor.start()


def _sum_up(actors: list[Actor], tally: Tally) -> None:
    for actor in actors:
        tally.violations += actor.failures
        for what in ("acknowledged", "compacted", "expired", "read", "held"):
            if actor.told[what]:
                tally.notes[what] += actor.told[what]


def side_by_side(seconds: float) -> Tally:
    """X2, X6: all of them at once for a time, nobody is killed, and nobody may fail."""
    tally = Tally()
    with table_for_load() as uri:
        writers = [Actor(write, uri, number) for number in range(3)]
        others = [Actor(compact, uri, 1), Actor(expire, uri, 1), Actor(read, uri, 1)]
        actors = [*writers, *others, Actor(hold, uri, 1), Actor(hold, uri, 2)]
        for actor in actors:
            actor.start()
        ends = time.monotonic() + seconds
        while time.monotonic() < ends and not any(actor.failures for actor in actors):
            wait([actor.ours for actor in actors], timeout=1)
            for actor in actors:
                actor.listen()
        for actor in actors:
            actor.kill()
        tally.attempt("afterwards", lambda: check_all(writers, uri))
        _sum_up(actors, tally)
        tally.tried = tally.notes["acknowledged"]
    return tally


def many_writers(processes: int, commits: int) -> Tally:
    """X1: processes that commit as fast as they can, beside one that compacts and expires."""
    tally = Tally()
    with table_for_load({"write-only": "true", "snapshot.num-retained.max": "50"}) as uri:
        writers = [Actor(write, uri, number, (commits,)) for number in range(processes)]
        upkeep = Actor(compact, uri, 1)
        began = time.monotonic()
        for actor in (*writers, upkeep):
            actor.start()
        while any(actor.process.is_alive() for actor in writers):
            wait(
                [actor.process.sentinel for actor in writers if actor.process.is_alive()],
                timeout=0.2,
            )
            for actor in (*writers, upkeep):
                actor.listen()
        seconds = time.monotonic() - began
        for actor in (*writers, upkeep):
            actor.kill()
        tally.attempt("afterwards", lambda: check_all(writers, uri))
        _sum_up([*writers, upkeep], tally)
        tally.tried = tally.notes["acknowledged"]
        if tally.tried != processes * commits:
            tally.violations.append(f"{tally.tried} of {processes * commits} commits")
        tally.notes["commits/s"] = round(tally.tried / seconds)
        waits_s = sorted(wait_s for actor in writers for wait_s in actor.waits_s)
        tally.notes["ms for a commit at the median"] = round(1000 * waits_s[len(waits_s) // 2])
        tally.notes["ms for the slowest"] = round(1000 * waits_s[-1])
        tally.notes["times the median for the slowest"] = round(
            waits_s[-1] / waits_s[len(waits_s) // 2]
        )
    return tally
