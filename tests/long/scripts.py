"""What a crash interrupts: the life of a small table, step by step, under every engine.

Every step can be done again without knowing how it ended: commits have identities, the rest is refused if it was done.
What a user would see after each step is known from a run that nothing disturbs.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import lsmerge
from lsmerge import failpoints
from lsmerge.meta import commit as committing
from lsmerge.storage import turns
from tests.long.references import files_of, referred_files

LATER = 10**14
SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("s", pa.int64()),
        pa.field("n", pa.int64()),
        pa.field("t", pa.string()),
    ]
)


class Newest:
    """A merger of one's own: sums beside the newest row."""

    associative, sees_deletes = True, False

    def merge(self, older: Any, newer: Any) -> Any:
        return newer.replace(n=(older["n"] or 0) + (newer["n"] or 0))


SMALL = {"write-buffer-size": "4 kb", "file.block-size": "4 kb", "write-only": "true"}
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {"changelog-producer": "lookup"},
    "first-row": {"merge-engine": "first-row"},
    "partial-update": {
        "merge-engine": "partial-update",
        "fields.s.sequence-group": "n,t",
        "fields.n.aggregate-function": "sum",
    },
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.n.aggregate-function": "sum",
        "changelog-producer": "full-compaction",
    },
    "versioned": {"merge-engine": "versioned", "merge-engine.versioned.ver-column": "s"},
    "event-time": {"record.merge.mode": "EVENT_TIME_ORDERING", "precombine.field": "s"},
    "custom": {"record.merge.mode": "custom", "record.merge.strategy-id": "newest-sum"},
}


def register() -> None:
    """Let this process know the merger of the engine `custom`."""
    with contextlib.suppress(lsmerge.LsmergeError):
        lsmerge.register_merger("newest-sum", Newest())


@dataclass(frozen=True)
class Step:
    """One call of a user; doing it a second time may be refused with `done`."""

    name: str
    run: Callable[[str], Any]
    done: type[lsmerge.LsmergeError] | tuple[()] = ()

    def do(self, uri: str) -> None:
        """Run it, also where it was done before."""
        try:
            self.run(uri)
        except lsmerge.LsmergeError as error:
            if not isinstance(error, self.done):
                raise


Script = Sequence[Step]


def opened(work: Callable[[lsmerge.Table], Any]) -> Callable[[str], Any]:
    def run(uri: str) -> Any:
        with lsmerge.open_table(uri) as table:
            return work(table)

    return run


def create(options: dict[str, str]) -> Step:
    def run(uri: str) -> None:
        lsmerge.create_table(uri, SCHEMA, "k", options=SMALL | options, exist_ok=True).close()

    return Step("create", run)


def rows(commit: int, keys: Sequence[int], text: str = "x") -> list[dict[str, Any]]:
    return [{"k": key, "s": commit, "n": 1, "t": f"{text}{commit}"} for key in keys]


def upsert(commit: int, keys: Sequence[int], text: str = "x") -> Step:
    def write(table: lsmerge.Table) -> None:
        table.write(rows(commit, keys, text), commit_user="script", commit_id=commit)

    return Step(f"upsert {commit}", opened(write))


def spill(commit: int, keys: Sequence[int]) -> Step:
    """A commit of several runs: its rows are more than the buffer holds."""

    def write(table: lsmerge.Table) -> None:
        if table.latest_snapshot().users["script"].max_identifier >= commit:
            return
        with table.writer(commit_user="script", commit_id=commit) as writer:
            for key in keys:
                writer.write(rows(commit, [key], "long" * 300))

    return Step(f"spill {commit}", opened(write))


def tag(name: str) -> Step:
    return Step(f"tag {name}", opened(lambda table: table.create_tag(name)), lsmerge.TagExistsError)


def untag(name: str) -> Step:
    return Step(
        f"untag {name}", opened(lambda table: table.delete_tag(name)), lsmerge.SnapshotNotFoundError
    )


def alter(column: str) -> Step:
    return Step(
        f"alter {column}",
        opened(lambda table: table.alter(add={column: pa.int32()})),
        lsmerge.SchemaMismatchError,
    )


