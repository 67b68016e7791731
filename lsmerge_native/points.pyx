"""Single rows by key: from Python values of the key to those of the row.

    key -> partition and bucket -> runs, newest first -> file, filter, block -> rows -> dict

Where one row of one run decides, the row is taken from its block. Everything else is the business
of an *owner*: it makes what is missing, and merges where several rows have a say. Its methods:

    bucket(partition, number) -> PointBucket      partition: as given to `put_partition`
    located(partition, hash) -> PointBucket       where only an index tells; None if it names none
    open(file)                                    calls `PointFile.open`
    load(file, number) -> PointBlock              and calls `PointFile.put`, if it is kept
    merged(bucket, key) -> dict | None            key: Keys of one row
"""

cimport cython
from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject
from libc.stdint cimport UINT16_MAX, int32_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport abs as int_abs

from lsmerge_native.buffers cimport NativeBuffer, allocate
from lsmerge_native.keys cimport Keys, KeyView, copied_key, hash_keys
from lsmerge_native.lookup cimport find_key
from lsmerge_native.one_key cimport KeyEncoder, OneKey
from lsmerge_native.point_files cimport PointBucket, PointFile, file_for
from lsmerge_native.point_rows cimport PointBlock, RowShape
from lsmerge_native.reduce cimport make_selection
from lsmerge_native.watch cimport DirectoryWatch


cdef enum Verdict:
    ABSENT
    FOUND     # one row alone decides, and is visible
    SEVERAL   # rows have to be merged


@cython.final
@cython.auto_pickle(False)
cdef class _Partition:
    cdef object partition   # as the owner knows it
    cdef int32_t count
    cdef list buckets       # None where nobody asked yet


