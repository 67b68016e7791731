"""Merges lists of words in pairs, by arithmetic instead of jumps.

Which list has the next row cannot be foreseen, and a processor that guesses is wrong every other
time. Both halves of a pair are merged from both ends at once, so that four comparisons are under
way. Whatever the words are, sorted or not, every row comes out once and no memory outside is
touched.
"""

from libc.stdint cimport uintptr_t
from libc.string cimport memcpy

from lsmerge_native._newest_merge cimport newest_of_two


# What is left of two lists between their beginnings and ends, and the room for it.
cdef struct Pair:
    const Entry* a
    const Entry* a_end
    const Entry* b
    const Entry* b_end
    Entry* out
    Entry* out_end


cdef Segment merge_segments(
    Segment* segments, Py_ssize_t count, Entry* scratch, Py_ssize_t scratch_rows, bint newest_only
) noexcept nogil:
    cdef Py_ssize_t i, best
    while count > 1:
        best = 0
        for i in range(1, count - 1):
            if segments[i].count + segments[i + 1].count < \
                    segments[best].count + segments[best + 1].count:
                best = i
        segments[best] = merge_pair(
            segments[best], segments[best + 1], scratch, scratch_rows, newest_only)
        for i in range(best + 1, count - 1):
            segments[i] = segments[i + 1]
        count -= 1
    return segments[0]


cdef Segment merge_pair(
    Segment older, Segment younger, Entry* scratch, Py_ssize_t scratch_rows, bint newest_only
) noexcept nogil:
    """Merge into a scratch that holds neither."""
    cdef const Entry* a = scratch + older.scratch * scratch_rows + older.start
    cdef const Entry* b = scratch + younger.scratch * scratch_rows + younger.start
    cdef Entry* out
    cdef int target = 0
    while target == older.scratch or target == younger.scratch:
        target += 1
    out = scratch + target * scratch_rows + older.start
    if newest_only:
        return Segment(older.start, newest_of_two(a, older.count, b, younger.count, out), target)
    merge_two(a, older.count, b, younger.count, out)
    return Segment(older.start, older.count + younger.count, target)


cdef void merge_two(
    const Entry* a, Py_ssize_t a_count, const Entry* b, Py_ssize_t b_count, Entry* out
) noexcept nogil:
    """Merge two sorted lists, `a` before `b` where keys are equal."""
    cdef Py_ssize_t half = (a_count + b_count) // 2, steps, _step
    cdef Py_ssize_t middle = rows_of_first(a, a_count, b, b_count, half)
    cdef Pair low = Pair(a, a + middle, b, b + half - middle, out, out + half)
    cdef Pair high = Pair(
        a + middle, a + a_count, b + half - middle, b + b_count, out + half,
        out + a_count + b_count)
    steps = min(steps_of(&low), steps_of(&high))
    while steps > 0:
        for _step in range(steps):
            take_ends(&low)
            take_ends(&high)
        steps = min(steps_of(&low), steps_of(&high))
    finish(&low)
    finish(&high)


cdef Py_ssize_t rows_of_first(
    const Entry* a, Py_ssize_t a_count, const Entry* b, Py_ssize_t b_count, Py_ssize_t count
) noexcept nogil:
    """How many of the first `count` rows of both lists, merged, are of `a`; whatever the keys are,
    `a` has these and `b` the rest.
    """
    cdef Py_ssize_t low = max(0, count - b_count), high = min(a_count, count), middle
    while low < high:
        middle = (low + high) // 2
        if b[count - middle - 1].key < a[middle].key:
            high = middle
        else:
            low = middle + 1
    return low


cdef inline Py_ssize_t steps_of(const Pair* pair) noexcept nogil:
    # A step takes two rows at most from a list, which has them for so many steps.
    return min(pair.a_end - pair.a, pair.b_end - pair.b) // 2


cdef inline void take_ends(Pair* pair) noexcept nogil:
    """Take the first row and the last one. Requires: both lists have two rows at least."""
    cdef uintptr_t from_b = pair.b.key < pair.a.key
    cdef uintptr_t from_a = (pair.b_end - 1).key < (pair.a_end - 1).key
    pair.out[0] = select(pair.a, pair.b, from_b)[0]
    pair.out += 1
    pair.b += from_b
    pair.a += 1 - from_b
    pair.out_end -= 1
    pair.out_end[0] = (select(pair.b_end, pair.a_end, from_a) - 1)[0]
    pair.a_end -= from_a
    pair.b_end -= 1 - from_a


cdef void finish(Pair* pair) noexcept nogil:
    cdef Py_ssize_t steps, _step
    cdef uintptr_t from_b
    while pair.a < pair.a_end and pair.b < pair.b_end:
        steps = steps_of(pair)
        for _step in range(steps):
            take_ends(pair)
        if steps == 0:
            from_b = pair.b.key < pair.a.key
            pair.out[0] = select(pair.a, pair.b, from_b)[0]
            pair.out += 1
            pair.b += from_b
            pair.a += 1 - from_b
    memcpy(pair.out, pair.a, (pair.a_end - pair.a) * sizeof(Entry))
    pair.out += pair.a_end - pair.a
    memcpy(pair.out, pair.b, (pair.b_end - pair.b) * sizeof(Entry))


cdef inline const Entry* select(const Entry* a, const Entry* b, uintptr_t is_b) noexcept nogil:
    # Compilers make a jump of a choice between two addresses, and it would be a coin toss.
    return <const Entry*> (<uintptr_t> a ^ ((<uintptr_t> a ^ <uintptr_t> b) & (0 - is_b)))
