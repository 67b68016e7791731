"""The k-way merge of runs that interleave, by words instead of keys.

Which run has the next row cannot be foreseen, so a loser tree waits for one match after the other,
and for each jump that a processor guessed wrongly. Here neighbours in age are merged in pairs, by
arithmetic. Rows of one key need no look at sequence numbers, as one run is wholly older than the
other.

The keys are cut into chunks whose rows stay in a near cache while they pass through the pairs. Keys
that are bytes get words chunk by chunk. Whatever the keys are, sorted or not, every row comes out
once, or the newest of each key where these are all that is wanted, and no memory outside is
touched; and what comes out is sorted, or left to the loser tree.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint16_t, uint32_t, uint64_t

from lsmerge_native._key_words cimport KeyBytes
from lsmerge_native._loser_tree cimport Cursor, Merge
from lsmerge_native._newest_merge cimport find_key, write_newest
from lsmerge_native._pair_merge cimport Entry, NUM_SCRATCHES, Segment, merge_segments
from lsmerge_native._tied_rows cimport MAX_RUNS, Workroom, merge_by_keys
from lsmerge_native.buffers cimport NativeBuffer, allocate
from lsmerge_native.keys cimport KeyView, compare_at, word_at


cdef enum:
    MIN_ROWS = 1024      # fewer are not worth the cuts
    CHUNK_ROWS = 8192
    NUM_SAMPLES = 16     # of the longest run, to see how the others interleave with it
    STREAK_ROWS = 8      # galloping is for runs with longer streaks
    NEWEST_STREAK_ROWS = 256  # the same where the newest rows of words are all that is wanted


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


cdef bint merge_interleaved(Merge* merge) except -1:
    cdef RunParts[MAX_RUNS] runs
    cdef Py_ssize_t count, num_chunks, most_rows
    cdef NativeBuffer cuts
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
    return merge_cut(merge, count, num_chunks, <const Place*> cuts.ptr, most_rows)


cdef bint merge_cut(
    Merge* merge, Py_ssize_t count, Py_ssize_t num_chunks, const Place* cuts, Py_ssize_t most_rows
) except -1:
    cdef NativeBuffer entries = allocate(NUM_SCRATCHES * most_rows * sizeof(Entry)), keys, ties
    cdef Workroom room = Workroom(merge.parts, <Entry*> entries.ptr, most_rows, NULL, NULL)
    cdef bint is_merged
    if merge.parts[0].keys.words == NULL:
        keys = allocate(most_rows * sizeof(KeyBytes))
        ties = allocate(most_rows * sizeof(uint32_t))
        room.keys, room.ties = <KeyBytes*> keys.ptr, <uint32_t*> ties.ptr
    with nogil:
        is_merged = merge_chunks(merge, count, num_chunks, cuts, &room)
    return is_merged


# ---- the runs ----


cdef Py_ssize_t find_runs(const Merge* merge, RunParts* runs) noexcept nogil:
    """The runs that have rows; 0 if there is one only, or are too many."""
    cdef Py_ssize_t i, count = 0
    for i in range(merge.num_parts):
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
    cdef Py_ssize_t streak = STREAK_ROWS, step
    cdef Place low, high, place
    if drops_older(merge):
        streak = max(streak, min(<Py_ssize_t> NEWEST_STREAK_ROWS, runs[longest].num_rows // 2))
    step = (runs[longest].num_rows - streak) // NUM_SAMPLES
    if step <= 0:
        return False
    for i in range(NUM_SAMPLES):
        low = place_of(merge, &runs[longest], i * step)
        high = place_of(merge, &runs[longest], i * step + streak)
        for k in range(count):
            place = find_place(merge, &runs[k], Place(runs[k].first_part, 0), low)
            if k != longest and place.row < merge.parts[place.part].keys.length \
                    and is_less(merge, place, high):
                among += 1
                break
    return 2 * among >= NUM_SAMPLES


cdef inline bint drops_older(const Merge* merge) noexcept nogil:
    """Whether rows are left out as they are merged: of keys that are words."""
    return merge.newest_only and merge.parts[0].keys.words != NULL


# ---- places in a run ----


cdef Place place_of(const Merge* merge, const RunParts* run, Py_ssize_t row) noexcept nogil:
    """Requires: the run has the row."""
    cdef Py_ssize_t part = run.first_part
    while row >= merge.parts[part].keys.length:
        row -= merge.parts[part].keys.length
        part += 1
    return Place(part, row)


cdef inline bint is_less(const Merge* merge, Place a, Place b) noexcept nogil:
    """Requires: there are rows at both."""
    return compare_at(&merge.parts[a.part].keys, a.row, &merge.parts[b.part].keys, b.row) < 0


cdef Place find_place(const Merge* merge, const RunParts* run, Place start, Place pivot) \
        noexcept nogil:
    """The first row from `start` on whose key is not less than that of the pivot; never before
    `start`, sorted or not.
    """
    cdef Py_ssize_t low = start.row, part = start.part, high, middle
    cdef Py_ssize_t last_part = run.first_part + run.num_parts - 1
    while part < last_part and ends_below(merge, part, pivot):
        part, low = part + 1, 0
    high = merge.parts[part].keys.length
    while low < high:
        middle = low + (high - low) // 2
        if is_less(merge, Place(part, middle), pivot):
            low = middle + 1
        else:
            high = middle
    return Place(part, low)


cdef inline bint ends_below(const Merge* merge, Py_ssize_t part, Place pivot) noexcept nogil:
    cdef Py_ssize_t length = merge.parts[part].keys.length
    return length == 0 or is_less(merge, Place(part, length - 1), pivot)


# ---- chunks ----


cdef Py_ssize_t cut_chunks(
    const Merge* merge, const RunParts* runs, Py_ssize_t count, Py_ssize_t num_chunks, Place* cuts
) noexcept nogil:
    """Write where each chunk begins in every run, and where the last one ends; return the most rows
    of one. All rows of a key are in one chunk.
    """
    cdef const RunParts* longest = &runs[longest_of(runs, count)]
    cdef Py_ssize_t chunk, k, rows, most_rows = 0, last
    cdef Place pivot
    for k in range(count):
        last = runs[k].first_part + runs[k].num_parts - 1
        cuts[k] = Place(runs[k].first_part, 0)
        cuts[num_chunks * count + k] = Place(last, merge.parts[last].keys.length)
    for chunk in range(num_chunks):
        rows = 0
        if chunk < num_chunks - 1:
            pivot = place_of(merge, longest, (chunk + 1) * longest.num_rows // num_chunks)
            for k in range(count):
                cuts[count + k] = find_place(merge, &runs[k], cuts[k], pivot)
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
    Merge* merge, Py_ssize_t count, Py_ssize_t num_chunks, const Place* cuts, Workroom* room
) noexcept nogil:
    """False, and nothing filled in, if a run is not sorted, keys are alike for too long, or older
    rows are dropped and a run has a key twice.
    """
    cdef Py_ssize_t _chunk
    for _chunk in range(num_chunks):
        if not merge_chunk(merge, count, cuts, room):
            merge.filled = merge.groups = 0
            return False
        cuts += count
    if merge.newest_only:
        number_groups(merge)
    return True


cdef bint merge_chunk(Merge* merge, Py_ssize_t count, const Place* cuts, Workroom* room) \
        noexcept nogil:
    """Append the rows of a chunk to the plan; False as for all of them."""
    cdef Segment[MAX_RUNS] segments
    cdef Segment merged
    if drops_older(merge):
        # The oldest run is mostly the longest: it comes last, and its keys are read where they lie.
        load_runs(merge, cuts, 1, count, room.entries, segments)
        merged = merge_segments(segments, count - 1, room.entries, room.rows, True)
        return add_newest(
            merge, cuts[0], cuts[count], room.entries + merged.scratch * room.rows, merged.count)
    if load_runs(merge, cuts, 0, count, room.entries, segments) == 0:
        return True
    if room.keys == NULL:
        merged = merge_segments(segments, count, room.entries, room.rows, False)
    elif not merge_by_keys(room, segments, count, &merged):
        return False
    return emit(merge, room.entries + merged.scratch * room.rows, merged.count)


cdef Py_ssize_t load_runs(
    const Merge* merge, const Place* cuts, Py_ssize_t first_rank, Py_ssize_t count, Entry* out,
    Segment* segments,
) noexcept nogil:
    """Bring the rows of the runs from one on together, with their places; return how many."""
    cdef const Place* starts = cuts
    cdef const Place* stops = cuts + count
    cdef Py_ssize_t rank, part, row, stop, filled = 0
    cdef uint64_t place
    cdef const KeyView* keys
    for rank in range(first_rank, count):
        segments[0] = Segment(filled, 0, 0)
        for part in range(starts[rank].part, stops[rank].part + 1):
            row = starts[rank].row if part == starts[rank].part else 0
            stop = stops[rank].row if part == stops[rank].part else merge.parts[part].keys.length
            keys = &merge.parts[part].keys
            place = <uint64_t> rank << 48 | <uint64_t> part << 32
            for row in range(row, stop):
                out[filled] = Entry(
                    word_at(keys, row) if keys.words != NULL else 0, place | <uint64_t> row)
                filled += 1
        segments[0].count = filled - segments[0].start
        segments += 1
    return filled


# ---- the newest rows ----


cdef bint add_newest(
    Merge* merge, Place start, Place stop, const Entry* younger, Py_ssize_t num_younger
) noexcept nogil:
    """Append the newest rows of the oldest run between two places, and of all the others."""
    cdef Py_ssize_t part, row, end, taken = 0, until
    if not is_ascending(younger, num_younger):
        return False
    for part in range(start.part, stop.part + 1):
        row = start.row if part == start.part else 0
        end = stop.row if part == stop.part else merge.parts[part].keys.length
        if row < end:
            until = find_key(
                younger, taken, num_younger, word_at(&merge.parts[part].keys, end - 1), True)
            if not add_part(merge, part, row, end, younger + taken, until - taken):
                return False
            taken = until
    return add_part(merge, stop.part, 0, 0, younger + taken, num_younger - taken)


cdef bint add_part(
    Merge* merge, Py_ssize_t part, Py_ssize_t start, Py_ssize_t stop, const Entry* younger,
    Py_ssize_t num_younger,
) noexcept nogil:
    """The same of rows in one source."""
    cdef const KeyView* keys = &merge.parts[part].keys
    cdef Py_ssize_t filled = merge.filled
    if not words_ascend(keys, start, stop):
        return False
    merge.filled += write_newest(
        keys, <uint16_t> part, start, stop, younger, num_younger, merge.sources + filled,
        merge.rows + filled)
    return filled == 0 or filled == merge.filled or is_less(
        merge, place_in_plan(merge, filled - 1), place_in_plan(merge, filled))


cdef bint is_ascending(const Entry* entries, Py_ssize_t count) noexcept nogil:
    cdef bint is_disordered = False
    cdef Py_ssize_t i
    for i in range(1, count):
        is_disordered |= entries[i].key <= entries[i - 1].key
    return not is_disordered


cdef bint words_ascend(const KeyView* keys, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
    cdef bint is_disordered = False
    cdef Py_ssize_t i
    for i in range(start + 1, stop):
        is_disordered |= word_at(keys, i) <= word_at(keys, i - 1)
    return not is_disordered


# ---- all rows ----


cdef bint emit(Merge* merge, const Entry* entries, Py_ssize_t count) noexcept nogil:
    """Append the rows of a chunk to the plan; False if keys decrease. Requires: there are rows."""
    # All keys of a chunk come after those of the one before it.
    if merge.filled > 0 and not follows(merge, merge.filled - 1, &entries[0]):
        return False
    if merge.newest_only:
        return emit_newest(merge, entries, count)
    return emit_all(merge, entries, count)


cdef bint emit_all(Merge* merge, const Entry* entries, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i, filled = merge.filled, num_groups = merge.groups
    cdef uint64_t key = entries[0].key, before
    cdef bint is_disordered = False
    merge.starts[num_groups] = <uint32_t> filled
    num_groups += 1
    for i in range(count):
        before, key = key, entries[i].key
        merge.sources[filled + i] = part_of(&entries[i])
        merge.rows[filled + i] = <uint32_t> entries[i].row
        merge.starts[num_groups] = <uint32_t> (filled + i)
        num_groups += key != before
        is_disordered |= key < before
    merge.filled, merge.groups = filled + count, num_groups
    return not is_disordered


cdef bint emit_newest(Merge* merge, const Entry* entries, Py_ssize_t count) noexcept nogil:
    """The last row of each key is stored over those before it."""
    cdef Py_ssize_t i, place = merge.filled
    cdef uint64_t key = entries[0].key, before
    cdef bint is_disordered = False
    for i in range(count):
        before, key = key, entries[i].key
        place += key != before
        merge.sources[place] = part_of(&entries[i])
        merge.rows[place] = <uint32_t> entries[i].row
        is_disordered |= key < before
    merge.filled = place + 1
    return not is_disordered


cdef void number_groups(Merge* merge) noexcept nogil:
    """Let every row be a group."""
    cdef Py_ssize_t i
    for i in range(merge.filled):
        merge.starts[i] = <uint32_t> i
    merge.groups = merge.filled


cdef inline uint16_t part_of(const Entry* entry) noexcept nogil:
    return <uint16_t> (entry.row >> 32)


cdef bint follows(const Merge* merge, Py_ssize_t last, const Entry* entry) noexcept nogil:
    """Whether a key comes after that of a row in the plan; chunks have no key in common."""
    return is_less(
        merge, place_in_plan(merge, last), Place(part_of(entry), <uint32_t> entry.row))


cdef inline Place place_in_plan(const Merge* merge, Py_ssize_t row) noexcept nogil:
    return Place(merge.sources[row], merge.rows[row])
