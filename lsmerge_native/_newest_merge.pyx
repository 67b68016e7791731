"""Merges rows by words of their keys and keeps the newest of each key.

One comparison finds the next row and whether the other list has its key too, in which case both are
passed. Which list has it cannot be foreseen, so the next row is chosen by arithmetic, and two lists
are cut by keys into lanes that are merged side by side: while one waits for its comparison the
others go on. A lane writes where its rows would be if none were left out, and is then moved up.
Whatever the words are, sorted or not, no memory outside is touched.
"""

from libc.stdint cimport intptr_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove

from lsmerge_native.keys cimport word_at


cdef extern from "include/opaque.h" nogil:
    intptr_t opaque(intptr_t value)


cdef enum:
    NUM_LANES = 4


# What is left of a part of two lists, and where the next row goes.
cdef struct Lane:
    const Entry* older
    const Entry* older_end
    const Entry* younger
    const Entry* younger_end
    Entry* out


# The same for rows of a source and a list, written as a plan.
cdef struct PlanLane:
    uint64_t older
    uint64_t older_end
    const Entry* younger
    const Entry* younger_end
    uint16_t* sources
    uint32_t* rows


# ---- two lists ----


cdef Py_ssize_t newest_of_two(
    const Entry* older, Py_ssize_t num_older, const Entry* younger, Py_ssize_t num_younger,
    Entry* out,
) noexcept nogil:
    cdef Lane[NUM_LANES] lanes
    cdef Py_ssize_t[NUM_LANES] begins
    cdef Py_ssize_t i, steps, count, end = 0, low = 0, middle, first = 0, stop
    for i in range(NUM_LANES):
        middle, stop = (i + 1) * num_older // NUM_LANES, num_younger
        if middle < num_older:
            stop = find_key(younger, first, num_younger, older[middle].key, False)
        begins[i] = low + first
        lanes[i] = Lane(
            older + low, older + middle, younger + first, younger + stop, out + begins[i])
        low, first = middle, stop
    steps = steps_of_all(lanes)
    while steps > 0:
        take_from_all(lanes, steps)
        steps = steps_of_all(lanes)
    for i in range(NUM_LANES):
        finish(&lanes[i])
        count = lanes[i].out - out - begins[i]
        memmove(out + end, out + begins[i], count * sizeof(Entry))
        end += count
    return end


cdef inline Py_ssize_t steps_of(const Lane* lane) noexcept nogil:
    """A step takes a row at most from each list, which has them for so many steps."""
    return min(lane.older_end - lane.older, lane.younger_end - lane.younger)


cdef inline Py_ssize_t steps_of_all(const Lane* lanes) noexcept nogil:
    return min(min(steps_of(&lanes[0]), steps_of(&lanes[1])),
               min(steps_of(&lanes[2]), steps_of(&lanes[3])))


cdef void take_from_all(Lane* lanes, Py_ssize_t steps) noexcept nogil:
    # Copies that no other function is given stay in registers.
    cdef Lane a = lanes[0], b = lanes[1], c = lanes[2], d = lanes[3]
    cdef Py_ssize_t _step
    for _step in range(steps):
        take(&a)
        take(&b)
        take(&c)
        take(&d)
    lanes[0], lanes[1], lanes[2], lanes[3] = a, b, c, d


cdef inline void take(Lane* lane) noexcept nogil:
    """Requires: both lists have a row."""
    cdef uint64_t old = lane.older.key, young = lane.younger.key
    cdef intptr_t is_old = opaque(-(old < young)), is_young = opaque(-(young < old))
    cdef intptr_t place = <intptr_t> lane.younger
    place ^= (place ^ <intptr_t> lane.older) & is_old
    lane.out[0] = (<const Entry*> place)[0]
    lane.out += 1
    lane.older += 1 + is_young
    lane.younger += 1 + is_old


cdef void finish(Lane* lane) noexcept nogil:
    cdef Py_ssize_t steps = steps_of(lane), _step
    while steps > 0:
        for _step in range(steps):
            take(lane)
        steps = steps_of(lane)
    memcpy(lane.out, lane.older, (lane.older_end - lane.older) * sizeof(Entry))
    lane.out += lane.older_end - lane.older
    memcpy(lane.out, lane.younger, (lane.younger_end - lane.younger) * sizeof(Entry))
    lane.out += lane.younger_end - lane.younger


