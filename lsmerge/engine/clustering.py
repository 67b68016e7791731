"""Ranges of a clustered order: pure functions from rows to about equal parts of them.

`order` compares the columns one after the other; the curves `zorder` and `hilbert` give each the same weight, so that
rows near in all columns are near in the order. Memory is that of a sample, which is bounded by rows and by bytes, and
the same rows always give the same ranges.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from lsmerge.errors import InvalidOptionError, SchemaMismatchError
from lsmerge.merge.groups import row_numbers
from lsmerge.schema import TableSchema
from lsmerge_native.curve import interleave, ranks
from lsmerge_native.keys import Keys, encode_keys
from lsmerge_native.sort import argsort

LINEAR, ZORDER, HILBERT = ORDERS = ("order", "zorder", "hilbert")
_SPELLINGS = {"z-order": ZORDER}
# Ranks among so many rows fit the bits that are interleaved.
RANK_BITS = 16
MAX_SAMPLE_ROWS = 2**RANK_BITS - 1
# However large they are: fewer would not make even ranges.
MIN_SAMPLE_ROWS = 2**10

# The place of each row of a batch in the clustered order, as comparable keys.
ClusterKeys: TypeAlias = Callable[[pa.RecordBatch], Keys]


@dataclass(frozen=True, slots=True)
class Clustering:
    """The columns to cluster by, and how they are combined."""

    by: tuple[str, ...]
    order: str

    @classmethod
    def of(cls, schema: TableSchema, by: Any, order: str) -> "Clustering":
        """Check names, types and the kind of order."""
        if not isinstance(by, Iterable):
            raise SchemaMismatchError(f"by = {by!r}: name one column or several")
        names = (by,) if isinstance(by, str) else tuple(by)
        order = _SPELLINGS.get(order, order)
        if order not in ORDERS:
            raise InvalidOptionError(f"order = {order!r}: accepted: {', '.join(ORDERS)}")
        if not names or len(set(names)) != len(names):
            raise SchemaMismatchError(f"by = {list(names)}: name one column or several, each once")
        for name in names:
            if schema.column(name).type.is_nested:
                raise SchemaMismatchError(
                    f"by = {name!r}: a column of type {schema.column(name).type} has no order"
                )
        return cls(names, order)


class Ranges:
    """Disjoint ranges of a clustered order that hold about as many rows each, numbered in that order."""

    def __init__(self, keys_of: ClusterKeys, bounds: Keys) -> None:
        self._keys_of = keys_of
        self._bounds = bounds

    @property
    def count(self) -> int:
        return len(self._bounds) + 1

    def numbers(self, batch: pa.RecordBatch) -> pa.Array:
        """The range of each row."""
        return _uint32(ranks(self._bounds, self._keys_of(batch)), batch.num_rows)


def plan_ranges(
    clustering: Clustering, batches: Iterable[pa.RecordBatch], *, max_ranges: int, max_bytes: int
) -> Ranges | None:
    """Ranges that cut the rows of `batches` into about equal parts, by a sample of them; None without rows."""
    sample = _sample(clustering.by, batches, max_bytes)
    if sample is None:
        return None
    if clustering.order == LINEAR:
        keys_of = _linear(clustering.by)
    else:
        keys_of = _curve(sample, hilbert=clustering.order == HILBERT)
    keys = keys_of(sample)
    count = min(max_ranges, max(1, sample.num_rows))
    cuts = [sample.num_rows * number // count for number in range(1, count)]
    order = _uint32(argsort(keys), sample.num_rows)
    return Ranges(keys_of, keys.take(order.take(pa.array(cuts, pa.uint32())).buffers()[1]))


def _sample(
    names: Sequence[str], batches: Iterable[pa.RecordBatch], max_bytes: int
) -> pa.RecordBatch | None:
    """Every n-th row; n doubles whenever the sample is full, so that its rows stay evenly spread."""
    step, seen = 1, 0
    taken: list[pa.RecordBatch] = []
    for batch in batches:
        rows = batch.select(list(names))
        first = -seen % step
        taken.append(_every(rows.slice(first), step))
        seen += rows.num_rows
        while _is_full(taken, max_bytes):
            taken = [_every(pa.concat_batches(taken), 2)]
            step *= 2
    return pa.concat_batches(taken) if seen else None


def _is_full(taken: Sequence[pa.RecordBatch], max_bytes: int) -> bool:
    count: int = sum(part.num_rows for part in taken)
    size: int = sum(part.nbytes for part in taken)
    return count > MAX_SAMPLE_ROWS or (size > max_bytes and count > MIN_SAMPLE_ROWS)


def _every(rows: pa.RecordBatch, step: int) -> pa.RecordBatch:
    import pyarrow.compute as pc

    count = -(-rows.num_rows // step)
    return rows.take(pc.multiply(row_numbers(count), pa.scalar(step, pa.int64())))


def _linear(names: Sequence[str]) -> ClusterKeys:
    return lambda batch: _encoded([batch.column(name) for name in names])


def _curve(sample: pa.RecordBatch, *, hilbert: bool) -> ClusterKeys:
    """Each column becomes its rank among the sampled values, which makes all columns weigh the same."""
    sorted_columns = {
        name: _sorted(_encoded([sample.column(name)])) for name in sample.schema.names
    }
    width = (RANK_BITS * len(sorted_columns) + 7) // 8

    def keys_of(batch: pa.RecordBatch) -> Keys:
        columns = [
            _scaled_ranks(bounds, _encoded([batch.column(name)]))
            for name, bounds in sorted_columns.items()
        ]
        values = pa.py_buffer(interleave(columns, RANK_BITS, hilbert=hilbert))
        return encode_keys(
            [pa.Array.from_buffers(pa.binary(width), batch.num_rows, [None, values])]
        )

    return keys_of


def _scaled_ranks(bounds: Keys, keys: Keys) -> pa.Buffer:
    """Ranks from 0 to the largest of RANK_BITS, so that halves of the curve are halves of the rows."""
    import pyarrow.compute as pc

    found = _uint32(ranks(bounds, keys, after=False), len(keys)).cast(pa.uint64())
    scaled = pc.divide(
        pc.multiply(found, pa.scalar(2**RANK_BITS - 1, pa.uint64())),
        pa.scalar(max(1, len(bounds)), pa.uint64()),
    )
    return scaled.cast(pa.uint32()).buffers()[1]


def _encoded(columns: Sequence[pa.Array]) -> Keys:
    return encode_keys(columns, nullable=[True] * len(columns))


def _sorted(keys: Keys) -> Keys:
    return keys.take(argsort(keys))


def _uint32(buffer: Any, length: int) -> pa.Array:
    return pa.Array.from_buffers(pa.uint32(), length, [None, pa.py_buffer(buffer)])
