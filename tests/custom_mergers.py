"""Mergers of the tables in test_placement, and what they mean to the naive judge.

Those that see deletes must say what becomes of them; the judge folds records with `merge` alone, whatever else a
merger offers.
"""

from collections.abc import Sequence
from itertools import pairwise

import pyarrow as pa

import lsmerge
from lsmerge.mergers import Record
from lsmerge.rowkind import SYMBOLS

COLUMNS = ("n", "p")


def total(older, newer, name):
    """Nulls count nothing; two of them are null."""
    values = [row[name] for row in (older, newer) if row[name] is not None]
    return sum(values) if values else None


class Adding:
    """Adds up two columns, of the others the newest counts."""

    associative = True
    sees_deletes = False

    def merge(self, older, newer):
        return {**newer, **{name: total(older, newer, name) for name in COLUMNS}}


class AddingBatches(Adding):
    """The same, all keys at once."""

    def merge_batch(self, groups):
        numbers = groups.group_numbers()
        merged = groups.newest()
        for name in COLUMNS:
            grouped = pa.table({"g": numbers, "v": groups.rows[name]}).group_by(
                "g", use_threads=False
            )
            sums = grouped.aggregate([("v", "sum")])["v_sum"].combine_chunks()
            merged = merged.set_column(
                merged.schema.get_field_index(name), merged.schema.field(name), sums
            )
        return merged


class Lopsided:
    """Not associative: an older row counts more the more rows follow it; a delete halves what there is."""

    def merge(self, older, newer):
        before, after = older["n"] or 0, newer["n"] or 0
        if newer.is_delete:
            return older.replace(n=before // 2) if before > 1 else None
        return newer.replace(n=(3 * before - after + older.is_delete) % 1009)


class LopsidedBatches(Lopsided):
    """The same through Arrow, with deletions in a mask."""

    def merge_batch(self, groups):
        rows = groups.rows.to_pylist()
        deletes = groups.is_delete.to_pylist()
        starts = groups.offsets.to_pylist()
        merged, gone = [], []
        for start, stop in pairwise(starts):
            record = Record(rows[start], 3 if deletes[start] else 0)
            for row, is_delete in zip(
                rows[start + 1 : stop], deletes[start + 1 : stop], strict=True
            ):
                newer = Record(row, 3 if is_delete else 0)
                answer = self.merge(record, newer)
                record = Record(
                    dict(newer if answer is None else answer), 3 if answer is None else 0
                )
            merged.append(dict(record))
            gone.append(record.is_delete)
        return pa.RecordBatch.from_pylist(merged, schema=groups.rows.schema), pa.array(
            gone, pa.bool_()
        )


class LopsidedWithoutDeletes:
    """Not associative, and deletes are the table's."""

    sees_deletes = False

    def merge(self, older, newer):
        return newer.replace(n=(3 * (older["n"] or 0) - (newer["n"] or 0)) % 1009)


class ByEvent:
    """The row that is newest by its ordering field, null being oldest; a delete is a row like any other."""

    associative = True

    def merge(self, older, newer):
        return newer if self.moment(newer) >= self.moment(older) else older

    def moment(self, record):
        (value,) = record.ordering
        return (value is not None, value or 0)


class Steps:
    """Rows with `f` replace, others add; only additions are combined before the base is known."""

    def merge(self, older, newer):
        if newer.is_delete:
            return None
        if newer["f"] or older.is_delete:
            return newer
        return older.replace(n=(older["n"] or 0) + (newer["n"] or 0), w=newer["w"])

    def partial_merge(self, older, newer):
        if newer.is_delete or older.is_delete or newer["f"]:
            return NotImplemented
        return self.merge(older, newer)


class StepsForgettingDeletes(Steps):
    forgets_deletes = True


class StepsWithoutDeletes(Steps):
    sees_deletes = False


MERGERS = {
    type_.__name__: type_()
    for type_ in (
        *(Adding, AddingBatches, Lopsided, LopsidedBatches, LopsidedWithoutDeletes),
        *(ByEvent, Steps, StepsForgettingDeletes, StepsWithoutDeletes),
    )
}
for _name, _merger in MERGERS.items():
    lsmerge.register_merger(_name, _merger)


def options_of(name: str, **more: str) -> dict[str, str]:
    return {"record.merge.mode": "custom", "record.merge.strategy-id": name, **more}


def folded(
    name: str, rows: Sequence[tuple[str, dict[str, object]]], ordering: Sequence[str]
) -> tuple[str, dict[str, object]]:
    """Kind and row after all rows, given oldest first as kind and row."""
    merger, kinds = MERGERS[name], {symbol: kind for kind, symbol in SYMBOLS.items()}
    sees_deletes = getattr(merger, "sees_deletes", True)
    records = [Record(row, kinds[kind], ordering) for kind, row in rows]
    state = records[0]
    for newer in records[1:]:
        if not sees_deletes and (newer.is_delete or state.is_delete):
            state = newer
            continue
        answer = merger.merge(state, newer)
        gone = answer is None or (isinstance(answer, Record) and answer.is_delete)
        row = newer if answer is None else answer
        state = Record(dict(row), kinds["-D" if gone else "+I"], ordering)
    return state.kind, dict(state)
