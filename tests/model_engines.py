"""What merge engines mean, a row at a time, in the most obvious Python.

A merge engine is one function: all changes of one key, oldest first, and the table's rules, to the
merged change of that key. A further engine is a further function in ENGINES. Engines that combine
columns give every column of the changes that count to a step function, one value at a time.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.custom_mergers import folded
from tests.own_functions import OWN

Row = dict[str, object]

ADDS = ("+I", "+U")
ALIASES = {
    "string_agg": "listagg",
    "last_value_ignore_nulls": "last_non_null_value",
    "first_value_ignore_nulls": "first_non_null_value",
    "first_not_null_value": "first_non_null_value",
}


@dataclass(frozen=True)
class Change:
    """One row and what it says about its key."""

    kind: str
    row: Row
    columns: Sequence[str] | None = None
    """Those that were written, None for all."""


@dataclass(frozen=True)
class Rules:
    """What a table's options, under their canonical names, say to its engine."""

    columns: Sequence[str]
    primary_key: Sequence[str]
    options: Mapping[str, str]

    @property
    def engine(self) -> str:
        mode = self.options.get("record.merge.mode")
        if mode is not None:
            return "record-partial" if "record.merge.partial-mode" in self.options else mode
        return self.options.get("merge-engine", "deduplicate")

    @property
    def replaces(self) -> bool:
        """Whether the newest row stands for its key as it is."""
        return self.engine in ("deduplicate", "commit-time-ordering", "event-time-ordering")

    @property
    def ordering(self) -> list[str]:
        """The event-time columns, none where arrival alone orders rows."""
        if self.options.get("record.merge.mode") != "event-time-ordering":
            return []
        return split(self.options.get("record.merge.ordering-fields", ""))

    @property
    def sequence(self) -> list[str]:
        return split(self.options.get("sequence.field", ""))

    @property
    def groups(self) -> dict[tuple[str, ...], list[str]]:
        """Ordering columns and members of each sequence group."""
        names = [re.fullmatch(r"fields\.(.*)\.sequence-group", name) for name in self.options]
        return {tuple(split(n[1])): split(self.options[n[0]]) for n in names if n}

    def group_of(self, column: str) -> tuple[str, ...] | None:
        """The ordering columns of the group that a column is in."""
        found = [o for o, members in self.groups.items() if column in (*o, *members)]
        return found[0] if found else None

    def function(self, column: str) -> str:
        own = self.options.get(f"fields.{column}.aggregate-function")
        default = own or self.options.get("fields.default-aggregate-function")
        if self.replaces:
            return "last_value"
        if self.engine == "partial-update":
            return (default or "last_value") if self.group_of(column) else "last_non_null_value"
        return "last_value" if column in self.sequence else default or "last_non_null_value"

    def is_on(self, option: str) -> bool:
        return self.options.get(option) == "true"

    def admits(self, change: Change) -> bool:
        """Whether a change enters the table at all."""
        ignored = self.is_on("ignore-delete") or self.options.get("delete.behavior") == "ignore"
        if change.kind in ADDS:
            return True
        if change.kind == "-U" and self.is_on("partial-update.remove-record-on-delete"):
            return False
        return not ignored and self.engine != "versioned"


def split(names: str) -> list[str]:
    """The names of an option that lists them."""
    return [name.strip() for name in names.split(",") if name.strip()]


def deduplicate(changes: Sequence[Change], rules: Rules) -> Change:
    """The newest change stands for its key, as it is; if it is a retract, the key is absent."""
    if any(change.columns is not None for change in changes):
        return column_by_column(changes, rules)
    return changes[-1]


def first_row(changes: Sequence[Change], _rules: Rules) -> Change:
    """The first change stays for ever."""
    return changes[0]


def versioned(changes: Sequence[Change], rules: Rules) -> Change:
    """A change with the same or a greater version replaces; one without a version never does."""
    name = rules.options["merge-engine.versioned.ver-column"]
    winner = changes[0]
    for change in changes[1:]:
        new, old = change.row[name], winner.row[name]
        if new is not None and (old is None or new >= old):  # type: ignore[operator]
            winner = change
    return winner


def custom(changes: Sequence[Change], rules: Rules) -> Change:
    """What the merger makes of the rows, one after the other."""
    ordering = split(rules.options.get("record.merge.ordering-fields", ""))
    rows = [(change.kind, change.row) for change in changes]
    name = rules.options["record.merge.strategy-id"]
    return Change(*folded(name, rows, ordering or rules.sequence))


