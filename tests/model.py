"""The naive judge: what a table must answer, in the most obvious Python.

A table is the list of its commits, a commit is the list of its changes in arrival order; every
answer is computed from that list each time it is asked, so nothing here can be stale. There are no
files, levels, buckets or compactions: what the real table does with those must not be seen from
outside.

What several changes of one key mean is in model_engines.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.model_engines import (
    ADDS,
    ENGINES,
    Change,
    Row,
    Rules,
    combined,
    is_marked,
    merge_order,
    split,
)

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
    overwrites: dict[int, Callable[[Row], bool]] = field(default_factory=dict)
    """By number of a commit that replaces: which earlier rows it takes away."""

    def commit(self, changes: Iterable[Change], snapshot_id: int) -> None:
        """One more commit, published as this snapshot. Columns not named in a row are null."""
        whole = (self._whole(change) for change in changes)
        admitted = [c for c in map(self._with_kind, whole) if self.rules.admits(c)]
        self.commits.append(self._combined(admitted))
        self.publish(snapshot_id)

    def overwrite(
        self, changes: Iterable[Change], snapshot_id: int, takes_away: Callable[[Row], bool]
    ) -> None:
        """A commit in place of all earlier rows for which `takes_away` holds."""
        self.overwrites[len(self.commits)] = takes_away
        self.commit(changes, snapshot_id)

    def publish(self, snapshot_id: int) -> None:
        """A snapshot that shows what the latest commit shows, as after a compaction."""
        self.snapshots[snapshot_id] = len(self.commits)

    def rows(self, snapshot_id: int | None = None) -> dict[Key, Row]:
        """The visible rows by key, now or at a snapshot."""
        count = len(self.commits) if snapshot_id is None else self.snapshots[snapshot_id]
        merged = self._merge(self._standing(count))
        return {key: change.row for key, change in merged.items() if change.kind in ADDS}

    def changelog(self, start: int = 1, end: int | None = None) -> list[tuple[int, Change]]:
        """Without a producer: per commit one change per key, merged within the commit alone.

        Nothing is looked up, so stale changes and deletes of unknown keys are there. Snapshots of
        compactions and overwrites add nothing. Both ends are inclusive. Of a commit of some columns
        deduplicate shows the rows as they are after it.
        """
        last = max(self.snapshots, default=0) if end is None else end
        changes, seen = [], 0
        for snapshot_id, count in sorted(self.snapshots.items()):
            for number, commit in enumerate(self.commits[seen:count], seen):
                if start <= snapshot_id <= last and number not in self.overwrites:
                    merged = self._merge(commit)
                    if self.rules.replaces and any(c.columns for c in commit):
                        merged = self._current(merged, snapshot_id)
                    changes += [(snapshot_id, change) for change in merged.values()]
            seen = count
        return changes

    def key_of(self, row: Row) -> Key:
        """The values of the primary key columns."""
        return tuple(row[name] for name in self.primary_key)

    @property
    def rules(self) -> Rules:
        return Rules(self.columns, self.primary_key, self.options)

    def _whole(self, change: Change) -> Change:
        row = {name: change.row.get(name) for name in self.columns}
        # Where null means no update, so does a column that was not written.
        columns = (
            None if self.rules.engine in ("partial-update", "record-partial") else change.columns
        )
        return Change(change.kind, row, columns)

    def _with_kind(self, change: Change) -> Change:
        name = self.options.get("rowkind.field")
        kind = change.kind if name is None else str(change.row[name])
        return replace(change, kind="-D" if is_marked(change.row, self.rules) else kind)

    def _current(self, keys: Iterable[Key], snapshot_id: int) -> dict[Key, Change]:
        rows = self.rows(snapshot_id)
        absent: Row = dict.fromkeys(self.columns)
        return {
            key: Change("+U", rows[key])
            if key in rows
            else Change("-D", absent | dict(zip(self.primary_key, key, strict=True)))
            for key in keys
        }

    def _combined(self, commit: list[Change]) -> list[Change]:
        """The rows of a commit combined with each other first, in tables that ask for it."""
        if not self.rules.is_on("record.merge.combine-before-upsert"):
            return commit
        groups = self._by_key(commit).values()
        return [change for group in groups for change in combined(group, self.rules)]

    def _standing(self, count: int) -> list[Change]:
        """The changes of the first `count` commits that no overwrite took away."""
        standing: list[Change] = []
        for number, commit in enumerate(self.commits[:count]):
            takes_away = self.overwrites.get(number, lambda _row: False)
            standing = [change for change in standing if not takes_away(change.row)] + commit
        return standing

    def _by_key(self, changes: Iterable[Change]) -> dict[Key, list[Change]]:
        by_key: dict[Key, list[Change]] = {}
        for change in changes:
            by_key.setdefault(self.key_of(change.row), []).append(change)
        return by_key

    def _merge(self, changes: Iterable[Change]) -> dict[Key, Change]:
        rules = self.rules
        descending = self.options.get("sequence.field.sort-order") == "descending"
        paddings = split(self.options.get("sequence.auto-padding", ""))
        by_key = self._by_key(changes)
        for group in by_key.values():
            if paddings[:1] == ["row-kind-flag"]:
                group.sort(key=lambda change: change.kind in ADDS)
        return {
            key: ENGINES[rules.engine](merge_order(group, rules.sequence, descending), rules)
            for key, group in by_key.items()
        }
