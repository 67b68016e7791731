"""Rows beside the partition they name and the one in which their key lives: pure functions on columns."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from lsmerge.engine.buckets import partition_array, partitions_of
from lsmerge.engine.homes import NOWHERE, Homes
from lsmerge.merge.groups import row_numbers, sort_groups
from lsmerge.meta.data_file import Partition
from lsmerge.rowkind import KIND_COLUMN, RowKind
from lsmerge.schema import TableSchema
from lsmerge_native.keys import encode_keys
from lsmerge_native.plan import MergePlan
from lsmerge_native.reduce import Selection, all_rows, pick_first


@dataclass(frozen=True, slots=True)
class LocatedRows:
    """Rows in arrival order. Partitions go by their number in `partitions`.

    `here` is the partition that a row names, `chosen_here` the one that the row chosen for its key names, and `home`
    where the key lives.
    """

    schema: TableSchema
    partitions: list[Partition]
    batch: pa.RecordBatch
    chosen: pa.Array
    here: pa.Array
    chosen_here: pa.Array
    home: pa.Array

    @classmethod
    def of(
        cls, homes: Homes, batch: pa.RecordBatch, choose: Callable[[MergePlan], Selection]
    ) -> Self:
        """Locate the rows; `choose` picks the row of each key that decides what is elsewhere."""
        import pyarrow.compute as pc

        schema = homes.context.schema
        plan = _plan(schema, batch)
        chosen, key_of_row = _rows(choose(plan)), _key_of_row(plan)
        partitions, here = _numbered_partitions(homes, batch)
        deciding = batch.take(chosen)
        named = here.take(chosen)
        home = homes.of(
            deciding.select(list(schema.primary_key)),
            # Whether a retract without a partition has an effect depends on its key living exactly there.
            pc.if_else(_is_unplaced(schema, deciding), pa.scalar(NOWHERE, pa.int32()), named),
        )
        return cls(
            schema,
            partitions,
            batch,
            chosen,
            here,
            named.take(key_of_row),
            home.take(key_of_row),
        )

    @property
    def is_elsewhere(self) -> pa.Array:
        """Whether a row's key lives in another partition than the chosen row names."""
        import pyarrow.compute as pc

        return pc.and_(self._has_home, pc.not_equal(self.home, self.chosen_here))

    @property
    def is_stray(self) -> pa.Array:
        """Whether a chosen row takes back from a key that lives nowhere, and says no partition."""
        import pyarrow.compute as pc

        homeless = pc.invert(self._has_home)
        chosen = pc.is_in(row_numbers(self.batch.num_rows), value_set=self.chosen.cast(pa.int64()))
        return pc.and_(chosen, pc.and_(homeless, _is_unplaced(self.schema, self.batch)))

    @property
    def is_retract(self) -> pa.Array:
        return _is_retract(self.batch)

    @property
    def _has_home(self) -> pa.Array:
        import pyarrow.compute as pc

        return pc.not_equal(self.home, pa.scalar(NOWHERE, pa.int32()))

    def only_chosen(self) -> Self:
        """The chosen row of each key."""
        import pyarrow.compute as pc

        return self._take(self.chosen.take(pc.array_sort_indices(self.chosen)))

    def filter(self, mask: pa.Array) -> Self:
        import pyarrow.compute as pc

        return self._take(pc.indices_nonzero(mask))

    def moved_to(self, partitions: pa.Array) -> pa.RecordBatch:
        """The rows with the values of these partitions, by number."""
        batch = self.batch
        for position, name in enumerate(self.schema.partition_by):
            index = batch.schema.get_field_index(name)
            field = batch.schema.field(index)
            values = partition_array([p[position] for p in self.partitions], field.type)
            batch = batch.set_column(index, field, values.take(partitions))
        return batch

    def deletes_at_home(self) -> pa.RecordBatch:
        """Delete rows for where the keys live."""
        batch = self.moved_to(self.home)
        index = batch.schema.get_field_index(KIND_COLUMN)
        kinds = pa.repeat(pa.scalar(int(RowKind.DELETE), pa.int8()), batch.num_rows)
        return batch.set_column(index, batch.schema.field(index), kinds)

    def _take(self, rows: pa.Array) -> Self:
        return type(self)(
            self.schema,
            self.partitions,
            self.batch.take(rows),
            # The rows left stand for themselves.
            row_numbers(len(rows)).cast(pa.uint32()),
            self.here.take(rows),
            self.chosen_here.take(rows),
            self.home.take(rows),
        )


def rounds(schema: TableSchema, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows in parts, to be placed one after the other: a row after a retract of its key is in a later part."""
    import pyarrow.compute as pc

    plan = _plan(schema, batch)
    order, key_of_row = _order(plan), _key_of_row(plan)
    retracts = _is_retract(batch).take(order).cast(pa.int64())
    before = pc.subtract(pc.cumulative_sum(retracts), retracts).take(_inverse(order))
    firsts = _rows(pick_first(plan))
    numbers = pc.subtract(before, before.take(firsts).take(key_of_row))
    for number in range(pc.max(numbers).as_py() + 1):
        yield batch.filter(pc.equal(numbers, pa.scalar(number, pa.int64())))


def _plan(schema: TableSchema, batch: pa.RecordBatch) -> MergePlan:
    """The rows by key, in arrival order within each."""
    keys = encode_keys([batch.column(name) for name in schema.primary_key])
    return sort_groups([batch], keys).plan


def _key_of_row(plan: MergePlan) -> pa.Array:
    """For each row the number of its key, in key order."""
    import pyarrow.compute as pc

    order = _order(plan)
    starts = pa.Array.from_buffers(
        pa.uint32(), plan.num_groups + 1, [None, pa.py_buffer(plan.starts)]
    )
    ends = starts.slice(1).cast(pa.int32())
    numbers = pa.RunEndEncodedArray.from_arrays(ends, row_numbers(plan.num_groups))
    return pc.run_end_decode(numbers).take(_inverse(order))


def _order(plan: MergePlan) -> pa.Array:
    return _rows(all_rows(plan))


def _inverse(order: pa.Array) -> pa.Array:
    """Where each row is in the order."""
    import pyarrow.compute as pc

    return pc.array_sort_indices(order)


def _rows(selection: Selection) -> pa.Array:
    buffer = pa.py_buffer(selection.rows)
    return pa.Array.from_buffers(pa.uint32(), len(selection), [None, buffer])


def _is_retract(batch: pa.RecordBatch) -> pa.Array:
    import pyarrow.compute as pc

    one = pa.scalar(1, pa.int8())
    return pc.equal(pc.bit_wise_and(batch.column(KIND_COLUMN), one), one)


def _is_unplaced(schema: TableSchema, batch: pa.RecordBatch) -> pa.Array:
    """Whether a row is a retract that says no partition, as `delete` makes them."""
    import pyarrow.compute as pc

    unplaced = _is_retract(batch)
    for name in schema.partition_by:
        if name not in schema.primary_key:
            unplaced = pc.and_(unplaced, batch.column(name).is_null())
    return unplaced


def _numbered_partitions(homes: Homes, batch: pa.RecordBatch) -> tuple[list[Partition], pa.Array]:
    """The partitions of the table and of the rows, and the number of each row's."""
    numbers = {partition: number for number, partition in enumerate(homes.partitions)}
    named, ids = partitions_of(homes.context.schema.partition_by, batch)
    for partition in named:
        numbers.setdefault(partition, len(numbers))
    of_named = pa.array([numbers[partition] for partition in named], pa.int32())
    return list(numbers), of_named.take(
        pa.Array.from_buffers(pa.int32(), batch.num_rows, [None, ids])
    )