def combine(changes: Sequence[Change], rules: Rules) -> Change:
    """Each column by its function; a key without an add is absent."""
    if any(change.columns is not None for change in changes):
        return column_by_column(changes, rules)
    rows = changes_that_count(changes, rules)
    row = {name: column_value(name, rows, rules) for name in rules.columns}
    row |= {name: changes[0].row[name] for name in rules.primary_key}
    return Change("+I" if any(c.kind in ADDS for c in rows) else "-D", row)


def column_by_column(changes: Sequence[Change], rules: Rules) -> Change:
    """Where changes wrote some columns only: each column by the changes that wrote it.

    A removal empties the columns that it wrote. If all others are null then, the row is gone.
    """
    values = [name for name in rules.columns if name not in rules.primary_key]
    written: dict[str, list[Change]] = {name: [] for name in values}
    is_there = False
    for change in changes:
        targets = values if change.columns is None else change.columns
        others = [name for name in values if name not in targets]
        is_removal = change.kind in removing_kinds(rules)
        if is_removal and all(column_value(n, written[n], rules) is None for n in others):
            written, is_there = {name: [] for name in values}, False
            continue
        for name in targets:
            if name in written:
                written[name] = [] if is_removal else [*written[name], change]
        is_there = is_there or change.kind in ADDS
    row = {name: column_value(name, rows, rules) for name, rows in written.items()}
    row |= {name: changes[0].row[name] for name in rules.primary_key}
    return Change("+I" if is_there else "-D", {name: row[name] for name in rules.columns})


def removing_kinds(rules: Rules) -> set[str]:
    """The kinds of changes that remove the row."""
    if rules.options.get("delete.behavior") == "allow" or rules.replaces:
        return {"-D", "-U"}
    removes = ("partial-update.remove-record-on-delete", "aggregation.remove-record-on-delete")
    return {"-D"} if any(map(rules.is_on, removes)) else set()


def changes_that_count(changes: Sequence[Change], rules: Rules) -> list[Change]:
    """Those after the last that removed the row."""
    removing = removing_kinds(rules)
    counting: list[Change] = []
    for change in changes:
        counting = [] if change.kind in removing else [*counting, change]
    listed = split(rules.options.get("partial-update.remove-record-on-sequence-group", ""))
    for order in rules.groups:
        if set(order) & set(listed):
            counting = after_group_removal(counting, order)
    return counting


def after_group_removal(changes: Sequence[Change], order: Sequence[str]) -> list[Change]:
    """A -D that is not older in the group removes the row, also for changes that come later but
    are older in the group. Changes without a place in the group have nothing to do with it."""
    counting: list[Change] = []
    greatest: Change | None = None
    removal: Change | None = None
    for change in changes:
        if not has_place(change, order):
            counting.append(change)
            continue
        if removal is not None and is_older(change, removal, order):
            continue
        is_accepted = greatest is None or not is_older(change, greatest, order)
        greatest = change if is_accepted else greatest
        counting.append(change)
        if is_accepted and change.kind == "-D":
            counting, removal = [], change
    return counting


def has_place(change: Change, order: Sequence[str]) -> bool:
    return any(change.row[name] is not None for name in order)


def is_older(change: Change, than: Change, order: Sequence[str]) -> bool:
    return merge_order([than, change], order)[0] is change


def canonical(function: str) -> str:
    plain = function.lower().replace("-", "_")
    return ALIASES.get(plain, plain)


def column_value(name: str, rows: Sequence[Change], rules: Rules) -> object:
    order = rules.group_of(name)
    if order is not None:
        rows = merge_order([c for c in rows if has_place(c, order)], order)
        if name in order:
            return rows[-1].row[name] if rows else None
    untouched = rules.engine == "partial-update" and order is None
    if untouched or rules.is_on(f"fields.{name}.ignore-retract"):
        rows = [c for c in rows if c.kind in ADDS]
    given = rules.function(name)
    function = canonical(given)
    if function == "first_value":
        return rows[0].row[name] if rows else None
    delimiter = rules.options.get(f"fields.{name}.{given.lower()}.delimiter", ",")
    value: Any = None
    for change in rows:
        value = step(function, value, change.row[name], change.kind in ADDS, delimiter)
    return value


def step(function: str, old: Any, new: Any, is_add: bool, delimiter: str = ",") -> Any:
    """One more value, added or taken back."""
    if function == "last_value":
        return new if is_add else None
    if new is None:
        return old
    if function == "last_non_null_value":
        return new if is_add else None
    if function in OWN and not is_add:
        return OWN[function].retract(old, new)  # type: ignore[attr-defined]
    if function == "sum" and not is_add:
        return -new if old is None else old - new
    if function == "product" and not is_add:
        return None if old is None else quotient(old, new)
    if old is None:
        return new
    if function in OWN:
        return OWN[function](old, new)
    return {
        "sum": lambda: old + new,
        "product": lambda: old * new,
        "max": lambda: max(old, new),
        "min": lambda: min(old, new),
        "bool_or": lambda: old or new,
        "bool_and": lambda: old and new,
        "first_non_null_value": lambda: old,
        "listagg": lambda: old + delimiter + new,
    }[function]()


