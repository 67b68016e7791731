"""Mergers that users write in Python: what they see of the rows, and where they are registered.

A merger is an object, or a class without arguments, with one of

    merge(older, newer)     two records of one key -> a row (a mapping), one of the records, or None: deleted
    merge_batch(groups)     many keys at once -> a RecordBatch with a row per key, or (RecordBatch, deleted mask)

The rows of a key are folded from the left, oldest first; a key with a single row never reaches a merger. Optional:

    partial_merge(older, newer)   like merge where older rows may be elsewhere; NotImplemented keeps both rows
    associative = True            merge itself may be used there
    sees_deletes = False          the table handles deletes: one removes all that is older
    forgets_deletes = True        merge(a delete, newer) is always newer, so a full compaction may drop deletes
    strategy_id = "..."           what a table's record.merge.strategy-id means; the registered name by default

A merger is pure, and called from several threads at once. A table only ever names its merger: nothing is imported
because a table says so.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lsmerge.errors import InvalidOptionError, NotRegisteredError
from lsmerge.instances import instance_of
from lsmerge.rowkind import SYMBOLS, RowKind


class Record(Mapping[str, Any]):
    """One row of a key: a mapping from every column to its value, which cannot be changed.

    Values are Python's; a time or timestamp with nanoseconds that Python cannot hold stays an Arrow scalar. A delete
    may hold nothing but its key.
    """

    __slots__ = ("_ordering", "_values", "place", "row_kind")

    def __init__(
        self,
        values: dict[str, Any],
        kind: RowKind = RowKind.INSERT,
        ordering: Sequence[str] = (),
        place: int | None = None,
    ) -> None:
        self._values = values
        self.row_kind = kind
        self._ordering = ordering
        # Where the row lies in Arrow data, from which it can be taken without a conversion.
        self.place = place

    @property
    def kind(self) -> str:
        """`+I`, `-U`, `+U` or `-D`."""
        return SYMBOLS[self.row_kind]

    @property
    def is_delete(self) -> bool:
        """Whether the row takes its key away: `-D` or `-U`."""
        return bool(self.row_kind & 1)

    @property
    def ordering(self) -> tuple[Any, ...]:
        """The values of the table's ordering fields."""
        return tuple(self._values[name] for name in self._ordering)

    def replace(self, **values: Any) -> dict[str, Any]:
        """The row with other values in some columns."""
        return {**self._values, **values}

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Record({self.kind} {self._values})"

    def merged(self, *, is_delete: bool) -> "Record":
        """The same row as the outcome of a merge."""
        kind = RowKind.DELETE if is_delete else RowKind.INSERT
        return Record(self._values, kind, self._ordering, self.place)


@dataclass(frozen=True, slots=True)
class MergeGroups:
    """The rows of many keys, as `merge_batch` sees them.

    `rows` has the table's columns; the rows of a key are next to each other, oldest first. Group g is the rows from
    `offsets[g]` up to `offsets[g + 1]` (int32, so that `pyarrow.ListArray.from_arrays(offsets, column)` makes a list
    per key), two at least.
    """

    rows: pa.RecordBatch
    offsets: pa.Array
    is_delete: pa.Array
    ordering: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def oldest(self) -> pa.RecordBatch:
        """The first row of each key."""
        return self.rows.take(self.offsets.slice(0, len(self)))

    def newest(self) -> pa.RecordBatch:
        """The last row of each key."""
        import pyarrow.compute as pc

        return self.rows.take(pc.subtract(self.offsets.slice(1), pa.scalar(1, pa.int32())))

    def group_numbers(self) -> pa.Array:
        """For each row the number of its key, as int32: what to group by."""
        import pyarrow.compute as pc

        lists = pa.ListArray.from_arrays(self.offsets, self.is_delete)
        return pc.list_parent_indices(lists).cast(pa.int32())


@dataclass(frozen=True, slots=True)
class Merger:
    """A registered merger and what it says of itself."""

    name: str
    given: Any

    @property
    def strategy_id(self) -> str:
        return str(getattr(self.given, "strategy_id", self.name))

    @property
    def is_associative(self) -> bool:
        return getattr(self.given, "associative", False) is True

    @property
    def has_partial_merge(self) -> bool:
        return callable(getattr(self.given, "partial_merge", None))

    @property
    def has_records(self) -> bool:
        return callable(getattr(self.given, "merge", None))

    @property
    def has_batches(self) -> bool:
        return callable(getattr(self.given, "merge_batch", None))

    @property
    def sees_deletes(self) -> bool:
        return getattr(self.given, "sees_deletes", True) is not False

    @property
    def forgets_deletes(self) -> bool:
        return getattr(self.given, "forgets_deletes", False) is True


_registered: dict[str, Merger] = {}


def register_merger(name: str, merger: Any) -> None:
    """Make a merger known to this process, under a name or strategy id that tables refer to.

    Registering a name again replaces its merger.

    >>> import lsmerge, pyarrow as pa
    >>> class Adding:
    ...     associative, sees_deletes = True, False
    ...     def merge(self, older, newer):
    ...         return newer.replace(n=older["n"] + newer["n"])
    >>> lsmerge.register_merger("adding", Adding)
    >>> options = {"record.merge.mode": "custom", "record.merge.strategy-id": "adding"}
    >>> t = lsmerge.create_table("memory://adding", pa.schema({"k": pa.int64(), "n": pa.int64()}), "k", options=options)
    >>> _ = t.upsert([{"k": 1, "n": 5}])
    >>> _ = t.upsert([{"k": 1, "n": 3}])
    >>> t.get(1)
    {'k': 1, 'n': 8}
    """
    if not isinstance(name, str) or not name.strip():
        raise InvalidOptionError(f"merger name {name!r}: give a name or strategy id as text")
    _registered[name.strip()] = merger_of(name.strip(), merger)


def merger_of(name: str, merger: Any) -> Merger:
    """What a user gave as a merger, checked; a class is instantiated."""
    given = instance_of(f"merger {name!r}", merger)
    for flag in ("associative", "sees_deletes", "forgets_deletes"):
        if not isinstance(getattr(given, flag, True), bool):
            raise InvalidOptionError(f"merger {name!r}: its {flag} is not True or False")
    checked = Merger(name, given)
    if not (checked.has_records or checked.has_batches):
        raise InvalidOptionError(
            f"merger {name!r} is a {type(given).__name__} without merge(older, newer) or merge_batch(groups)"
        )
    return checked


def find_merger(strategy_id: str | None, implementations: Sequence[str]) -> Merger:
    """The merger that a table names, or NotRegisteredError.

    Of the implementations the first with the strategy id. One of them that is not registered may be the one that other
    processes use, so it is not passed over.
    """
    for name in implementations:
        merger = _registered.get(name)
        if merger is None:
            raise _not_registered(f"implementation {name!r}", name)
        if strategy_id in (None, merger.strategy_id, name):
            return merger
    if implementations:
        listed = ", ".join(implementations)
        raise _not_registered(f"strategy {strategy_id!r} among {listed}", str(strategy_id))
    found = _registered.get(str(strategy_id)) or _with_strategy(strategy_id)
    if found is None:
        raise _not_registered(f"strategy {strategy_id!r}", str(strategy_id))
    return found


def _with_strategy(strategy_id: str | None) -> Merger | None:
    return next((m for m in _registered.values() if m.strategy_id == strategy_id), None)


def _not_registered(what: str, name: str) -> NotRegisteredError:
    return NotRegisteredError(
        f"merger of {what} is not registered in this process; rows of one key cannot be merged: "
        f"call lsmerge.register_merger({name!r}, ...) first"
    )
