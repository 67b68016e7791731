"""The rows of one window, ordered and grouped by key: what every merge engine reduces.

A source is a slice of one sorted run with its keys, and several may follow each other in one run. `Groups` is the
merge plan over several sources, together with the columns, so that an engine says *which* rows and this module moves
them.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from lsmerge.errors import CorruptFileError
from lsmerge.rowkind import KIND_COLUMN, SEQUENCE_COLUMN, WRITTEN_COLUMN
from lsmerge.schema import WRITTEN_FIELD
from lsmerge_native.buffers import NativeBuffer
from lsmerge_native.gather import gather, gather_batches, gatherable, viewed_batch
from lsmerge_native.keys import Keys, encode_keys
from lsmerge_native.plan import MergePlan, UnsortedRunError, merge_runs, plan_sorted
from lsmerge_native.portion import slice_groups, spread_rows
from lsmerge_native.reduce import Selection, all_rows
from lsmerge_native.sort import argsort

if TYPE_CHECKING:
    from lsmerge_native.gather import BatchView


@dataclass(frozen=True, slots=True)
class Source:
    """Rows sorted by (key, order, sequence), with system columns.

    `order` encodes the user's sequence fields where the table has them. The true sequence number of a row is
    `sequence_base` plus the stored one.
    """

    columns: "BatchView"
    keys: Keys
    order: Keys | None = None
    sequence_base: int = 0

    @property
    def num_rows(self) -> int:
        return self.columns.num_rows

    @property
    def batch(self) -> pa.RecordBatch:
        return self.columns.batch

    @property
    def sequence(self) -> tuple[Any, int]:
        return self.columns.column(SEQUENCE_COLUMN), self.sequence_base

    def slice(self, start: int, stop: int) -> "Source":
        """Rows [start, stop) without a copy."""
        return Source(
            self.columns.slice(start, stop),
            self.keys.slice(start, stop),
            None if self.order is None else self.order.slice(start, stop),
            self.sequence_base,
        )


@dataclass(frozen=True, slots=True)
class Groups:
    """A merge plan and the columns it speaks of, those of each source."""

    plan: MergePlan
    views: "Sequence[BatchView]"
    sequence_bases: Sequence[int]

    @property
    def batches(self) -> list[pa.RecordBatch]:
        return [view.batch for view in self.views]

    @property
    def schema(self) -> pa.Schema:
        """The columns of every source, and maybe what its rows wrote."""
        return self.views[0].schema

    @property
    def has_kinds(self) -> bool:
        """Whether the kinds of the rows were read; if not, all of them are adds."""
        return KIND_COLUMN in self.views[0]

    @property
    def kinds(self) -> list[Any]:
        """The kinds of the rows, for kernels."""
        return [view.column(KIND_COLUMN) for view in self.views]

    @property
    def sequences(self) -> list[tuple[pa.Array, int]]:
        return list(zip(self.column(SEQUENCE_COLUMN), self.sequence_bases, strict=True))

    @property
    def has_written(self) -> bool:
        """Whether a source says which columns its rows wrote."""
        return any(WRITTEN_COLUMN in view for view in self.views)

    @property
    def written(self) -> list[pa.Array]:
        """Which columns the rows wrote; sources that do not say hold whole rows."""
        return [
            batch.column(WRITTEN_COLUMN)
            if WRITTEN_COLUMN in batch.schema.names
            else pa.nulls(batch.num_rows, pa.binary())
            for batch in self.batches
        ]

    def column(self, name: str) -> list[pa.Array]:
        """One column, an array per source."""
        return [batch.column(name) for batch in self.batches]

    def planned(self, plan: MergePlan) -> "Groups":
        """The same sources under another plan."""
        return replace(self, plan=plan)

    def take(self, selection: Selection, names: Sequence[str]) -> pa.RecordBatch:
        """The selected rows of the named columns; sequence numbers come out absolute."""
        wanted = _wanted(_Same(self.schema), tuple(names))
        found = self._take_flat(selection, wanted.flat)
        arrays = [
            found[name] if name in found else self._take_column(selection, name) for name in names
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=wanted.fields)

    def take_operands(self, selection: Selection, names: Sequence[str]) -> pa.RecordBatch:
        """The same, and last, where a source says so, which columns each row wrote."""
        rows = self.take(selection, names)
        if not self.has_written:
            return rows
        return rows.append_column(WRITTEN_FIELD, take_rows(self.written, selection))

    def portions(self, max_rows: int) -> Iterator["Groups"]:
        """The same groups in order, in parts of about `max_rows` rows."""
        starts = memoryview(self.plan.starts).cast("I")
        first = 0
        while first < self.plan.num_groups:
            last = max(first + 1, bisect_right(starts, starts[first] + max_rows) - 1)
            yield self.planned(slice_groups(self.plan, first, last))
            first = last

    def _take_flat(
        self, selection: Selection, flat: Mapping[str, pa.DataType]
    ) -> dict[str, pa.Array]:
        """All columns that a kernel moves as they are, at once."""
        moved = gather_batches(self.views, list(flat), selection)
        return {
            name: _wrapped(type_, len(selection), *parts)
            for (name, type_), parts in zip(flat.items(), moved, strict=True)
        }

    def _take_column(self, selection: Selection, name: str) -> pa.Array:
        arrays = self.column(name)
        if name == SEQUENCE_COLUMN:
            arrays = [_absolute(array, base) for array, base in self.sequences]
        return take_rows(arrays, selection)


class _Wanted(NamedTuple):
    """Columns to be taken, and the types of those that a kernel moves as they are."""

    fields: pa.Schema
    flat: dict[str, pa.DataType]


class _Same:
    """A schema as a key that only itself is equal to: comparing schemas takes longer than what is looked up saves."""

    __slots__ = ("schema",)

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.schema is other.schema

    def __hash__(self) -> int:
        return id(self.schema)


@lru_cache(maxsize=64)
def _wanted(of: _Same, names: tuple[str, ...]) -> _Wanted:
    """The windows of a scan ask the same of the same schema."""
    fields = pa.schema([of.schema.field(name) for name in names])
    flat = {
        field.name: field.type
        for field in fields
        if field.name != SEQUENCE_COLUMN and not pa.types.is_nested(field.type)
    }
    return _Wanted(fields, flat)


def merge_groups(
    sources: Sequence[Source], continues: Sequence[bool] = (), *, newest_only: bool = False
) -> Groups:
    """Order the rows of several sorted sources; one that continues the run before it comes after it in key order.

    With `newest_only` rows that are not the last of their key may be missing. Requires: sources without sequence
    numbers are of runs from old to new, none of which overlap in age.
    """
    orders = [source.order for source in sources if source.order is not None]
    keys = [source.keys for source in sources]
    has_sequences = not sources or SEQUENCE_COLUMN in sources[0].columns
    sequences = [source.sequence for source in sources] if has_sequences else None
    try:
        plan = merge_runs(keys, orders or None, sequences, continues, newest_only=newest_only)
    except UnsortedRunError as error:
        # All our writers sort, and the checksums fit: the file is somebody else's work.
        raise CorruptFileError("a run to be merged", str(error)) from error
    views = [source.columns for source in sources]
    return Groups(plan, views, [source.sequence_base for source in sources])


def sort_groups(batches: Sequence[pa.RecordBatch], keys: Keys, order: Keys | None = None) -> Groups:
    """Order rows that are in arrival order; `keys` and `order` are those of all batches together."""
    plan = plan_sorted(keys, argsort(keys, order))
    lengths = pa.array([batch.num_rows for batch in batches], pa.uint32())
    views = list(map(viewed_batch, batches))
    return Groups(spread_rows(plan, lengths.buffers()[1]), views, [0] * len(batches))


def in_key_order(parts: Sequence[pa.RecordBatch], key: Sequence[str]) -> pa.RecordBatch:
    """Batches that are each in key order as one; rows of one key stay in the order of the parts and in theirs."""
    filled = [part for part in parts if part.num_rows]
    if len(filled) < 2:
        return filled[0] if filled else parts[0]
    rows = pa.concat_batches(filled)
    groups = sort_groups([rows], encode_keys([rows.column(name) for name in key]))
    return groups.take(all_rows(groups.plan), rows.schema.names)


def take_rows(arrays: Sequence[pa.Array], selection: Selection) -> pa.Array:
    """Move the selected rows of one column, given as an array per source, into one array."""
    return take_viewed(arrays, arrays[0].type, selection)


def take_viewed(arrays: Sequence[Any], type_: pa.DataType, selection: Selection) -> pa.Array:
    """The same, where arrays of a type without nesting may also be given as views."""
    return (
        _gathered(arrays, type_, selection)
        if gatherable(arrays[0])
        else _take_nested(arrays, selection)
    )


def _gathered(arrays: Sequence[object], type_: pa.DataType, selection: Selection) -> pa.Array:
    return _wrapped(type_, len(selection), *gather(arrays, selection))


def _wrapped(
    type_: pa.DataType, length: int, null_count: int, buffers: Sequence[NativeBuffer | None]
) -> pa.Array:
    """What a kernel gathered, as an array."""
    wrapped = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    return pa.Array.from_buffers(type_, length, wrapped, null_count)


def adds_only(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Without the retracts."""
    import pyarrow.compute as pc

    kinds = batch.column(KIND_COLUMN)
    is_add = pc.equal(pc.bit_wise_and(kinds, pa.scalar(1, pa.int8())), pa.scalar(0, pa.int8()))
    return batch.filter(is_add) if pc.any(pc.invert(is_add)).as_py() else batch


