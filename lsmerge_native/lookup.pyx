"""Finds sorted keys in the sorted blocks of a run, for point reads.

Keys that lie far apart are a cache miss at nearly every step of a binary search. So several
searches go step by step side by side, and each asks for the memory of its next step before the
others take theirs: the misses overlap. Keys that are words are searched in a sample of them first,
which has its place in a cache, and then in the few words between two of the sample.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport UINT16_MAX, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from lsmerge_native.buffers cimport NativeBuffer, allocate
from lsmerge_native.keys cimport (
    Keys,
    KeyView,
    compare_at,
    gallop,
    require_addressable,
    require_comparable,
)
from lsmerge_native.reduce cimport make_selection


cdef extern from *:
    void prefetch "__builtin_prefetch"(const void* address) noexcept nogil


cdef enum:
    LANES = 16  # searches side by side, about as many misses as a core has under way
    SPAN = 16   # words for each one of the sample: two cache lines


def touched_blocks(Keys probes not None, list firsts not None, list lasts not None):
    """The blocks that may hold some of the probes: a list of (block, start, stop), the probes that
    are in its range being [start, stop).

    firsts[i] and lasts[i] are the first and the last key of block i. Requires: all sorted.
    """
    cdef Py_ssize_t count = len(firsts), block, start = 0, stop
    cdef list touched = []
    if len(lasts) != count:
        raise ValueError(f"{count} first keys for {len(lasts)} last keys")
    for block in range(count):
        start = _search(probes, start, firsts[block], False)
        if start == probes.view.length:
            break
        stop = _search(probes, start, lasts[block], True)
        if start < stop:
            touched.append((block, start, stop))
    return touched


def find_rows(list blocks not None, list probes not None):
    """Select the rows whose key is among the probes of their block, block by block, in key order;
    return the selection, and of how many rows of each block it is.

    blocks[i] are the keys of a block, probes[i] those to look for there. Requires: all sorted, the
    probes of a block distinct.
    """
    cdef Py_ssize_t count = len(blocks), total = 0, rows = 0, i
    cdef Keys wanted
    cdef list counts = []
    if count > UINT16_MAX or len(probes) != count:
        raise ValueError(f"{len(probes)} probes for {count} blocks; at most {UINT16_MAX} at once")
    for i in range(count):
        wanted = probes[i]
        require_comparable(blocks[i], wanted, "find_rows")
        total += wanted.view.length
    cdef NativeBuffer starts = allocate(total * sizeof(uint32_t))
    cdef NativeBuffer stops = allocate(total * sizeof(uint32_t))
    cdef uint32_t* low = <uint32_t*> starts.ptr
    cdef uint32_t* high = <uint32_t*> stops.ptr
    for i in range(count):
        wanted = probes[i]
        counts.append(_find(blocks[i], wanted, low, high))
        rows += <Py_ssize_t> counts[i]
        low += wanted.view.length
        high += wanted.view.length
    return _listed(probes, starts, stops, rows), counts


cdef Py_ssize_t _search(Keys probes, Py_ssize_t start, bytes key, bint after) except -1:
    """The first probe from `start` on that is not less than the key, or greater if `after`."""
    cdef uint32_t offsets[2]
    cdef KeyView view
    require_addressable(PyBytes_GET_SIZE(key))
    memset(&view, 0, sizeof(KeyView))
    offsets[0], offsets[1] = 0, <uint32_t> PyBytes_GET_SIZE(key)
    view.length, view.offsets = 1, offsets
    view.bytes = <const uint8_t*> PyBytes_AS_STRING(key)
    return gallop(&probes.view, start, &view, 0, after)


cdef Py_ssize_t _find(Keys keys, Keys probes, uint32_t* low, uint32_t* high) except -1:
    """Fill in the rows [low, high) of each probe; returns how many rows those are."""
    cdef const uint64_t* sample = _sample_of(keys)
    cdef Py_ssize_t found
    with nogil:
        found = _find_all(&keys.view, sample, &probes.view, low, high)
    return found


cdef Py_ssize_t find_key(Keys keys, const KeyView* key, uint32_t* start) except -1:
    cdef uint32_t stop
    # One search is over sooner than the GIL would be given away and taken back.
    return _find_all(&keys.view, _sample_of(keys), key, start, &stop)


cdef const uint64_t* _sample_of(Keys keys) except? NULL:
    if keys.view.words == NULL:
        return NULL
    if keys.sample is None:
        keys.sample = _sampled(&keys.view)
    return <const uint64_t*> keys.sample.ptr


cdef Py_ssize_t _find_all(
    const KeyView* keys, const uint64_t* sample, const KeyView* probes, uint32_t* low,
    uint32_t* high,
) noexcept nogil:
    cdef Py_ssize_t found = 0, probe = 0
    cdef int lanes, lane
    while probe < probes.length:
        lanes = <int> min(<Py_ssize_t> LANES, probes.length - probe)
        if keys.words != NULL:
            _search_words(keys, sample, probes.words + probe, lanes, low)
        else:
            _search_bytes(keys, probes, probe, lanes, low)
        for lane in range(lanes):
            high[lane] = _end(keys, low[lane], probes, probe + lane)
            found += high[lane] - low[lane]
        low += lanes
        high += lanes
        probe += lanes
    return found


cdef inline uint32_t _end(
    const KeyView* keys, uint32_t row, const KeyView* probes, Py_ssize_t probe
) noexcept nogil:
    """Where the rows with the probe's key end. Requires: they begin at `row`."""
    while row < keys.length and compare_at(keys, row, probes, probe) == 0:
        row += 1
    return row


