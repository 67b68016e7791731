"""Event time: rows ordered by columns, and deletes that may have no place in that order.

An add always has an ordering value. A delete with one (*timed*) has its place among the rows: it hides what is older by
that value, also what arrives later. A delete without one (*untimed*) hides whatever arrived before it and nothing
that comes after. Its ordering columns are all null, so that in merge order untimed deletes come first.

    k.+I.t5  k.-D.t8  k.+I.t6        ->  hidden: 6 is older than 8
    k.+I.t5  k.-D     k.+I.t3        ->  k.+I.t3: what came before the untimed delete does not count any more
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa

from lsmerge.errors import SchemaMismatchError
from lsmerge.merge.flags import as_flags
from lsmerge.merge.groups import Groups, take_rows
from lsmerge.merge.written import is_targeted
from lsmerge.merge_mode import EVENT_TIME
from lsmerge.options import TableOptions
from lsmerge.rowkind import KIND_COLUMN, SEQUENCE_COLUMN
from lsmerge.schema import TableSchema
from lsmerge_native.keys import Keys, encode_keys
from lsmerge_native.plan import MergePlan
from lsmerge_native.reduce import Selection, all_rows, pick_last
from lsmerge_native.regroup import filter_rows, order_rows, rows_after_last


@dataclass(frozen=True, slots=True)
class EventOrder:
    """The ordering columns of a table; none where arrival alone orders rows."""

    columns: tuple[str, ...]
    key: tuple[str, ...]

    @classmethod
    def of(cls, schema: TableSchema, options: TableOptions) -> "EventOrder":
        """The order of a table. Key columns are left out: they are the same in all rows of a key."""
        is_timed = options.record_merge_mode == EVENT_TIME
        names = options.record_merge_ordering_fields if is_timed else ()
        return cls(tuple(n for n in names if n not in schema.primary_key), schema.primary_key)

    def lifted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows with system columns: adds without an ordering value are refused, deletes without become untimed."""
        import pyarrow.compute as pc

        if not any(batch.column(name).null_count for name in self.columns):
            return batch
        kinds = batch.column(KIND_COLUMN)
        is_add = pc.equal(pc.bit_wise_and(kinds, pa.scalar(1, pa.int8())), pa.scalar(0, pa.int8()))
        missing = {name: batch.column(name).is_null() for name in self.columns}
        for name, mask in missing.items():
            # A delete of some columns that hid whatever came before it would hide the other columns too.
            self._refuse(batch, name, mask if is_targeted(batch) else pc.and_(is_add, mask))
        return _untimed(batch, missing)

    def has_untimed(self, groups: Groups) -> bool:
        """Whether there is an untimed delete among the rows."""
        return any(array.null_count for name in self.columns[:1] for array in groups.column(name))

    def after_untimed(self, groups: Groups, plan: MergePlan) -> MergePlan:
        """The rows that arrived after the last untimed delete of their key, in merge order."""
        arrived = order_rows(plan, _arrival(groups))
        after = rows_after_last(arrived, self._untimed(groups, arrived))
        # Rows of equal ordering values stay in the order of arrival: sorting is stable.
        return order_rows(filter_rows(arrived, after), self._keys(groups))

    def last_untimed(self, groups: Groups, plan: MergePlan) -> Selection:
        """The last untimed delete of each key."""
        # They are all equal in merge order, hence ordered by arrival.
        return pick_last(filter_rows(plan, self._untimed(groups, plan)))

    def _untimed(self, groups: Groups, plan: MergePlan) -> pa.Buffer:
        return as_flags(take_rows(groups.column(self.columns[0]), all_rows(plan)).is_null())

    def _keys(self, groups: Groups) -> list[Keys]:
        nullable = [True] * len(self.columns)
        return [
            encode_keys(
                [batch.column(name) for name in self.columns], nullable=nullable, signed_zeros=True
            )
            for batch in groups.batches
        ]

    def _refuse(self, batch: pa.RecordBatch, name: str, mask: pa.Array) -> None:
        row = mask.index(True).as_py()
        if row >= 0:
            key = batch.select(self.key).slice(row, 1).to_pylist()[0]
            raise SchemaMismatchError(
                f"ordering column {name!r}: value null at row {row}, key {key}; only a delete of whole rows may be "
                "without an ordering value: give one, or use record.merge.mode=commit-time-ordering"
            )


def _untimed(batch: pa.RecordBatch, missing: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """A delete that lacks one of its ordering values has no place in the order: it loses the others."""
    import pyarrow.compute as pc

    if len(missing) == 1:
        return batch
    mask = reduce(pc.or_, missing.values())
    for name in missing:
        place = batch.schema.get_field_index(name)
        values = batch.column(place)
        cleared = pc.if_else(mask, pa.scalar(None, values.type), values)
        batch = batch.set_column(place, batch.schema.field(place), cleared)
    return batch


def _arrival(groups: Groups) -> list[Keys]:
    import pyarrow.compute as pc

    return [
        encode_keys([pc.add(batch.column(SEQUENCE_COLUMN), pa.scalar(base, pa.int64()))])
        for batch, base in zip(groups.batches, groups.sequence_bases, strict=True)
    ]