def consume(table: lsmerge.Table) -> None:
    for _ in table.changelog(consumer="reader"):
        pass


def vacuum(table: lsmerge.Table) -> None:
    table.remove_orphan_files(LATER, dry_run=False)


def orphan(uri: str) -> Path:
    return Path(uri) / "manifest" / f"manifest-{0:032x}.arrow"


def tasks(commit: int, keys: Sequence[int]) -> Step:
    """A commit that two writers make together."""

    def write(table: lsmerge.Table) -> None:
        messages = []
        for part in (keys[::2], keys[1::2]):
            with table.task_writer() as writer:
                writer.write(rows(commit, part))
                messages.append(writer.finish())
        table.commit_tasks(messages, commit_user="script", commit_id=commit)

    return Step(f"tasks {commit}", opened(write))


def overwrite(commit: int, keys: Sequence[int]) -> Step:
    def write(table: lsmerge.Table) -> None:
        table.overwrite(rows(commit, keys, "over"), commit_user="script", commit_id=commit)

    return Step(f"overwrite {commit}", opened(write))


def life(engine: str) -> Script:
    """Create, upsert, flush, tag, compact, alter, expire, remove."""
    return [
        create(ENGINES[engine]),
        upsert(1, [1, 2, 3]),
        upsert(2, [2, 4]),
        tag("early"),
        spill(3, [3, 5, 6]),
        Step("compact", opened(lambda table: table.compact(full=True))),
        alter("extra"),
        upsert(4, [1, 7]),
        Step("expire", opened(lambda table: table.expire_snapshots(retain_max=1))),
        untag("early"),
        Step("vacuum", opened(vacuum)),
    ]


def whole_life(engine: str) -> Script:
    """All that can be interrupted, also what few tables do."""
    retained = {"bucket": "2", "changelog.num-retained.min": "3", "changelog-producer": "lookup"}
    options = retained | ENGINES[engine]
    return [
        create(options),
        upsert(1, range(8)),
        upsert(2, [2, 4]),
        tag("early"),
        spill(3, [3, 5, 6]),
        Step("consume", opened(consume)),
        Step("compact", opened(lambda table: table.compact(full=True))),
        tasks(4, [1, 5, 9]),
        alter("extra"),
        Step("rescale", opened(lambda table: table.rescale(3))),
        Step("consume again", opened(consume)),
        overwrite(5, [1, 2]),
        Step("rollback", opened(lambda table: table.rollback_to(tag="early"))),
        upsert(6, [1, 7]),
        Step("forget consumer", opened(lambda table: table.delete_consumer("reader"))),
        Step("expire", opened(lambda table: table.expire_snapshots(retain_max=2))),
        untag("early"),
        Step("expire again", opened(lambda table: table.expire_snapshots(retain_max=1))),
        upsert(7, [9]),
        Step("leave an orphan", lambda uri: orphan(uri).write_bytes(b"nobody refers to this")),
        Step("vacuum", opened(vacuum)),
    ]


@contextlib.contextmanager
def meddling(name: str, meddle: Callable[[], Any]) -> Iterator[None]:
    """Do something of others when a failpoint is passed for the first time."""
    before, left = failpoints.hook, [meddle]

    def hook(passed: str) -> None:
        if before is not None:
            before(passed)
        if passed == name and left:
            left.pop()()

    failpoints.hook = hook
    try:
        yield
    finally:
        failpoints.hook = before


def meddled(name: str, at: str, run: Step, meddle: Callable[[str], Any], **arguments: Any) -> Step:
    """A step in whose way others come at a failpoint."""

    def both(uri: str) -> None:
        with meddling(at, lambda: meddle(uri)):
            run.run(uri)

    return Step(name, both, **arguments)


def fail_store(_uri: str) -> None:
    raise lsmerge.StorageError("anything", "sync", "the store fails for once")


def lose_answer(_uri: str) -> None:
    """The next file gets its name, and whoever gave it is told that it failed."""
    before, left = failpoints.hook, [True]

    def hook(passed: str) -> None:
        if before is not None:
            before(passed)
        if passed == "file.after-link" and left:
            left.pop()
            raise lsmerge.StorageError("anything", "publish", "the answer is lost")

    failpoints.hook = hook