def quotient(dividend: Any, divisor: Any) -> Any:
    """Of integers, without the fraction."""
    if not isinstance(dividend, int):
        return dividend / divisor
    size = abs(dividend) // abs(divisor)
    return size if (dividend < 0) == (divisor < 0) else -size


def is_marked(row: Row, rules: Rules) -> bool:
    """Whether a column says that the row is a delete."""
    if "record.merge.mode" not in rules.options:
        return False
    value = row.get(rules.options.get("record.merge.delete-field", ""))
    text = str(value).lower() if isinstance(value, bool) else str(value)
    by_marker = value is not None and text == rules.options.get("record.merge.delete-marker")
    return by_marker or row.get("_hoodie_is_deleted") is True


def is_untimed(change: Change, rules: Rules) -> bool:
    return change.kind not in ADDS and any(change.row[name] is None for name in rules.ordering)


def event_time(changes: Sequence[Change], rules: Rules) -> Change:
    """One after the other: what is not older replaces; an untimed delete replaces, and is replaced by, anything."""
    if any(change.columns is not None for change in changes):
        untimed = [place for place, change in enumerate(changes) if is_untimed(change, rules)]
        later = changes[untimed[-1] :] if untimed else changes
        return column_by_column(merge_order(later, rules.ordering), rules)
    best = changes[0]
    for change in changes[1:]:
        timeless = is_untimed(change, rules) or is_untimed(best, rules)
        if timeless or not is_older(change, best, rules.ordering):
            best = change
    return best


def record_partial(changes: Sequence[Change], rules: Rules) -> Change:
    """Of the changes that no delete hides, each column's last value that says something."""
    rows = record_operands(changes, rules)[1]
    if not rows:
        return Change("-D", changes[-1].row)
    marker = rules.options.get("record.merge.unavailable-value")
    row = {}
    for name in rules.columns:
        values = [c.row[name] for c in rows]
        told = [v for v in values if v != marker]  # without a marker: the values that are not null
        row[name] = told[-1] if told else marker
    return Change("+I", row)


def record_operands(changes: Sequence[Change], rules: Rules) -> tuple[list[Change], list[Change]]:
    """The deletes that still hide something, and the rows that count, oldest first."""
    untimed = [place for place, change in enumerate(changes) if is_untimed(change, rules)]
    later = changes[untimed[-1] + 1 :] if untimed else changes
    ordered = merge_order(later, rules.ordering)
    timed = [place for place, change in enumerate(ordered) if change.kind not in ADDS]
    deletes = [changes[place] for place in untimed[-1:]] + [ordered[place] for place in timed[-1:]]
    return deletes, ordered[timed[-1] + 1 :] if timed else ordered


def combined(changes: Sequence[Change], rules: Rules) -> list[Change]:
    """The changes of one key in one commit: its deletes, and one row for all others."""
    deletes, rows = record_operands(changes, rules)
    return [*deletes, *([record_partial(rows, rules)] if rows else [])]


ENGINES: dict[str, Callable[[Sequence[Change], Rules], Change]] = {
    "deduplicate": deduplicate,
    "first-row": first_row,
    "versioned": versioned,
    "partial-update": combine,
    "aggregation": combine,
    "commit-time-ordering": deduplicate,
    "event-time-ordering": event_time,
    "record-partial": record_partial,
    "custom": custom,
}


def merge_order(
    changes: Iterable[Change], sequence: Sequence[str] = (), descending: bool = False
) -> list[Change]:
    """Oldest first: by the sequence fields in turn, null before any value, ties by arrival."""
    ordered = list(changes)
    for name in reversed(sequence):  # stable sorts, least significant field first
        nulls = [change for change in ordered if change.row[name] is None]
        values = [change for change in ordered if change.row[name] is not None]
        ordered = nulls + sorted(values, key=lambda c: rank(c.row[name]), reverse=descending)
    return ordered


def rank(value: Any) -> Any:
    """What a value is ordered by: of numbers -0.0 is below 0.0, and not-a-number above all."""
    if not isinstance(value, float):
        return value
    is_nan = math.isnan(value)
    return (is_nan, 0.0 if is_nan else value, 0.0 if is_nan else math.copysign(1.0, value))
