"""The naive judge: what a table must answer, in the most obvious Python.

A table is the list of its commits, a commit is the list of its changes in arrival order; every
answer is computed from that list each time it is asked, so nothing here can be stale. There are no
files, levels, buckets or compactions: what the real table does with those must not be seen from
outside.

What several changes of one key mean is in model_engines.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.model_engines import ADDS, ENGINES, Change, Row, Rules, merge_order

Key = tuple[object, ...]

KINDS = ("+I", "-U", "+U", "-D")


@dataclass
class Model:
    """A table as a list of commits."""

    columns: Sequence[str]
    primary_key: Sequence[str]
    options: Mapping[str, str] = field(default_factory=dict)
    """Under their canonical names."""
    commits: list[list[Change]] = field(default_factory=list)
    snapshots: dict[int, int] = field(default_factory=dict)
    """How many commits each snapshot shows. A compaction makes a snapshot without a commit."""

    def commit(self, changes: Iterable[Change], snapshot_id: int) -> None:
        """One more commit, published as this snapshot. Columns not named in a row are null."""
        whole = (Change(c.kind, {n: c.row.get(n) for n in self.columns}) for c in changes)
        self.commits.append([c for c in map(self._with_kind, whole) if self.rules.admits(c)])
        self.publish(snapshot_id)

    def publish(self, snapshot_id: int) -> None:
        """A snapshot that shows what the latest commit shows, as after a compaction."""
        self.snapshots[snapshot_id] = len(self.commits)

    def rows(self, snapshot_id: int | None = None) -> dict[Key, Row]:
        """The visible rows by key, now or at a snapshot."""
        return self._rows_after(
            len(self.commits) if snapshot_id is None else self.snapshots[snapshot_id]
        )

    def changelog(self, start: int = 1, end: int | None = None) -> list[tuple[int, Change]]:
        """What each commit tells, by producer; compactions tell nothing. Both ends are inclusive."""
        last = max(self.snapshots, default=0) if end is None else end
        changes, seen = [], 0
        for snapshot_id, count in sorted(self.snapshots.items()):
            for number in range(seen, count):
                if start <= snapshot_id <= last:
                    changes += [(snapshot_id, change) for change in self._told(number)]
            seen = count
        return changes

    def _told(self, number: int) -> list[Change]:
        """Without a producer one change per key, merged within the commit alone: nothing is looked
        up, so stale changes and deletes of unknown keys are there."""
        commit, producer = self.commits[number], self.options.get("changelog-producer", "none")
        if producer == "lookup":
            return self._looked_up(number)
        return commit if producer == "input" else list(self._merge(commit).values())

    def _looked_up(self, number: int) -> list[Change]:
        before, after = self._rows_after(number), self._rows_after(number + 1)
        told = []
        for key in dict.fromkeys(self.key_of(change.row) for change in self.commits[number]):
            old, new = before.get(key), after.get(key)
            if old is not None and new is not None:
                pair = [Change("-U", old), Change("+U", new)]
                told += [] if self._is_silent(old, new) else pair
            elif old is not None:
                told.append(Change("-D", old))
            elif new is not None:
                told.append(Change("+I", new))
        return told

    def _is_silent(self, old: Row, new: Row) -> bool:
        """Whether an update is too little to tell."""
        ignored = self.options.get("changelog-producer.row-deduplicate-ignore-fields", "")
        is_equal = all(old[n] == new[n] for n in self.columns if n not in ignored.split(","))
        deduplicates = self.rules.is_on("changelog-producer.row-deduplicate")
        return is_equal and (deduplicates or self.rules.engine in ("first-row", "versioned"))

    def _rows_after(self, count: int) -> dict[Key, Row]:
        merged = self._merge(change for commit in self.commits[:count] for change in commit)
        return {key: change.row for key, change in merged.items() if change.kind in ADDS}

    def key_of(self, row: Row) -> Key:
        """The values of the primary key columns."""
        return tuple(row[name] for name in self.primary_key)

    @property
    def rules(self) -> Rules:
        return Rules(self.columns, self.primary_key, self.options)

    def _with_kind(self, change: Change) -> Change:
        name = self.options.get("rowkind.field")
        return change if name is None else Change(str(change.row[name]), change.row)

    def _merge(self, changes: Iterable[Change]) -> dict[Key, Change]:
        by_key: dict[Key, list[Change]] = {}
        for change in changes:
            by_key.setdefault(self.key_of(change.row), []).append(change)
        rules = self.rules
        descending = self.options.get("sequence.field.sort-order") == "descending"
        return {
            key: ENGINES[rules.engine](merge_order(group, rules.sequence, descending), rules)
            for key, group in by_key.items()
        }
