"""Rows by partition and by fixed bucket, and the text form of partition values."""

from collections.abc import Callable, Iterator, Sequence
from math import gcd

import pyarrow as pa

from lsmerge.meta.data_file import BucketId, Partition
from lsmerge.options import TableOptions
from lsmerge.schema import TableSchema
from lsmerge_native.hashing import bucket_ids, group_ids


def split_by_bucket(
    schema: TableSchema,
    options: TableOptions,
    batch: pa.RecordBatch,
    count_of: Callable[[Partition], int],
) -> Iterator[tuple[BucketId, pa.RecordBatch]]:
    """The rows of each (partition, fixed bucket), in arrival order; `count_of` says how many a partition has."""
    for partition, rows in split_by_partition(schema.partition_by, batch):
        for bucket, members in split_by_hash(schema, options, rows, count_of(partition)):
            yield BucketId(partition, bucket), members


def split_by_hash(
    schema: TableSchema, options: TableOptions, batch: pa.RecordBatch, count: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each of `count` buckets of one partition, in arrival order."""
    if count == 1:
        yield 0, batch
        return
    names = options.bucket_key or schema.trimmed_key
    ids = bucket_ids([batch.column(name) for name in names], count)
    yield from scatter(batch, pa.py_buffer(ids), count)


def related_buckets(bucket: int, count: int, other_count: int) -> range:
    """The buckets of a partition split into `other_count` that may hold rows of this bucket of `count`.

    Both numbers are remainders of one hash, so they agree modulo the greatest common divisor of the counts.
    """
    step = gcd(count, other_count)
    return range(bucket % step, other_count, step)


def scatter(
    batch: pa.RecordBatch, ids: pa.Buffer, count: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Rows by id. Each part owns its memory, so that spilling one bucket frees what it held."""
    order, starts = group_ids(ids, count)
    bounds = memoryview(starts).cast("I")
    permutation = pa.Array.from_buffers(pa.uint32(), batch.num_rows, [None, pa.py_buffer(order)])
    for number in range(count):
        start, stop = bounds[number], bounds[number + 1]
        if stop > start:
            yield number, batch.take(permutation.slice(start, stop - start))


def partition_text(array: pa.Array) -> list[str | None]:
    """The canonical text of partition values; equal values have equal text, `partition_array` reads it back.

    Arrow's text where Arrow can read it again, else `#` and the stored number; binary as hexadecimal digits.
    """
    array = _one_zero(array)
    if _is_binary(array.type):
        return [None if value is None else value.hex() for value in array.to_pylist()]
    if pa.types.is_time(array.type):
        return _numbered_text(array)
    texts: list[str | None] = array.cast(pa.string()).to_pylist()
    if pa.types.is_date(array.type) or pa.types.is_timestamp(array.type):
        # Years outside 0 to 9999 are written in ways that cannot be read back.
        odd = zip(texts, _numbered_text(array), strict=True)
        return [
            number if text is not None and not text[:1].isdigit() else text for text, number in odd
        ]
    return texts


def partition_array(texts: Sequence[str | None], type_: pa.DataType) -> pa.Array:
    """Partition values from their text."""
    if _is_binary(type_):
        return pa.array([None if t is None else bytes.fromhex(t) for t in texts], type_)
    if not pa.types.is_temporal(type_):
        return pa.array(texts, pa.string()).cast(type_)
    return pa.concat_arrays([_temporal(text, type_) for text in texts])


def _numbered_text(array: pa.Array) -> list[str | None]:
    storage = pa.int32() if array.type.bit_width == 32 else pa.int64()
    return [None if n is None else f"#{n}" for n in array.view(storage).to_pylist()]


def _temporal(text: str | None, type_: pa.DataType) -> pa.Array:
    if text is None:
        return pa.nulls(1, type_)  # Arrow casts no text to a time, not even one that is null
    if text.startswith("#"):
        storage = pa.int32() if type_.bit_width == 32 else pa.int64()
        return pa.array([int(text[1:])], storage).view(type_)
    return pa.array([text], pa.string()).cast(type_)


def split_by_partition(
    columns: Sequence[str], batch: pa.RecordBatch
) -> Iterator[tuple[Partition, pa.RecordBatch]]:
    """The rows of each partition, in arrival order."""
    if batch.num_rows == 0:
        return
    if not columns:
        yield (), batch
        return
    partitions, ids = partitions_of(columns, batch)
    for number, rows in scatter(batch, ids, len(partitions)):
        yield partitions[number], rows


def partitions_of(
    columns: Sequence[str], batch: pa.RecordBatch
) -> tuple[list[Partition], pa.Buffer]:
    """The distinct partitions of some rows, and the number (int32) of each row's."""
    distinct, ids = _distinct_rows([batch.column(name) for name in columns])
    return list(zip(*map(partition_text, distinct), strict=True)), ids


def _distinct_rows(columns: Sequence[pa.Array]) -> tuple[list[pa.Array], pa.Buffer]:
    """The distinct rows of some columns, and for each row the number of its distinct one."""
    ids = pa.repeat(pa.scalar(0, pa.int32()), len(columns[0])).dictionary_encode()
    for column in columns:
        ids = _refined(ids, _one_zero(column).dictionary_encode("encode"))
    firsts = _first_positions(ids)
    return [column.take(firsts) for column in columns], ids.indices.buffers()[1]


def _refined(ids: pa.DictionaryArray, column: pa.DictionaryArray) -> pa.DictionaryArray:
    """Numbers of distinct pairs. Both sides are dense, so that their product cannot overflow."""
    import pyarrow.compute as pc

    high = pc.multiply(ids.indices.cast(pa.int64()), pa.scalar(len(column.dictionary), pa.int64()))
    return pc.add(high, column.indices.cast(pa.int64())).dictionary_encode()


def _one_zero(column: pa.Array) -> pa.Array:
    """Keys treat the two zeros of floating-point numbers as one value, so partitions must too."""
    if not pa.types.is_floating(column.type):
        return column
    import pyarrow.compute as pc

    return pc.add(column, pa.scalar(0.0, column.type))


def _first_positions(encoded: pa.DictionaryArray) -> pa.Array:
    order, starts = group_ids(encoded.indices.buffers()[1], len(encoded.dictionary))
    positions = pa.Array.from_buffers(pa.uint32(), len(encoded), [None, pa.py_buffer(order)])
    offsets = pa.Array.from_buffers(
        pa.uint32(), len(encoded.dictionary), [None, pa.py_buffer(starts)]
    )
    return positions.take(offsets)


def _is_binary(type_: pa.DataType) -> bool:
    return bool(pa.types.is_binary(type_) or pa.types.is_fixed_size_binary(type_))