@cython.final
@cython.auto_pickle(False)
cdef class PointReader:
    """Looks single keys up in one version of a table. Thread-safe."""

    cdef object _owner
    cdef KeyEncoder _encoder
    cdef RowShape _shape
    cdef tuple _partition_columns
    cdef bint _newest_wins
    cdef dict _partitions
    cdef DirectoryWatch _watch

    def __init__(
        self, owner, KeyEncoder encoder, RowShape shape not None, tuple partition_columns not None,
        bint newest_wins,
    ):
        """Without an encoder, or where the key does not say the partition, only `get_at` is of use.

        `partition_columns` are positions in the key; `newest_wins` if the newest row of a key
        decides alone what is visible.
        """
        self._owner, self._encoder, self._shape = owner, encoder, shape
        self._partition_columns, self._newest_wins = partition_columns, newest_wins
        self._partitions = {}

    def put_partition(self, values, partition, int32_t num_buckets):
        """Keys with these values (a tuple, if of several columns) are in one of so many buckets;
        0 if the owner knows in which.
        """
        cdef _Partition entry = _Partition.__new__(_Partition)
        if num_buckets < 0:
            raise ValueError(f"num_buckets must not be negative, got {num_buckets}")
        entry.partition, entry.count = partition, num_buckets
        entry.buckets = [None] * num_buckets
        self._partitions[values] = entry

    def watch(self, DirectoryWatch watch):
        """`newest` answers as long as nothing changes there; not at all if None."""
        self._watch = watch

    def newest(self, key):
        """As `get`, and NotImplemented also if the table may have changed."""
        if self._watch is None or not self._watch.is_unchanged():
            return NotImplemented
        return self.get(key)

    def is_current(self):
        """Whether the table has certainly not changed since it is watched."""
        return self._watch is not None and self._watch.is_unchanged()

    cpdef object get(self, key):
        """The row of a key, or None; NotImplemented if the key must be converted or refused, or is
        of a partition that nobody has named yet.
        """
        cdef OneKey one
        cdef PointBucket bucket
        cdef _Partition entry = self._encode(key, &one)
        if entry is None:
            return NotImplemented
        bucket = self._bucket(entry, <int32_t> one.bucket_hash)
        return None if bucket is None else self._look_up(bucket, &one.view)

    def find_many(self, list keys not None):
        """The visible rows of some keys, in the order asked and each once, as they lie in blocks: a
        list of blocks and a selection of their rows.

        NotImplemented if that is not all there is to it: if `get` would say so of a key, or rows
        have to be merged.
        """
        cdef Py_ssize_t count = len(keys), found = 0, i
        cdef NativeBuffer sources = allocate(count * sizeof(uint16_t))
        cdef NativeBuffer rows = allocate(count * sizeof(uint32_t))
        cdef dict numbers = {}
        cdef set seen = set()
        cdef PointBlock block
        cdef Verdict verdict
        if count > UINT16_MAX:
            raise ValueError(f"{count} keys; at most {UINT16_MAX} at once")
        for i in range(count):
            block = self._find_one(keys[i], seen, &verdict, <uint32_t*> rows.ptr + found)
            if verdict == SEVERAL:
                return NotImplemented
            if verdict == FOUND:
                (<uint16_t*> sources.ptr)[found] = numbers.setdefault(block, len(numbers))
                found += 1
        sources.truncate(found * sizeof(uint16_t))
        rows.truncate(found * sizeof(uint32_t))
        return list(numbers), make_selection(sources, rows, len(numbers), None, 0)

    def get_at(self, PointBucket bucket not None, Keys key not None):
        """The row of an encoded key, which is the only one of `key`, in one bucket."""
        if key.view.length != 1:
            raise ValueError(f"{len(key)} keys where one is looked up")
        return self._look_up(bucket, &key.view)

    def parts(self, PointBucket bucket not None, Keys key not None):
        """All rows of a key, run by run: a list of (file, block, start, stop)."""
        cdef list parts = []
        cdef PointFile file
        cdef uint64_t hash
        if key.view.length != 1:
            raise ValueError(f"{len(key)} keys where one is looked up")
        hash_keys(&key.view, &hash)
        for run in bucket.runs:
            file = self._candidate(run, &key.view, hash)
            if file is not None:
                self._add_parts(file, &key.view, parts)
        return parts

    cdef PointBlock _find_one(self, object key, set seen, Verdict* verdict, uint32_t* row):
        """As _decide(), but ABSENT for a key that was seen, and SEVERAL for one that get() leaves
        to others.
        """
        cdef OneKey one
        cdef PointBucket bucket
        cdef _Partition entry = self._encode(key, &one)
        verdict[0] = SEVERAL if entry is None else ABSENT
        if entry is None or key in seen:
            return None
        seen.add(key)
        bucket = self._bucket(entry, <int32_t> one.bucket_hash)
        return None if bucket is None else self._decide(bucket, &one.view, verdict, row)

    cdef _Partition _encode(self, object key, OneKey* one):
        """Encode a key; returns its partition, None if either is not for the reader to tell."""
        cdef PyObject* entry
        if self._encoder is None or not self._encoder.encode(key, one):
            return None
        entry = PyDict_GetItemWithError(self._partitions, self._partition_of(key))
        return None if entry == NULL else <_Partition> entry

    cdef object _partition_of(self, object key):
        cdef tuple columns = self._partition_columns
        if len(columns) == 0:
            return None
        if len(columns) == 1:
            return (<tuple> key)[<Py_ssize_t> columns[0]]
        return tuple([(<tuple> key)[<Py_ssize_t> column] for column in columns])

    cdef PointBucket _bucket(self, _Partition entry, int32_t hash):
        """The bucket of keys with this hash; None if it has none."""
        cdef PointBucket bucket
        cdef int32_t number
        if entry.count == 0:
            return self._owner.located(entry.partition, hash)
        number = int_abs(hash % entry.count)
        bucket = entry.buckets[number]
        if bucket is None:
            bucket = entry.buckets[number] = self._owner.bucket(entry.partition, number)
        return bucket

    cdef object _look_up(self, PointBucket bucket, const KeyView* key):
        cdef Verdict verdict
        cdef uint32_t row
        cdef PointBlock block = self._decide(bucket, key, &verdict, &row)
        if verdict == SEVERAL:
            return self._owner.merged(bucket, copied_key(key, 0))
        return None if verdict == ABSENT else self._shape.row(block, row)

    cdef PointBlock _decide(
        self, PointBucket bucket, const KeyView* key, Verdict* verdict, uint32_t* row
    ):
        """The block and the row that alone decide what is visible of a key, if there is one."""
        cdef PointBlock block, found = None
        cdef PointFile file
        cdef uint64_t hash
        cdef uint32_t start
        cdef Py_ssize_t number, count, i
        cdef bint is_one, is_add, decides
        verdict[0] = ABSENT
        hash_keys(key, &hash)
        if len(bucket.runs) > 1:
            _prefetch_filters(bucket, key, hash)
        for i in range(len(bucket.runs)):
            file = self._candidate(<list> bucket.runs[i], key, hash)
            if file is None:
                continue
            number = file.first_block(key)
            if number < 0:
                continue
            # It may be closed while a block is loaded, so whatever it is asked comes before.
            is_one = file.one_row and not file.goes_on(number, key)
            block = self._block(file, number)
            count = _find(block, key, &start)
            if count == 0:
                continue
            self._shape.prefetch(block, start)
            is_add = file.adds_only or not self._shape.kind(block, start) & 1
            decides = is_one and count == 1
            if decides and self._newest_wins and bucket.is_by_age:
                verdict[0], row[0] = FOUND if is_add else ABSENT, start
                return block
            if not decides or not is_add or found is not None:
                verdict[0] = SEVERAL
                return None
            verdict[0], row[0], found = FOUND, start, block
        return found

    cdef PointFile _candidate(self, list run, const KeyView* key, uint64_t hash):
        """The file of a run that may hold the key, open; None if there is none."""
        cdef PyObject* found = file_for(run, key)
        if found == NULL:
            return None
        cdef PointFile file = <PointFile> found
        while not file.is_open:
            self._owner.open(file)
        return file if file.may_hold(hash) else None

    cdef PointBlock _block(self, PointFile file, Py_ssize_t number):
        cdef PointBlock block = file.block(number)
        if block is not None:
            block.touch()
            return block
        block = self._owner.load(file, number)
        if block is None:
            raise TypeError(f"block {number} was not loaded")
        return block

    cdef int _add_parts(self, PointFile file, const KeyView* key, list parts) except -1:
        cdef Py_ssize_t number = file.first_block(key), last = number, count
        cdef PointBlock block
        cdef uint32_t start
        if number < 0:
            return 0
        while file.goes_on(last, key):
            last += 1
        for number in range(number, last + 1):
            block = self._block(file, number)
            count = _find(block, key, &start)
            if count:
                parts.append((file.file, block, start, start + count))
        return 0


cdef void _prefetch_filters(PointBucket bucket, const KeyView* key, uint64_t hash) noexcept:
    """Each filter is a cache miss, and these should be under way together."""
    cdef PyObject* file
    cdef Py_ssize_t i
    for i in range(len(bucket.runs)):
        file = file_for(<list> bucket.runs[i], key)
        if file != NULL:
            (<PointFile> file).prefetch_filter(hash)


cdef Py_ssize_t _find(PointBlock block, const KeyView* key, uint32_t* start) except -1:
    """How many rows of the block have the key, and the first of them."""
    cdef const KeyView* keys = &block.keys.view
    if (keys.words == NULL) != (key.words == NULL) or keys.width != key.width:
        raise ValueError(f"a key of width {key.width} is looked for among keys of {keys.width}")
    return find_key(block.keys, key, start)