def _take_nested(arrays: Sequence[pa.Array], selection: Selection) -> pa.Array:
    # Nested values have no flat layout to gather from, so Arrow's own kernel moves them.
    import pyarrow.compute as pc

    starts = [0]
    for array in arrays[:-1]:
        starts.append(starts[-1] + len(array))
    count = len(selection)
    sources = pa.Array.from_buffers(pa.uint16(), count, [None, pa.py_buffer(selection.sources)])
    rows = pa.Array.from_buffers(pa.uint32(), count, [None, pa.py_buffer(selection.rows)])
    indices = pc.add(pa.array(starts, pa.int64()).take(sources), rows.cast(pa.int64()))
    if selection.validity is not None:
        mask = pa.Array.from_buffers(pa.bool_(), count, [None, pa.py_buffer(selection.validity)])
        indices = pc.if_else(mask, indices, pa.scalar(None, pa.int64()))
    whole = pa.concat_arrays(arrays) if len(arrays) > 1 else arrays[0]
    return whole.take(indices)


def row_numbers(count: int, start: int = 0) -> pa.Array:
    """`start`, `start` + 1, … as int64."""
    import pyarrow.compute as pc

    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count), start=start - 1)


def with_absolute_sequence(source: Source) -> Source:
    """The same rows with their true sequence numbers stored."""
    position = source.batch.schema.get_field_index(SEQUENCE_COLUMN)
    field = source.batch.schema.field(position)
    sequence = _absolute(source.batch.column(position), source.sequence_base)
    batch = source.batch.set_column(position, field, sequence)
    return replace(source, columns=viewed_batch(batch), sequence_base=0)


def _absolute(sequence: pa.Array, base: int) -> pa.Array:
    if base == 0:
        return sequence
    import pyarrow.compute as pc

    return pc.add(sequence, pa.scalar(base, pa.int64()))
