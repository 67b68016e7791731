"""Index files of dynamic buckets: which hashes of a partition's keys are in which bucket.

A file belongs to one partition and is immutable. It has a record batch per bucket, each of one row with the bucket
and an ascending set of hashes in one of two layouts (lsmerge_native/hash_set.pyx): `hashes` alone, or `starts` and
`lows`. A partition's index is the union of its live files, whose hashes are disjoint. The manifest entry holds the
length and checksum of the whole file.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lsmerge.errors import CorruptFileError, UnsupportedFormatError
from lsmerge.failpoints import failpoint
from lsmerge.option_registry import MAX_BUCKETS
from lsmerge.storage import layout
from lsmerge.storage.checked_object import Seal, get_sealed, put_sealed
from lsmerge.storage.object_store import ObjectStore

INDEX_VERSION = b"1"
_VERSION_KEY = b"lsmerge.index"

INDEX_SCHEMA = pa.schema(
    [
        pa.field("bucket", pa.int32(), nullable=False),
        pa.field("starts", pa.list_(pa.field("item", pa.uint32(), nullable=False)), nullable=False),
        pa.field("lows", pa.list_(pa.field("item", pa.uint16(), nullable=False)), nullable=False),
        pa.field("hashes", pa.list_(pa.field("item", pa.uint32(), nullable=False)), nullable=False),
    ],
    metadata={_VERSION_KEY: INDEX_VERSION},
)


@dataclass(frozen=True, slots=True)
class IndexFile:
    """One manifest entry of an index file."""

    partition: tuple[str | None, ...]
    name: str
    seal: Seal
    num_hashes: int
    created_ms: int


@dataclass(frozen=True, slots=True)
class BucketHashes:
    """The hashes of one bucket: `starts` and lower halves, or None and the hashes."""

    bucket: int
    starts: pa.Buffer | None
    values: pa.Buffer

    @property
    def num_hashes(self) -> int:
        return int(self.values.size) // (4 if self.starts is None else 2)


def write_index(
    store: ObjectStore,
    unique_id: str,
    partition: tuple[str | None, ...],
    buckets: Sequence[BucketHashes],
    now_ms: int,
) -> IndexFile:
    """Store the hashes durably under a new name."""
    name = layout.index_name(unique_id)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, INDEX_SCHEMA) as writer:
        for item in buckets:
            writer.write_batch(_batch(item))
    seal = put_sealed(store, layout.index_path(name), sink.getvalue())
    failpoint("index.after-write")
    return IndexFile(partition, name, seal, sum(b.num_hashes for b in buckets), now_ms)


def read_index(store: ObjectStore, file: IndexFile) -> list[BucketHashes]:
    """The hashes of a file by bucket, after checking every byte of it."""
    path = layout.index_path(file.name)
    data = get_sealed(store, path, file.seal)
    try:
        reader = pa.ipc.open_file(pa.BufferReader(data))
        version = (reader.schema.metadata or {}).get(_VERSION_KEY)
        if version != INDEX_VERSION:
            raise UnsupportedFormatError(path, version, INDEX_VERSION.decode())
        batches = [reader.get_batch(i) for i in range(reader.num_record_batches)]
        found = [_bucket_hashes(path, batch) for batch in batches]
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptFileError(path, f"not an index: {error}") from error
    _check_count(path, file, found)
    return found


def _batch(item: BucketHashes) -> pa.RecordBatch:
    starts = (
        _list_of(pa.uint32(), item.starts) if item.starts is not None else _list_of(pa.uint32())
    )
    is_list = item.starts is None
    lows = _list_of(pa.uint16()) if is_list else _list_of(pa.uint16(), item.values)
    hashes = _list_of(pa.uint32(), item.values) if is_list else _list_of(pa.uint32())
    arrays = [pa.array([item.bucket], pa.int32()), starts, lows, hashes]
    return pa.RecordBatch.from_arrays(arrays, schema=INDEX_SCHEMA)


def _list_of(type_: pa.DataType, values: pa.Buffer | None = None) -> pa.Array:
    """One list that holds all the values."""
    data = pa.py_buffer(b"") if values is None else values
    items = pa.Array.from_buffers(type_, data.size * 8 // type_.bit_width, [None, data])
    offsets = pa.array([0, len(items)], pa.int32())
    list_type = pa.list_(pa.field("item", type_, nullable=False))
    return pa.ListArray.from_arrays(offsets, items, type=list_type)


def _bucket_hashes(path: str, batch: pa.RecordBatch) -> BucketHashes:
    if batch.schema != INDEX_SCHEMA or batch.num_rows != 1:
        raise CorruptFileError(path, "has other columns or rows than an index")
    batch.validate(full=True)
    starts, lows, hashes = (batch.column(name).flatten() for name in ("starts", "lows", "hashes"))
    bucket = batch.column("bucket")[0].as_py()
    if bucket is None or not 0 <= bucket < MAX_BUCKETS:
        raise CorruptFileError(path, f"has hashes of bucket {bucket}")
    if len(starts) == 0:
        return BucketHashes(bucket, None, _values(hashes))
    return BucketHashes(bucket, _values(starts), _values(lows))


def _values(array: pa.Array) -> pa.Buffer:
    width = array.type.bit_width // 8
    data = array.buffers()[1]
    if data is None:
        return pa.py_buffer(b"")
    return data.slice(array.offset * width, len(array) * width)


def _check_count(path: str, file: IndexFile, found: Iterable[BucketHashes]) -> None:
    count = sum(item.num_hashes for item in found)
    if count != file.num_hashes:
        raise CorruptFileError(path, f"holds {count} hashes where {file.num_hashes} were written")