cdef NativeBuffer _sampled(const KeyView* keys):
    """The last word of each SPAN whole ones."""
    cdef Py_ssize_t count = keys.length // SPAN, i
    cdef NativeBuffer sample = allocate(count * sizeof(uint64_t))
    with nogil:
        for i in range(count):
            (<uint64_t*> sample.ptr)[i] = keys.words[SPAN * i + SPAN - 1]
    return sample


cdef void _search_words(
    const KeyView* keys, const uint64_t* sample, const uint64_t* probes, int lanes, uint32_t* rows
) noexcept nogil:
    """The first row not less than each probe."""
    cdef Py_ssize_t start
    cdef int lane
    _search_sample(sample, keys.length // SPAN, probes, lanes, rows)
    for lane in range(lanes):
        rows[lane] *= SPAN
        prefetch(keys.words + rows[lane])
        prefetch(keys.words + rows[lane] + SPAN - 1)
    for lane in range(lanes):
        start = rows[lane]
        rows[lane] += _count_less(
            keys.words + start, min(<Py_ssize_t> SPAN, keys.length - start), probes[lane])


cdef inline uint32_t _count_less(
    const uint64_t* words, Py_ssize_t count, uint64_t probe
) noexcept nogil:
    cdef uint32_t less = 0
    cdef Py_ssize_t i
    for i in range(count):
        less += words[i] < probe
    return less


cdef void _search_sample(
    const uint64_t* words, Py_ssize_t size, const uint64_t* probes, int lanes, uint32_t* rows
) noexcept nogil:
    """The first of `size` words not less than each probe. A search halves its words until one is
    left, so that all have the same size and none needs a branch.
    """
    cdef Py_ssize_t half, ahead
    cdef int lane
    for lane in range(lanes):
        rows[lane] = 0
    while size > 1:
        half = size // 2
        size -= half
        ahead = max(<Py_ssize_t> 1, size // 2) - 1
        for lane in range(lanes):
            rows[lane] += <uint32_t> half * (words[rows[lane] + half - 1] < probes[lane])
            prefetch(words + rows[lane] + ahead)
    if size == 1:
        for lane in range(lanes):
            rows[lane] += words[rows[lane]] < probes[lane]


cdef void _search_bytes(
    const KeyView* keys, const KeyView* probes, Py_ssize_t probe, int lanes, uint32_t* rows
) noexcept nogil:
    """As _search_sample, in the keys themselves; a key is two misses, its offset and its bytes."""
    cdef Py_ssize_t size = keys.length, half = 0
    cdef int lane
    for lane in range(lanes):
        rows[lane] = 0
    while size > 1:
        half = size // 2
        size -= half
        for lane in range(lanes):
            prefetch(keys.offsets + rows[lane] + half - 1)
        for lane in range(lanes):
            prefetch(keys.bytes + keys.offsets[rows[lane] + half - 1])
        for lane in range(lanes):
            if compare_at(keys, rows[lane] + half - 1, probes, probe + lane) < 0:
                rows[lane] += <uint32_t> half
    if size == 1:
        for lane in range(lanes):
            rows[lane] += compare_at(keys, rows[lane], probes, probe + lane) < 0


cdef object _listed(list probes, NativeBuffer starts, NativeBuffer stops, Py_ssize_t total):
    cdef NativeBuffer sources = allocate(total * sizeof(uint16_t))
    cdef NativeBuffer rows = allocate(total * sizeof(uint32_t))
    cdef uint16_t* source = <uint16_t*> sources.ptr
    cdef uint32_t* row = <uint32_t*> rows.ptr
    cdef const uint32_t* low = <const uint32_t*> starts.ptr
    cdef const uint32_t* high = <const uint32_t*> stops.ptr
    cdef Py_ssize_t i, probe, count
    cdef uint32_t number
    for i in range(len(probes)):
        count = (<Keys> probes[i]).view.length
        with nogil:
            for probe in range(count):
                for number in range(low[probe], high[probe]):
                    source[0], row[0] = <uint16_t> i, number
                    source += 1
                    row += 1
        low += count
        high += count
    return make_selection(sources, rows, len(probes), None, 0)
