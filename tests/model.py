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
    partition_by: Sequence[str] = ()
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
        return self._rows_after(
            len(self.commits) if snapshot_id is None else self.snapshots[snapshot_id]
        )

    def changelog(self, start: int = 1, end: int | None = None) -> list[tuple[int, Change]]:
        """What each commit tells, by producer; compactions and overwrites tell nothing.

        Both ends are inclusive.
        """
        last = max(self.snapshots, default=0) if end is None else end
        changes, seen = [], 0
        for snapshot_id, count in sorted(self.snapshots.items()):
            for number in range(seen, count):
                if start <= snapshot_id <= last and number not in self.overwrites:
                    changes += [(snapshot_id, change) for change in self._told(number)]
            seen = count
        return changes

    def _told(self, number: int) -> list[Change]:
        """Without a producer one change per key, merged within the commit alone: nothing is looked
        up, so stale changes and deletes of unknown keys are there. Of a commit of some columns
        deduplicate shows the rows as they are after it.
        """
        commit, producer = self.commits[number], self.options.get("changelog-producer", "none")
        if producer == "lookup":
            return self._looked_up(number)
        if producer == "input":
            return commit
        merged = self._merge(commit)
        if self.rules.replaces and any(change.columns for change in commit):
            merged = self._current(merged, number + 1)
        return list(merged.values())

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
        changes = self._standing(count)
        homes: dict[Key, Row] = {}
        if self._keys_stay:
            changes, homes = self._at_home(changes)
        visible = {k: c.row for k, c in self._merge(changes).items() if c.kind in ADDS}
        return {key: {**row, **homes.get(key, {})} for key, row in visible.items()}

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

    @property
    def _keys_stay(self) -> bool:
        """Whether a key keeps the partition of its first row, and later rows take that on."""
        is_open = not set(self.partition_by) <= set(self.primary_key)
        return is_open and self.rules.engine in ("partial-update", "aggregation")

    def _at_home(self, changes: Iterable[Change]) -> tuple[list[Change], dict[Key, Row]]:
        """The changes that have an effect, and the partition values of each key.

        A change that leaves nothing of a key leaves it without a home; a retract without partition values of such
        a key has no effect.
        """
        homes: dict[Key, Row] = {}
        kept: list[Change] = []
        for change in changes:
            key, values = self.key_of(change.row), {n: change.row[n] for n in self.partition_by}
            is_stray = change.kind not in ADDS and set(values.values()) == {None}
            if is_stray and key not in homes:
                continue
            homes.setdefault(key, values)
            kept.append(change)
            if change.kind in self._removing_kinds:
                del homes[key]
        return kept, homes

    @property
    def _removing_kinds(self) -> Sequence[str]:
        if self.options.get("delete.behavior") == "allow":
            return ("-U", "-D")
        return ("-D",) if any("remove-record" in name for name in self.options) else ()

    def _with_kind(self, change: Change) -> Change:
        name = self.options.get("rowkind.field")
        kind = change.kind if name is None else str(change.row[name])
        return replace(change, kind="-D" if is_marked(change.row, self.rules) else kind)

    def _current(self, keys: Iterable[Key], count: int) -> dict[Key, Change]:
        rows = self._rows_after(count)
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