cdef Py_ssize_t find_key(
    const Entry* entries, Py_ssize_t start, Py_ssize_t count, uint64_t key, bint after
) noexcept nogil:
    cdef Py_ssize_t low = start, high = count, middle
    while low < high:
        middle = low + (high - low) // 2
        if entries[middle].key < key or (after and entries[middle].key == key):
            low = middle + 1
        else:
            high = middle
    return low


# ---- a source and a list ----


cdef Py_ssize_t write_newest(
    const KeyView* keys, uint16_t source, Py_ssize_t start, Py_ssize_t stop,
    const Entry* younger, Py_ssize_t num_younger, uint16_t* sources, uint32_t* rows,
) noexcept nogil:
    cdef PlanLane[NUM_LANES] lanes
    cdef Py_ssize_t[NUM_LANES] begins
    cdef Py_ssize_t i, steps, count, end = 0, low = start, middle, first = 0, last
    for i in range(NUM_LANES):
        middle, last = start + (i + 1) * (stop - start) // NUM_LANES, num_younger
        if middle < stop:
            last = find_key(younger, first, num_younger, word_at(keys, middle), False)
        begins[i] = low - start + first
        lanes[i] = PlanLane(
            low, middle, younger + first, younger + last, sources + begins[i], rows + begins[i])
        low, first = middle, last
    steps = plan_steps_of_all(lanes)
    while steps > 0:
        plan_rows(keys, source, lanes, steps)
        steps = plan_steps_of_all(lanes)
    for i in range(NUM_LANES):
        finish_planned(keys, source, &lanes[i])
        count = lanes[i].rows - rows - begins[i]
        memmove(sources + end, sources + begins[i], count * sizeof(uint16_t))
        memmove(rows + end, rows + begins[i], count * sizeof(uint32_t))
        end += count
    return end


cdef inline Py_ssize_t plan_steps_of(const PlanLane* lane) noexcept nogil:
    return min(<Py_ssize_t> (lane.older_end - lane.older), lane.younger_end - lane.younger)


cdef inline Py_ssize_t plan_steps_of_all(const PlanLane* lanes) noexcept nogil:
    return min(min(plan_steps_of(&lanes[0]), plan_steps_of(&lanes[1])),
               min(plan_steps_of(&lanes[2]), plan_steps_of(&lanes[3])))


cdef void plan_rows(
    const KeyView* keys, uint16_t source, PlanLane* lanes, Py_ssize_t steps
) noexcept nogil:
    cdef PlanLane a = lanes[0], b = lanes[1], c = lanes[2], d = lanes[3]
    cdef KeyView view = keys[0]
    cdef Py_ssize_t _step
    for _step in range(steps):
        plan_row(&view, source, &a)
        plan_row(&view, source, &b)
        plan_row(&view, source, &c)
        plan_row(&view, source, &d)
    lanes[0], lanes[1], lanes[2], lanes[3] = a, b, c, d


cdef inline void plan_row(const KeyView* keys, uint16_t source, PlanLane* lane) noexcept nogil:
    """Requires: there is a row of both."""
    cdef uint64_t old = word_at(keys, lane.older), young = lane.younger.key
    cdef intptr_t is_old = opaque(-(old < young)), is_young = opaque(-(young < old))
    cdef uint64_t place = lane.younger.row
    place ^= (place ^ (<uint64_t> source << 32 | lane.older)) & <uint64_t> is_old
    write_row(lane, <uint16_t> (place >> 32), <uint32_t> place)
    lane.older += 1 + is_young
    lane.younger += 1 + is_old


cdef inline void write_row(PlanLane* lane, uint16_t source, uint32_t row) noexcept nogil:
    lane.sources[0] = source
    lane.rows[0] = row
    lane.sources += 1
    lane.rows += 1


cdef void finish_planned(const KeyView* keys, uint16_t source, PlanLane* lane) noexcept nogil:
    cdef Py_ssize_t steps = plan_steps_of(lane), _step
    while steps > 0:
        for _step in range(steps):
            plan_row(keys, source, lane)
        steps = plan_steps_of(lane)
    while lane.older < lane.older_end:
        write_row(lane, source, <uint32_t> lane.older)
        lane.older += 1
    while lane.younger < lane.younger_end:
        write_row(lane, <uint16_t> (lane.younger.row >> 32), <uint32_t> lane.younger.row)
        lane.younger += 1
