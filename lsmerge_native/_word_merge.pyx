"""The k-way merge of runs that interleave, for keys that are words.

Which run has the next row cannot be foreseen, so a loser tree waits for one match after the other,
and for each jump that a processor guessed wrongly. Here neighbours in age are merged in pairs, by
arithmetic instead of jumps, and both halves of a pair from both ends at once, so that four
comparisons are under way. Rows of one key need no look at sequence numbers, as one run is wholly
older than the other.

The keys are cut into chunks whose rows stay in a near cache while they pass through the pairs.
Whatever the keys are, sorted or not, every row comes out once and no memory outside is touched.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy

from lsmerge_native._loser_tree cimport Cursor, Merge
from lsmerge_native.buffers cimport NativeBuffer, allocate


cdef enum:
    MAX_RUNS = 32
    MIN_ROWS = 1024      # fewer are not worth the cuts
    CHUNK_ROWS = 8192
    NUM_SAMPLES = 16     # of the longest run, to see how the others interleave with it
    SAMPLE_ROWS = 8      # galloping is for runs with longer streaks
    NUM_SCRATCHES = 3


# The rows of one run, source by source.
cdef struct RunParts:
    Py_ssize_t first_part
    Py_ssize_t num_parts
    Py_ssize_t num_rows
    int64_t oldest
    int64_t newest


# A place in a run: a row of one of its parts, or the end of one.
cdef struct Place:
    Py_ssize_t part
    Py_ssize_t row


cdef struct Entry:
    uint64_t key
    uint64_t row              # its part in the upper half


# Rows of runs that are neighbours in age, merged already, in one of the scratches.
cdef struct Segment:
    Py_ssize_t start
    Py_ssize_t count
    int scratch


# What is left of two lists between their beginnings and ends, and the room for it.
cdef struct Pair:
    const Entry* a
    const Entry* a_end
    const Entry* b
    const Entry* b_end
    Entry* out
    Entry* out_end


cdef bint merge_interleaved(Merge* merge) except -1:
    cdef RunParts[MAX_RUNS] runs
    cdef Py_ssize_t count, num_chunks, most_rows
    cdef NativeBuffer cuts, scratch
    cdef bint is_merged
    if merge.has_orders or merge.total < MIN_ROWS:
        return False
    with nogil:
        count = find_runs(merge, runs)
        if count > 0 and not (
                interleave(merge, runs, count) and rank_by_age(merge, runs, count)):
            count = 0
    if count == 0:
        return False
    num_chunks = merge.total // CHUNK_ROWS + 1
    cuts = allocate((num_chunks + 1) * count * sizeof(Place))
    with nogil:
        most_rows = cut_chunks(merge, runs, count, num_chunks, <Place*> cuts.ptr)
    scratch = allocate(NUM_SCRATCHES * most_rows * sizeof(Entry))
    with nogil:
        is_merged = merge_chunks(
            merge, count, num_chunks, <const Place*> cuts.ptr, <Entry*> scratch.ptr, most_rows)
    return is_merged


# ---- the runs ----


cdef Py_ssize_t find_runs(const Merge* merge, RunParts* runs) noexcept nogil:
    """The runs that have rows; 0 if there is one only, are too many, or keys are no words."""
    cdef Py_ssize_t i, count = 0
    for i in range(merge.num_parts):
        if merge.parts[i].keys.words == NULL:
            return 0
        if not merge.parts[i].continues:
            if count == MAX_RUNS:
                return 0
            count += count == 0 or runs[count - 1].num_rows > 0
            runs[count - 1] = RunParts(i, 0, 0, INT64_MAX, INT64_MIN)
        runs[count - 1].num_parts += 1
        runs[count - 1].num_rows += merge.parts[i].keys.length
    count -= runs[count - 1].num_rows == 0
    return count if count > 1 else 0


cdef void add_ages(RunParts* run, const Cursor* part) noexcept nogil:
    cdef int64_t oldest = INT64_MAX, newest = INT64_MIN
    cdef Py_ssize_t i
    for i in range(part.keys.length):
        oldest = min(oldest, part.sequences[i])
        newest = max(newest, part.sequences[i])
    if part.keys.length:
        run.oldest = min(run.oldest, part.base + oldest)
        run.newest = max(run.newest, part.base + newest)


cdef bint rank_by_age(const Merge* merge, RunParts* runs, Py_ssize_t count) noexcept nogil:
    """Order the runs from old to new; False if they do not follow each other."""
    cdef Py_ssize_t i, k
    cdef RunParts run
    if merge.is_by_age:
        return True
    for i in range(count):
        for k in range(runs[i].first_part, runs[i].first_part + runs[i].num_parts):
            add_ages(&runs[i], &merge.parts[k])
    for i in range(1, count):
        run, k = runs[i], i
        while k > 0 and runs[k - 1].oldest > run.oldest:
            runs[k] = runs[k - 1]
            k -= 1
        runs[k] = run
    for i in range(1, count):
        if runs[i - 1].newest >= runs[i].oldest:
            return False
    return True


cdef Py_ssize_t longest_of(const RunParts* runs, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i, longest = 0
    for i in range(1, count):
        if runs[i].num_rows > runs[longest].num_rows:
            longest = i
    return longest


cdef bint interleave(const Merge* merge, const RunParts* runs, Py_ssize_t count) noexcept nogil:
    """Whether samples of the longest run mostly have rows of other runs among them."""
    cdef Py_ssize_t i, k, among = 0, longest = longest_of(runs, count)
    cdef Py_ssize_t step = (runs[longest].num_rows - SAMPLE_ROWS) // NUM_SAMPLES
    cdef uint64_t low, high
    cdef Place place
    if step <= 0:
        return False
    for i in range(NUM_SAMPLES):
        low = key_at(merge, &runs[longest], i * step)
        high = key_at(merge, &runs[longest], i * step + SAMPLE_ROWS)
        for k in range(count):
            place = find_place(merge, &runs[k], Place(runs[k].first_part, 0), low)
            if k != longest and place.row < merge.parts[place.part].keys.length \
                    and merge.parts[place.part].keys.words[place.row] < high:
                among += 1
                break
    return 2 * among >= NUM_SAMPLES


# ---- places in a run ----


cdef uint64_t key_at(const Merge* merge, const RunParts* run, Py_ssize_t row) noexcept nogil:
    """Requires: the run has the row."""
    cdef Py_ssize_t part = run.first_part
    while row >= merge.parts[part].keys.length:
        row -= merge.parts[part].keys.length
        part += 1
    return merge.parts[part].keys.words[row]


cdef Place find_place(
    const Merge* merge, const RunParts* run, Place start, uint64_t key
) noexcept nogil:
    """The first row from `start` on whose key is not less; never before `start`, sorted or not."""
    cdef Py_ssize_t low = start.row, part = start.part, high, middle
    cdef Py_ssize_t last_part = run.first_part + run.num_parts - 1
    cdef const uint64_t* words
    while part < last_part and ends_below(merge.parts + part, key):
        part, low = part + 1, 0
    high, words = merge.parts[part].keys.length, merge.parts[part].keys.words
    while low < high:
        middle = low + (high - low) // 2
        if words[middle] < key:
            low = middle + 1
        else:
            high = middle
    return Place(part, low)


cdef inline bint ends_below(const Cursor* part, uint64_t key) noexcept nogil:
    return part.keys.length == 0 or part.keys.words[part.keys.length - 1] < key


# ---- chunks ----


cdef Py_ssize_t cut_chunks(
    const Merge* merge, const RunParts* runs, Py_ssize_t count, Py_ssize_t num_chunks, Place* cuts
) noexcept nogil:
    """Write where each chunk begins in every run, and where the last one ends; return the most rows
    of one. All rows of a key are in one chunk.
    """
    cdef const RunParts* longest = &runs[longest_of(runs, count)]
    cdef Py_ssize_t chunk, k, rows, most_rows = 0, last
    cdef uint64_t key
    for k in range(count):
        last = runs[k].first_part + runs[k].num_parts - 1
        cuts[k] = Place(runs[k].first_part, 0)
        cuts[num_chunks * count + k] = Place(last, merge.parts[last].keys.length)
    for chunk in range(num_chunks):
        rows = 0
        if chunk < num_chunks - 1:
            key = key_at(merge, longest, (chunk + 1) * longest.num_rows // num_chunks)
            for k in range(count):
                cuts[count + k] = find_place(merge, &runs[k], cuts[k], key)
        for k in range(count):
            rows += rows_between(merge, cuts[k], cuts[count + k])
        most_rows = max(most_rows, rows)
        cuts += count
    return most_rows


cdef Py_ssize_t rows_between(const Merge* merge, Place start, Place stop) noexcept nogil:
    cdef Py_ssize_t part, rows = stop.row - start.row
    for part in range(start.part, stop.part):
        rows += merge.parts[part].keys.length
    return rows


cdef bint merge_chunks(
    Merge* merge, Py_ssize_t count, Py_ssize_t num_chunks, const Place* cuts, Entry* scratch,
    Py_ssize_t scratch_rows,
) noexcept nogil:
    """False, and nothing filled in, if a run is not sorted."""
    cdef Segment[MAX_RUNS] segments
    cdef Segment merged
    cdef Py_ssize_t _chunk, filled = 0, groups = 0
    cdef uint64_t last = 0
    for _chunk in range(num_chunks):
        load_chunk(merge, count, cuts, cuts + count, scratch, segments)
        merged = merge_segments(segments, count, scratch, scratch_rows)
        if not emit(merge, scratch + merged.scratch * scratch_rows, merged.count,
                    filled, &groups, &last):
            return False
        filled += merged.count
        cuts += count
    merge.filled, merge.groups = filled, groups
    return True


cdef void load_chunk(
    const Merge* merge, Py_ssize_t count, const Place* starts, const Place* stops, Entry* out,
    Segment* segments,
) noexcept nogil:
    """Bring the rows of each run together, run by run, with their places."""
    cdef Py_ssize_t k, part, row, stop, filled = 0
    cdef const uint64_t* words
    for k in range(count):
        segments[k] = Segment(filled, 0, 0)
        for part in range(starts[k].part, stops[k].part + 1):
            row = starts[k].row if part == starts[k].part else 0
            stop = stops[k].row if part == stops[k].part else merge.parts[part].keys.length
            words = merge.parts[part].keys.words
            for row in range(row, stop):
                out[filled] = Entry(words[row], <uint64_t> part << 32 | <uint64_t> row)
                filled += 1
        segments[k].count = filled - segments[k].start


cdef bint emit(
    Merge* merge, const Entry* entries, Py_ssize_t count, Py_ssize_t filled, Py_ssize_t* groups,
    uint64_t* last,
) noexcept nogil:
    """Append the rows to the plan; False if their keys decrease."""
    cdef Py_ssize_t i, num_groups = groups[0]
    cdef uint64_t key = last[0], before
    cdef bint is_disordered = False
    if count and num_groups == 0:
        key, num_groups = entries[0].key, 1
        merge.starts[0] = 0
    for i in range(count):
        before, key = key, entries[i].key
        merge.sources[filled + i] = <uint16_t> (entries[i].row >> 32)
        merge.rows[filled + i] = <uint32_t> entries[i].row
        merge.starts[num_groups] = <uint32_t> (filled + i)
        num_groups += key != before
        is_disordered |= key < before
    groups[0], last[0] = num_groups, key
    return not is_disordered


# ---- pairs ----


cdef Segment merge_segments(
    Segment* segments, Py_ssize_t count, Entry* scratch, Py_ssize_t scratch_rows
) noexcept nogil:
    """Merge neighbours, the shortest pair first, until one segment is left."""
    cdef Py_ssize_t i, best
    while count > 1:
        best = 0
        for i in range(1, count - 1):
            if segments[i].count + segments[i + 1].count < \
                    segments[best].count + segments[best + 1].count:
                best = i
        segments[best] = merge_pair(segments[best], segments[best + 1], scratch, scratch_rows)
        for i in range(best + 1, count - 1):
            segments[i] = segments[i + 1]
        count -= 1
    return segments[0]


cdef Segment merge_pair(
    Segment older, Segment younger, Entry* scratch, Py_ssize_t scratch_rows
) noexcept nogil:
    """Merge into a scratch that holds neither."""
    cdef int target = 0
    while target == older.scratch or target == younger.scratch:
        target += 1
    merge_two(scratch + older.scratch * scratch_rows + older.start, older.count,
              scratch + younger.scratch * scratch_rows + younger.start, younger.count,
              scratch + target * scratch_rows + older.start)
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
