"""Finds sorted keys in the sorted blocks of a run, for point reads.

Keys that lie far apart are a cache miss at nearly every step of a binary search. So several
searches go step by step side by side, and each asks for the memory of its next step before the
others take theirs: the misses overlap. Keys are searched in a sample of a sample of them first,
which has its place in a cache, then in the few of the sample between two of those, and then in the
few keys between two of these. A sample holds words: keys that are words, and of others the eight
bytes after those that all keys of the block begin with.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stddef cimport size_t
from libc.stdint cimport UINT16_MAX, UINT64_MAX, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memset

from lsmerge_native._words cimport big_endian_prefix
from lsmerge_native.buffers cimport NativeBuffer, allocate
from lsmerge_native.keys cimport (
    Keys,
    KeyView,
    common_size,
    compare_at,
    gallop,
    require_addressable,
    require_comparable,
    size_at,
    word_at,
)
from lsmerge_native.reduce cimport make_selection


cdef extern from *:
    void prefetch "__builtin_prefetch"(const void* address) noexcept nogil


cdef enum:
    LANES = 16  # searches side by side, about as many misses as a core has under way
    SPAN = 16   # keys for each one of the sample: words of two cache lines


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
    cdef Sampled sampled = sample_keys(keys)
    cdef Py_ssize_t found
    with nogil:
        found = find_keys(&sampled, &probes.view, low, high)
    return found


cdef Py_ssize_t find_key(Keys keys, const KeyView* key, uint32_t* start) except -1:
    cdef Sampled sampled = sample_keys(keys)
    cdef uint32_t stop
    # One search is over sooner than the GIL would be given away and taken back.
    return find_keys(&sampled, key, start, &stop)


cdef Py_ssize_t find_keys(
    const Sampled* sampled, const KeyView* probes, uint32_t* low, uint32_t* high
) noexcept nogil:
    cdef const KeyView* keys = sampled.keys
    cdef Py_ssize_t found = 0, probe = 0
    cdef int lanes, lane
    while probe < probes.length:
        lanes = <int> min(<Py_ssize_t> LANES, probes.length - probe)
        if keys.words != NULL:
            _search_words(sampled, probes, probe, lanes, low)
        else:
            _search_bytes(sampled, probes, probe, lanes, low)
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


cdef Sampled sample_keys(Keys keys) except *:
    cdef Sampled sampled
    sampled.keys = &keys.view
    sampled.count = keys.view.length // SPAN
    if keys.sample is None:
        keys.shared = _shared_bytes(&keys.view)
        keys.sample = _sample(&keys.view, sampled.count, keys.shared)
    sampled.sample, sampled.shared = <const uint64_t*> keys.sample.ptr, keys.shared
    sampled.top, sampled.top_count = sampled.sample + sampled.count, sampled.count // SPAN
    return sampled


cdef size_t _shared_bytes(const KeyView* keys) noexcept nogil:
    """How many bytes all keys begin with; 0 of words."""
    if keys.words != NULL or keys.length == 0:
        return 0
    return common_size(keys, 0, keys, keys.length - 1, size_at(keys, 0))


cdef NativeBuffer _sample(const KeyView* keys, Py_ssize_t count, size_t shared):
    """The sample, and behind it that of itself."""
    cdef NativeBuffer sample = allocate((count + count // SPAN) * sizeof(uint64_t))
    cdef uint64_t* words = <uint64_t*> sample.ptr
    cdef Py_ssize_t i, row
    with nogil:
        for i in range(count):
            row = SPAN * i + SPAN - 1
            words[i] = word_at(keys, row) if keys.words != NULL else _word_after(keys, row, shared)
        for i in range(count // SPAN):
            words[count + i] = words[SPAN * i + SPAN - 1]
    return sample


cdef inline uint64_t _word_after(const KeyView* keys, Py_ssize_t row, size_t shared) noexcept nogil:
    """The eight bytes of a key after the first `shared`, which it has."""
    return big_endian_prefix(keys.bytes + keys.offsets[row] + shared, size_at(keys, row) - shared)


cdef void _search_words(
    const Sampled* sampled, const KeyView* probes, Py_ssize_t probe, int lanes, uint32_t* rows
) noexcept nogil:
    """The first row not less than each probe."""
    cdef const KeyView* keys = sampled.keys
    cdef uint64_t[LANES] words
    cdef int lane
    for lane in range(lanes):
        words[lane] = word_at(probes, probe + lane)
    _search_sample(sampled, words, lanes, rows)
    _narrow(keys.words, keys.flip, keys.length, words, lanes, rows)


cdef void _search_sample(
    const Sampled* sampled, const uint64_t* probes, int lanes, uint32_t* rows
) noexcept nogil:
    """The first of the sample not less than each probe."""
    _halve(sampled.top, sampled.top_count, probes, lanes, rows)
    _narrow(sampled.sample, 0, sampled.count, probes, lanes, rows)


cdef void _narrow(
    const uint64_t* words, uint64_t flip, Py_ssize_t count, const uint64_t* probes, int lanes,
    uint32_t* rows,
) noexcept nogil:
    """From the first of a sample of words that is not less than each probe to the first word."""
    cdef Py_ssize_t start
    cdef int lane
    for lane in range(lanes):
        rows[lane] *= SPAN
        prefetch(words + rows[lane])
        prefetch(words + rows[lane] + SPAN - 1)
    for lane in range(lanes):
        start = rows[lane]
        rows[lane] += _count_less(
            words + start, flip, min(<Py_ssize_t> SPAN, count - start), probes[lane])


cdef inline uint32_t _count_less(
    const uint64_t* words, uint64_t flip, Py_ssize_t count, uint64_t probe
) noexcept nogil:
    cdef uint32_t less = 0
    cdef Py_ssize_t i
    for i in range(count):
        less += words[i] ^ flip < probe
    return less


cdef void _halve(
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
    const Sampled* sampled, const KeyView* probes, Py_ssize_t probe, int lanes, uint32_t* rows
) noexcept nogil:
    """The first row not less than each probe."""
    cdef const KeyView* keys = sampled.keys
    cdef uint64_t[LANES] words
    cdef uint32_t[LANES] stops
    cdef int lane
    if keys.length == 0:  # there is no first key then
        memset(rows, 0, lanes * sizeof(uint32_t))
        return
    for lane in range(lanes):
        words[lane] = _probe_word(sampled, probes, probe + lane)
    _search_sample(sampled, words, lanes, rows)
    for lane in range(lanes):
        stops[lane] = _stop(sampled, words[lane], rows[lane])
        rows[lane] *= SPAN
        prefetch(keys.offsets + rows[lane])
        prefetch(keys.offsets + rows[lane] + SPAN)
    for lane in range(lanes):
        prefetch(keys.bytes + keys.offsets[(rows[lane] + stops[lane]) // 2])
    for lane in range(lanes):
        rows[lane] = _search_between(keys, rows[lane], stops[lane], probes, probe + lane)


cdef inline uint64_t _probe_word(
    const Sampled* sampled, const KeyView* probes, Py_ssize_t probe
) noexcept nogil:
    """A probe as the sample has keys. One that does not begin as they do is as small as any word,
    or as great.
    """
    cdef const KeyView* keys = sampled.keys
    cdef size_t size = size_at(probes, probe), shared = sampled.shared
    cdef int order = memcmp(
        probes.bytes + probes.offsets[probe], keys.bytes + keys.offsets[0], min(size, shared))
    if order == 0 and size >= shared:
        return _word_after(probes, probe, shared)
    return UINT64_MAX if order > 0 else 0


cdef inline uint32_t _stop(const Sampled* sampled, uint64_t word, uint32_t start) noexcept nogil:
    """A row that is not less than the probe, or the end. Requires: `start` is the first of the
    sample not less than the probe's word.
    """
    cdef Py_ssize_t low = start, high = start, middle, step = 1
    while high < sampled.count and sampled.sample[high] == word:
        low = high + 1
        high += step
        step *= 2
    high = min(high, sampled.count)
    while low < high:
        middle = low + (high - low) // 2
        if sampled.sample[middle] == word:
            low = middle + 1
        else:
            high = middle
    # The one of the sample that is greater is the last of its keys.
    return <uint32_t> (SPAN * low + SPAN - 1 if low < sampled.count else sampled.keys.length)


cdef inline uint32_t _search_between(
    const KeyView* keys, uint32_t low, uint32_t high, const KeyView* probes, Py_ssize_t probe
) noexcept nogil:
    cdef uint32_t middle
    while low < high:
        middle = low + (high - low) // 2
        if compare_at(keys, middle, probes, probe) < 0:
            low = middle + 1
        else:
            high = middle
    return low


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
