"""Named places at which a test ends the process, or fails, to see what is left.

`LSMERGE_FAILPOINT=name:kill@k` ends the process by SIGKILL when the place is passed for the k-th time (k = 1 if not
given), `name:error@k` raises a StorageError there, `name:interrupt@k` what Ctrl-C raises, on the main thread. Without
the variable a place costs one comparison.

Invariant: the names in the source are those of `FAILPOINTS`. tests/test_failpoints.py reads the source for it, and
kills a process at each.
"""

import signal
import threading
from collections.abc import Callable
from typing import NamedTuple

from lsmerge.env import FAILPOINT
from lsmerge.errors import InvalidOptionError, StorageError

FAILPOINTS = {
    "directory.before-make": "a directory of the table is missing",
    "directory.after-make": "it is there, and not durable",
    "directory.after-sync": "it is durable",
    "file.before-create": "a directory is open, its new file not there",
    "file.after-create": "a temporary file is there, empty",
    "file.after-write": "some or all bytes are written, not synced",
    "file.before-sync": "all bytes are written",
    "file.after-sync": "all bytes are durable under a temporary name",
    "file.after-link": "the file has its name, which is not durable",
    "file.after-unlink": "the temporary name is gone",
    "file.after-sync-directory": "the file is durable under its name",
    "file.after-rename": "a hint was replaced",
    "file.before-delete": "a file nobody needs is there",
    "file.after-delete": "it is gone, which is not durable",
    "file.after-sync-delete": "it is gone for good",
    "run.after-block": "a block of a run is written",
    "run.before-tail": "all blocks are written, the index is not",
    "run.after-tail": "a run is complete, and not synced",
    "write.after-runs": "all rows of a commit are in durable runs",
    "write.before-discard": "a commit failed and its runs are still there",
    "write.after-publish": "a commit is published, its upkeep not begun",
    "write.after-compaction": "the buckets of a commit are compacted",
    "write.after-upkeep": "compaction and expiry after a commit are done",
    "changelog.after-write": "a changelog file is complete, its commit not published",
    "index.after-write": "an index of dynamic buckets is durable, its commit not published",
    "commit.after-rebase": "an edit is settled for its predecessor",
    "commit.after-fold": "a folded manifest is durable, nothing refers to it",
    "commit.after-manifest": "the manifest of a commit is durable, nothing refers to it",
    "commit.before-publish": "everything but the snapshot is durable",
    "commit.after-publish": "the snapshot is durable, nobody was told",
    "commit.after-hint": "the hint names it",
    "commit.before-settle": "the store failed while publishing",
    "commit.before-withdraw": "a snapshot was published below the mark of expiry",
    "commit.before-discard": "the number went to somebody else, the manifest is still there",
    "compact.after-pick": "what to merge is chosen",
    "compact.after-bucket": "a bucket is merged, its files durable",
    "compact.before-publish": "all buckets are merged",
    "compact.after-publish": "the merged files took the place of the others",
    "compact.before-discard": "a compaction lost, its files are still there",
    "rewrite.after-partition": "a partition is written anew",
    "rewrite.before-publish": "all partitions are written anew",
    "rewrite.after-publish": "the new files took the place of the others",
    "overwrite.before-publish": "rows that replace others are durable",
    "expire.after-record": "changes that outlive their snapshot have a record",
    "expire.before-mark": "snapshots are chosen",
    "expire.after-mark": "snapshots have expired, their files are there",
    "expire.after-snapshot": "a file of an expired snapshot is gone",
    "expire.before-garbage": "all files of expired snapshots are gone, what they referred to is there",
    "expire.after-file": "one such file is gone",
    "expire.after-changes": "changes have expired, their files are there",
    "tag.after-create": "a tag is durable, whether it came too late is not known",
    "tag.after-delete": "a tag is gone, the files only it kept are there",
    "rollback.after-pin": "a tag holds the files to go back to",
    "rollback.after-publish": "the table went back, the tag is there",
    "schema.before-publish": "a schema is checked",
    "schema.after-publish": "it is durable",
    "consumer.after-note": "a consumer's place is noted, the one before is there",
    "consumer.after-forget": "a consumer's place is gone",
    "orphans.after-delete": "one orphan is gone",
    "task.after-finish": "a task's runs are durable, its message is not sent",
    "task.before-commit": "the runs of all tasks are taken over",
}

# What happens at a failpoint; None, and nothing is looked up, unless a test asks for more.
hook: Callable[[str], None] | None = None


def failpoint(name: str) -> None:
    """Pass a named place."""
    if hook is not None:
        hook(name)


class Trigger(NamedTuple):
    """What to do at which passing of which place."""

    name: str
    action: str
    number: int


def parse_trigger(text: str) -> Trigger:
    """`name:kill@k`, `name:error@k` or `name:interrupt@k`."""
    name, _, rest = text.partition(":")
    action, _, number = rest.partition("@")
    if name not in FAILPOINTS or action not in ("kill", "error", "interrupt"):
        raise InvalidOptionError(
            f"LSMERGE_FAILPOINT = {text!r}: give name:kill@k, name:error@k or name:interrupt@k; lsmerge.failpoints "
            "lists the names"
        )
    if not (number or "1").isdecimal():
        raise InvalidOptionError(f"LSMERGE_FAILPOINT = {text!r}: {number!r} is not a whole number")
    return Trigger(name, action, int(number or "1"))


class Fuse:
    """The hook that does what a trigger says, once. Thread-safe."""

    def __init__(self, trigger: Trigger) -> None:
        self._trigger = trigger
        self._passed = 0
        self._lock = threading.Lock()

    def __call__(self, name: str) -> None:
        if name != self._trigger.name:
            return
        with self._lock:
            self._passed += 1
            is_due = self._passed == self._trigger.number
        if is_due and self._trigger.action == "kill":
            signal.raise_signal(signal.SIGKILL)
        if is_due and self._trigger.action == "error":
            raise StorageError(name, "pass", "this failpoint was told to fail")
        if is_due and threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt(name)


if FAILPOINT is not None:
    hook = Fuse(parse_trigger(FAILPOINT))
