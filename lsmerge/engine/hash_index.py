"""Which bucket of a partition a key's hash went to.

The hash is placed, not the key: all keys with one 32-bit hash share a bucket, so a collision is harmless. A hash that
was placed stays, so what an index says is true of every later snapshot of the same layout (`layout_since`). Hashes are
those that fixed buckets use (Spark's Murmur3 of the key), as uint32.
"""

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from struct import pack
from typing import NamedTuple

import pyarrow as pa

from lsmerge.errors import CorruptFileError, StorageError
from lsmerge.meta.bucket_index import BucketHashes, IndexFile, read_index
from lsmerge.schema import TableSchema
from lsmerge.storage import layout
from lsmerge.storage.object_store import ObjectStore
from lsmerge_native.hash_set import HashSet, hash_set, hash_set_from_parts, locate, merge_hash_sets
from lsmerge_native.hashing import murmur3

# A set is merged with smaller ones until the next is more than twice as large: there are few sets, and each hash is
# rewritten about log2 times.
GROWTH = 2


class BucketSet(NamedTuple):
    """Some hashes of one bucket."""

    bucket: int
    hashes: HashSet


class HashIndex:
    """The placed hashes of one partition: an immutable list of disjoint sets."""

    def __init__(self, sets: Iterable[BucketSet] = ()) -> None:
        self.sets = tuple(sets)

    @property
    def counts(self) -> Counter[int]:
        """How many hashes each bucket has."""
        counts: Counter[int] = Counter()
        for bucket, hashes in self.sets:
            counts[bucket] += len(hashes)
        return counts

    @property
    def nbytes(self) -> int:
        return sum(hashes.nbytes for _, hashes in self.sets)

    def __len__(self) -> int:
        return sum(len(hashes) for _, hashes in self.sets)

    def buckets_of(self, hashes: pa.Array) -> pa.Array:
        """The bucket of each hash, -1 where it has none."""
        sets = [item.hashes for item in self.sets]
        found = locate(buffer_of(hashes), sets, [item.bucket for item in self.sets])
        return pa.Array.from_buffers(pa.int32(), len(hashes), [None, pa.py_buffer(found)])

    def bucket_of(self, hash_: int) -> int:
        """The bucket of one hash, a signed number of 32 bits; -1 if it has none."""
        sets = [item.hashes for item in self.sets]
        found = locate(pack("<i", hash_), sets, [item.bucket for item in self.sets])
        bucket: int = memoryview(found).cast("i")[0]
        return bucket

    def missing(self, hashes: pa.Array) -> pa.Array:
        """Those of the hashes that have no bucket."""
        import pyarrow.compute as pc

        return hashes.filter(pc.less(self.buckets_of(hashes), pa.scalar(0, pa.int32())))

    def with_hashes(self, bucket: int, hashes: pa.Array) -> "HashIndex":
        """Also these ascending hashes, which were not placed before."""
        if len(hashes) == 0:
            return self
        own = [item.hashes for item in self.sets if item.bucket == bucket]
        others = [item for item in self.sets if item.bucket != bucket]
        new = hash_set(buffer_of(hashes))
        count = foldable([len(item) for item in own], len(new))
        own.sort(key=len)
        merged = merge_hash_sets([new, *own[:count]]) if count else new
        return HashIndex([*others, *(BucketSet(bucket, s) for s in (*own[count:], merged))])

    def without(self, hashes: pa.Array) -> "HashIndex":
        """The same without these hashes."""
        import pyarrow.compute as pc

        index = HashIndex()
        for bucket, items in self.by_bucket():
            kept = items.filter(pc.invert(pc.is_in(items, value_set=hashes)))
            index = index.with_hashes(bucket, kept)
        return index

    def by_bucket(self) -> Iterator[tuple[int, pa.Array]]:
        """The ascending hashes of each bucket."""
        for bucket in sorted({item.bucket for item in self.sets}):
            yield bucket, hashes_of(self._merged(bucket))

    def merged(self) -> "HashIndex":
        """The same hashes, one set a bucket."""
        return HashIndex(BucketSet(bucket, self._merged(bucket)) for bucket in sorted(self.counts))

    def stored(self) -> list[BucketHashes]:
        """The sets as an index file holds them."""
        return [_stored(*item) for item in self.sets]

    def _merged(self, bucket: int) -> HashSet:
        own = [item.hashes for item in self.sets if item.bucket == bucket]
        return own[0] if len(own) == 1 else merge_hash_sets(own)


