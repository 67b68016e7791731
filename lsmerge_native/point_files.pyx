# cython: freethreading_compatible=False
"""The files of a bucket as single keys are looked for in them: by key range, key filter and block.

A file is opened and its blocks are decoded by whoever owns it, when a search asks for that; here is
only what a search looks at. Blocks come and go with the cache that pays for them.

Files change under a search that calls Python in between, and only then: the GIL guards them.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from lsmerge_native.buffers cimport InputBuffer, view_items
from lsmerge_native.filter cimport BLOCK_BYTES, prefetch_block
from lsmerge_native.filter cimport may_hold as filter_may_hold
from lsmerge_native.keys cimport KeyView, compare_at, require_addressable
from lsmerge_native.point_rows cimport PointBlock


@cython.final
@cython.auto_pickle(False)
cdef class PointFile:
    """One file: what tells where a key may be, and the blocks in memory."""

    def __init__(
        self, file, bytes min_key not None, bytes max_key not None, *, bint adds_only=False
    ):
        """`file` is for the owner to know it by; `adds_only` if it has no retracts."""
        self.adds_only = adds_only
        require_addressable(PyBytes_GET_SIZE(min_key))
        require_addressable(PyBytes_GET_SIZE(max_key))
        self.file, self._min_key, self._max_key = file, min_key, max_key

    def open(
        self, list first_keys not None, list last_keys not None, key_filter, bint one_row
    ):
        """Take what the file's index says of its blocks, and its key filter if it has one."""
        cdef Py_ssize_t count = len(first_keys), i
        if len(last_keys) != count:
            raise ValueError(f"{count} first keys for {len(last_keys)} last keys")
        for i in range(count):
            require_addressable(PyBytes_GET_SIZE(<bytes?> first_keys[i]))
            require_addressable(PyBytes_GET_SIZE(<bytes?> last_keys[i]))
        cdef InputBuffer bitset = None
        if key_filter is not None:
            bitset = view_items(key_filter, sizeof(uint64_t), "key_filter")
            if bitset.size == 0 or bitset.size % BLOCK_BYTES:
                raise ValueError(f"key_filter: {bitset.size} bytes are not whole blocks")
        self._filter = bitset
        self._first_keys, self._last_keys = first_keys, last_keys
        self._blocks = [None] * count
        self.one_row, self.is_open = one_row, True

    def close(self):
        """Forget everything but the range of keys."""
        self.is_open = False
        self._first_keys = self._last_keys = self._blocks = None
        self._filter = None

    def put(self, Py_ssize_t number, PointBlock block):
        """Have a block at hand, or no longer if None; nothing happens to a closed file."""
        if self._blocks is None:
            return
        if number < 0 or number >= len(self._blocks):
            raise IndexError(f"block {number} is not in a file of {len(self._blocks)} blocks")
        self._blocks[number] = block

    @property
    def blocks(self):
        """Those at hand by number, None for others; None while it is closed."""
        return None if self._blocks is None else list(self._blocks)

    cdef bint may_hold(self, uint64_t hash) noexcept:
        return self._filter is None or filter_may_hold(
            self._filter.ptr, self._filter.size, hash)

    cdef void prefetch_filter(self, uint64_t hash) noexcept:
        if self._filter is not None:
            prefetch_block(self._filter.ptr, self._filter.size, hash)

    cdef Py_ssize_t first_block(self, const KeyView* key) noexcept:
        cdef Py_ssize_t low = 0, high = len(self._last_keys), middle
        while low < high:
            middle = low + (high - low) // 2
            if _compare(<bytes> self._last_keys[middle], key) < 0:
                low = middle + 1
            else:
                high = middle
        if low == len(self._last_keys) or _compare(<bytes> self._first_keys[low], key) > 0:
            return -1
        return low

    cdef bint goes_on(self, Py_ssize_t number, const KeyView* key) noexcept:
        return number + 1 < len(self._first_keys) and \
            _compare(<bytes> self._first_keys[number + 1], key) == 0

    cdef PointBlock block(self, Py_ssize_t number):
        return None if self._blocks is None else <PointBlock> self._blocks[number]


@cython.final
@cython.auto_pickle(False)
cdef class PointBucket:
    """The sorted runs of a bucket, newest first; each a list of files in key order."""

    def __init__(self, list runs not None, bint is_by_age):
        for run in runs:
            if not isinstance(run, list) or not all([isinstance(f, PointFile) for f in run]):
                raise TypeError("a run is a list of files")
        self.runs, self.is_by_age = runs, is_by_age


cdef PyObject* file_for(list run, const KeyView* key) noexcept:
    cdef Py_ssize_t low = 0, high = len(run), middle
    while low < high:
        middle = low + (high - low) // 2
        if _compare((<PointFile> run[middle])._max_key, key) < 0:
            low = middle + 1
        else:
            high = middle
    if low == len(run) or _compare((<PointFile> run[low])._min_key, key) > 0:
        return NULL
    return <PyObject*> run[low]


cdef inline int _compare(bytes bound, const KeyView* key) noexcept:
    """Order of an encoded key as bytes and one as kernels have it."""
    cdef uint32_t[2] offsets
    cdef KeyView view
    offsets[0], offsets[1] = 0, <uint32_t> PyBytes_GET_SIZE(bound)
    view.length, view.width, view.skip, view.words, view.flip = 1, 0, 0, NULL, 0
    view.offsets, view.bytes = offsets, <const uint8_t*> PyBytes_AS_STRING(bound)
    return compare_at(&view, 0, key, 0)
