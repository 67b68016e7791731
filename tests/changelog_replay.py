"""A reader of changes in the most obvious Python: it applies each change and complains about any that does not fit.

Also a way to let somebody else commit at the worst moment.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import lsmerge

Row = dict[str, Any]
SYSTEM = ("_row_kind", "_snapshot_id", "_commit_timestamp")


@dataclass
class Replay:
    """The rows that a complete changelog has told so far, by key."""

    primary_key: Sequence[str]
    rows: dict[tuple[Any, ...], Row] = field(default_factory=dict)
    is_deduplicated: bool = False
    _pending: Row | None = None

    def apply(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            for change in batch.to_pylist():
                self._apply(change["_row_kind"], without_system(change))

    def _apply(self, kind: str, row: Row) -> None:
        key = tuple(row[name] for name in self.primary_key)
        if self._pending is not None:
            before, self._pending = self._pending, None
            assert kind == "+U", f"-U of {before} is followed by {kind}"
            assert key == tuple(before[name] for name in self.primary_key)
            assert not (self.is_deduplicated and before == row), f"an empty update of {row}"
            self.rows[key] = row
        elif kind == "+I":
            assert key not in self.rows, f"{row} is inserted over {self.rows.get(key)}"
            self.rows[key] = row
        elif kind == "-D":
            assert self.rows.pop(key, None) == row
        else:
            assert kind == "-U", f"{kind} of {row} without -U"
            assert self.rows.get(key) == row
            self._pending = row


def without_system(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in SYSTEM}


def rows_of(table: lsmerge.Table, snapshot: int | None = None) -> dict[tuple[Any, ...], Row]:
    """The table's rows by key."""
    rows = table.scan(snapshot=snapshot).to_arrow().to_pylist()
    return {tuple(row[name] for name in table.primary_key): row for row in rows}


def let_rival_win(table: lsmerge.Table, rival: Callable[[], object]) -> None:
    """Let `rival` run once, at the moment before the table's next snapshot is published."""
    snapshots = table._context.snapshots
    publish = snapshots.publish

    def lose(snapshot: Any) -> None:
        snapshots.publish = publish  # type: ignore[method-assign]
        rival()
        publish(snapshot)

    snapshots.publish = lose  # type: ignore[method-assign]
