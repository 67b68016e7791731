"""The naive judge: what a table must answer, in the most obvious Python.

A table is the list of its commits, a commit is the list of its changes in arrival order; every
answer is computed from that list each time it is asked, so nothing here can be stale. There are no
files, levels, buckets or compactions: what the real table does with those must not be seen from
outside.

A merge engine is one function: all changes of one key, oldest first, to the merged change of that
key. A further engine is a further function in ENGINES.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

Row = dict[str, object]
Key = tuple[object, ...]

ADDS = ("+I", "+U")
KINDS = ("+I", "-U", "+U", "-D")


@dataclass(frozen=True)
class Change:
    """One row and what it says about its key."""

    kind: str
    row: Row


def deduplicate(changes: Sequence[Change]) -> Change:
    """The newest change stands for its key, as it is; if it is a retract, the key is absent."""
    return changes[-1]


ENGINES: dict[str, Callable[[Sequence[Change]], Change]] = {"deduplicate": deduplicate}


def merge_order(
    changes: Iterable[Change], sequence: Sequence[str] = (), descending: bool = False
) -> list[Change]:
    """Oldest first: by the sequence fields in turn, null before any value, ties by arrival."""
    ordered = list(changes)
    for name in reversed(sequence):  # stable sorts, least significant field first
        nulls = [change for change in ordered if change.row[name] is None]
        values = [change for change in ordered if change.row[name] is not None]
        ordered = nulls + sorted(values, key=lambda c: c.row[name], reverse=descending)  # type: ignore[arg-type,return-value]
    return ordered


@dataclass
class Model:
    """A table as a list of commits."""

    columns: Sequence[str]
    primary_key: Sequence[str]
    sequence: Sequence[str] = ()
    descending: bool = False
    engine: str = "deduplicate"
    commits: list[list[Change]] = field(default_factory=list)
    snapshots: dict[int, int] = field(default_factory=dict)
    """How many commits each snapshot shows. A compaction makes a snapshot without a commit."""

    def commit(self, changes: Iterable[Change], snapshot_id: int) -> None:
        """One more commit, published as this snapshot. Columns not named in a row are null."""
        self.commits.append(
            [Change(c.kind, {name: c.row.get(name) for name in self.columns}) for c in changes]
        )
        self.publish(snapshot_id)

    def publish(self, snapshot_id: int) -> None:
        """A snapshot that shows what the latest commit shows, as after a compaction."""
        self.snapshots[snapshot_id] = len(self.commits)

    def rows(self, snapshot_id: int | None = None) -> dict[Key, Row]:
        """The visible rows by key, now or at a snapshot."""
        count = len(self.commits) if snapshot_id is None else self.snapshots[snapshot_id]
        merged = self._merge(change for commit in self.commits[:count] for change in commit)
        return {key: change.row for key, change in merged.items() if change.kind in ADDS}

    def changelog(self, start: int = 1, end: int | None = None) -> list[tuple[int, Change]]:
        """Without a producer: per commit one change per key, merged within the commit alone.

        Nothing is looked up, so stale changes and deletes of unknown keys are there. Snapshots of
        compactions add nothing. Both ends are inclusive.
        """
        last = max(self.snapshots, default=0) if end is None else end
        changes, seen = [], 0
        for snapshot_id, count in sorted(self.snapshots.items()):
            for commit in self.commits[seen:count]:
                if start <= snapshot_id <= last:
                    changes += [(snapshot_id, change) for change in self._merge(commit).values()]
            seen = count
        return changes

    def key_of(self, row: Row) -> Key:
        """The values of the primary key columns."""
        return tuple(row[name] for name in self.primary_key)

    def _merge(self, changes: Iterable[Change]) -> dict[Key, Change]:
        by_key: dict[Key, list[Change]] = {}
        for change in changes:
            by_key.setdefault(self.key_of(change.row), []).append(change)
        resolve = ENGINES[self.engine]
        return {
            key: resolve(merge_order(group, self.sequence, self.descending))
            for key, group in by_key.items()
        }