@opened
def pass_by(table: lsmerge.Table) -> None:
    """Others publish what is there already, and let all before expire: a number is taken and gone."""
    for _ in range(3):
        table.rollback_to(table.latest_snapshot().id)
    table.expire_snapshots(retain_max=1)


full_compaction = Step("compact", opened(lambda table: table.compact(full=True)))


def races(engine: str) -> Script:
    """Others are faster, the store fails: what is rare, once each. Nothing of what others do is to be seen."""
    return [
        create(ENGINES[engine] | {"bucket": "-1"}),
        upsert(1, [1, 2, 3]),
        upsert(2, [4]),
        meddled("lose a number", "commit.before-publish", upsert(3, [5]), full_compaction.run),
        upsert(4, [6]),
        meddled(
            "lose a compaction",
            "compact.before-publish",
            full_compaction,
            full_compaction.run,
            done=lsmerge.CommitConflictError,
        ),
        meddled(
            "fail",
            "commit.after-rebase",
            Step("write", opened(lambda table: table.write(rows(9, [9])))),
            fail_store,
            done=lsmerge.StorageError,
        ),
        meddled("lose an answer", "commit.before-publish", upsert(5, [7]), lose_answer),
        meddled("come too late", "commit.before-publish", upsert(6, [8]), pass_by),
        Step("sort", opened(lambda table: table.sort_compact("t", buckets=2))),
    ]


SCRIPTS: dict[str, Callable[[str], Script]] = {
    "life": life,
    "whole-life": whole_life,
    "races": races,
}


@dataclass(frozen=True)
class Seen:
    """What a user sees of a table."""

    columns: tuple[str, ...]
    rows: tuple[Any, ...]
    tags: dict[str, tuple[Any, ...]] = field(default_factory=dict)


def seen(uri: str) -> Seen | None:
    """What there is to see, None where there is no table; nothing of it is missing or damaged."""
    try:
        table = lsmerge.open_table(uri)
    except lsmerge.TableNotFoundError:
        return None
    with table:
        problems = table.verify().problems
        if problems:
            raise AssertionError(f"{uri} is damaged: {problems}")
        return shown(table)


def shown(table: lsmerge.Table) -> Seen:
    """What reads show."""
    tags = {name: _rows(table.scan(tag=name)) for name in table.tags() if name == "early"}
    return Seen(tuple(table.schema.names), _rows(table.scan()), tags)


def _rows(scan: Any) -> tuple[Any, ...]:
    return tuple(sorted(tuple(row.values()) for row in scan.to_arrow().to_pylist()))


def check_crash(step: Step, before: Seen | None, after: Seen | None, uri: str) -> bool:
    """What a crash within a step left is right, whole, and clean after a vacuum; whether the step had taken effect."""
    found = seen(uri)
    if found not in (before, after):
        raise AssertionError(f"{step.name}: {found} is neither {before} nor {after}")
    if found is not None:
        check_vacuum(uri)
    return found == after


def check_step(step: Step, after: Seen | None, uri: str) -> None:
    """The step can be done on what a crash left, whether it had taken effect or not."""
    step.do(uri)
    last = seen(uri)
    if last != after:
        raise AssertionError(f"{step.name}, done again: {last}, not {after}")


def check_vacuum(uri: str) -> None:
    """After a vacuum the files are those that an independent decoder finds referred to."""
    with lsmerge.open_table(uri) as table:
        table.remove_orphan_files(LATER, dry_run=False)
    there, wanted = files_of(Path(uri)), referred_files(Path(uri))
    if there != wanted:
        raise AssertionError(f"left over: {there - wanted}; missing: {wanted - there}")


@contextlib.contextmanager
def early_folding() -> Iterator[None]:
    """Manifests are folded after a few commits, not after many; a race in one process does not wait for itself."""
    before = committing.MAX_MANIFESTS, turns.PATIENCE_S
    committing.MAX_MANIFESTS, turns.PATIENCE_S = 3, 0.0
    try:
        yield
    finally:
        committing.MAX_MANIFESTS, turns.PATIENCE_S = before