def foldable(sizes: Sequence[int], new: int) -> int:
    """How many of the smallest sets to merge with a new one of `new` hashes."""
    count = 0
    for size in sorted(sizes):
        if size > GROWTH * new:
            break
        new += size
        count += 1
    return count


def key_hashes(schema: TableSchema, batch: pa.RecordBatch) -> pa.Array:
    """The hash of each row's key inside its partition."""
    hashes = murmur3([batch.column(name) for name in schema.trimmed_key])
    return pa.Array.from_buffers(pa.uint32(), batch.num_rows, [None, pa.py_buffer(hashes)])


def ascending(hashes: pa.Array) -> pa.Array:
    """The distinct hashes in order."""
    import pyarrow.compute as pc

    distinct = hashes.unique()
    return distinct.take(pc.array_sort_indices(distinct))


def buffer_of(array: pa.Array) -> pa.Buffer:
    """The values of an array of numbers without nulls."""
    width = array.type.bit_width // 8
    buffer = array.buffers()[1]
    return (
        pa.py_buffer(b"")
        if buffer is None
        else buffer.slice(array.offset * width, len(array) * width)
    )


def hashes_of(item: HashSet) -> pa.Array:
    """A set's hashes in order."""
    return pa.Array.from_buffers(pa.uint32(), len(item), [None, pa.py_buffer(item.hashes())])


def discard_indexes(store: ObjectStore, files: Iterable[IndexFile]) -> None:
    """Delete index files that were never published."""
    for file in files:
        with suppress(StorageError):  # then it is an orphan: nothing refers to it
            store.delete(layout.index_path(file.name))


def read_hashes(store: ObjectStore, file: IndexFile) -> HashIndex:
    """The content of one index file."""
    path = layout.index_path(file.name)
    try:
        return HashIndex(
            BucketSet(item.bucket, hash_set_from_parts(item.starts, item.values))
            for item in read_index(store, file)
        )
    except ValueError as error:
        raise CorruptFileError(path, f"not an index: {error}") from error


def _stored(bucket: int, item: HashSet) -> BucketHashes:
    starts, values = item.parts
    buffer = None if starts is None else pa.py_buffer(starts)
    return BucketHashes(bucket, buffer, pa.py_buffer(values))


class HashIndexCache:
    """Index files read so far, by name. A file is immutable, so nothing here is ever stale. Thread-safe."""

    def __init__(self, store: ObjectStore, max_bytes: int) -> None:
        self._store = store
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._files: OrderedDict[str, HashIndex] = OrderedDict()
        self._bytes = 0

    def load(self, files: Iterable[IndexFile]) -> HashIndex:
        """The index that these files make together."""
        return HashIndex(item for file in files for item in self._content(file).sets)

    def keep(self, file: IndexFile, content: HashIndex) -> None:
        """Remember what was just written."""
        with self._lock:
            if file.name not in self._files:
                self._files[file.name] = content
                self._bytes += content.nbytes
            self._evict()

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._files.clear()
            self._bytes = 0

    def _content(self, file: IndexFile) -> HashIndex:
        with self._lock:
            found = self._files.get(file.name)
            if found is not None:
                self._files.move_to_end(file.name)
                return found
        content = read_hashes(self._store, file)
        self.keep(file, content)
        return content

    def _evict(self) -> None:
        while self._bytes > self._max_bytes and len(self._files) > 1:
            _, dropped = self._files.popitem(last=False)
            self._bytes -= dropped.nbytes
