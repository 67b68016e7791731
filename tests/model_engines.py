"""What merge engines mean, a row at a time, in the most obvious Python.

A merge engine is one function: all changes of one key, oldest first, and the table's rules, to the
merged change of that key. A further engine is a further function in ENGINES. Engines that combine
columns give every column of the changes that count to a step function, one value at a time.
"""

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


@dataclass(frozen=True)
class Rules:
    """What a table's options, under their canonical names, say to its engine."""

    columns: Sequence[str]
    primary_key: Sequence[str]
    options: Mapping[str, str]

    @property
    def engine(self) -> str:
        if self.options.get("record.merge.mode") == "custom":
            return "custom"
        return self.options.get("merge-engine", "deduplicate")

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


def deduplicate(changes: Sequence[Change], _rules: Rules) -> Change:
    """The newest change stands for its key, as it is; if it is a retract, the key is absent."""
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
    rows = changes_that_count(changes, rules)
    row = {name: column_value(name, rows, rules) for name in rules.columns}
    row |= {name: changes[0].row[name] for name in rules.primary_key}
    return Change("+I" if any(c.kind in ADDS for c in rows) else "-D", row)


def changes_that_count(changes: Sequence[Change], rules: Rules) -> list[Change]:
    """Those after the last that removed the row."""
    removing = set[str]()
    if rules.is_on("partial-update.remove-record-on-delete"):
        removing = {"-D"}
    if rules.is_on("aggregation.remove-record-on-delete"):
        removing = {"-D"}
    if rules.options.get("delete.behavior") == "allow":
        removing = {"-D", "-U"}
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


ENGINES: dict[str, Callable[[Sequence[Change], Rules], Change]] = {
    "deduplicate": deduplicate,
    "first-row": first_row,
    "versioned": versioned,
    "partial-update": combine,
    "aggregation": combine,
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
        ordered = nulls + sorted(values, key=lambda c: c.row[name], reverse=descending)  # type: ignore[arg-type,return-value]
    return ordered
