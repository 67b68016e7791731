"""The k-way merge of sorted runs: a loser tree that gallops while one run keeps winning.

Inner node n has the children 2n and 2n + 1, run r is the leaf count + r, and each inner node keeps
the run that lost there; so the next winner is found along one path from leaf to root. Most matches
are decided by the 8-byte prefixes of the keys. A run may come in several sources, one after the
other: its cursor goes on from the end of one to the beginning of the next. When one run has won
several times in a row, its rows before the second best run's key are found by galloping and taken
in one step.
"""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, UINT64_MAX, uint64_t

from lsmerge_native.keys cimport (
    common_size, compare_at, compare_tail, gallop, KeyView, prefix_at, size_at,
)

cdef enum:
    MIN_STREAK = 8     # wins in a row after which galloping is tried
    MAX_STREAK = 4096  # upper limit of that number where galloping does not pay


cdef Py_ssize_t merge_all(Merge* merge) noexcept nogil:
    cdef uint32_t winner, last
    cdef Py_ssize_t streak = 0, patience = MIN_STREAK, taken
    if merge.total == 0:
        return -1
    skip_common_bytes(merge)
    begin_runs(merge)
    winner = play(merge, 1)
    while merge.filled < merge.total:
        last = winner
        if not emit(merge, last, merge.cursors[last].row, merge.heads[last]):
            return last
        winner = move_to(merge, last, merge.cursors[last].row + 1)
        streak = (streak + 1) * (winner == last)
        if streak >= patience:
            taken = emit_streak(merge, &winner)
            if taken < 0:
                return last
            patience = max(patience // 2, MIN_STREAK) if taken >= MIN_STREAK \
                else min(patience * 2, MAX_STREAK)
            streak = 0
    return -1


cdef void skip_common_bytes(Merge* merge) noexcept nogil:
    """Let prefixes begin where keys begin to differ; sorted runs show that at their ends."""
    cdef KeyView* first = NULL
    cdef KeyView* keys
    cdef size_t common = 0
    cdef Py_ssize_t i
    for i in range(merge.num_parts):
        keys = &merge.parts[i].keys
        if keys.words != NULL or keys.length == 0:
            continue
        if first == NULL:
            first = keys
            common = size_at(keys, 0)
        common = common_size(first, 0, keys, 0, common)
        common = common_size(first, 0, keys, keys.length - 1, common)
    for i in range(merge.num_parts):
        merge.parts[i].keys.skip = common


cdef void begin_runs(Merge* merge) noexcept nogil:
    """Put every run at its first row."""
    cdef Py_ssize_t i
    merge.count = 0
    for i in range(merge.num_parts):
        if not merge.parts[i].continues:
            merge.cursors[merge.count] = merge.parts[i]
            enter_next(merge, &merge.cursors[merge.count])
            merge.count += 1


cdef void enter_next(const Merge* merge, Cursor* cursor) noexcept nogil:
    """Leave a source that is exhausted for the next of its run that has rows, if there is one."""
    cdef Py_ssize_t following = cursor.source + 1
    while cursor.row == cursor.keys.length and following < merge.num_parts \
            and merge.parts[following].continues:
        cursor[0] = merge.parts[following]
        following += 1


cdef inline uint64_t head_of(const Cursor* cursor) noexcept nogil:
    if cursor.row == cursor.keys.length:
        return UINT64_MAX
    return prefix_at(&cursor.keys, cursor.row)


cdef uint32_t play(Merge* merge, Py_ssize_t node) noexcept nogil:
    """Play all matches below a node, keep the losers, return the winner."""
    cdef uint32_t left, right
    if node >= merge.count:
        left = <uint32_t> (node - merge.count)
        merge.heads[left] = head_of(&merge.cursors[left])
        return left
    left = play(merge, 2 * node)
    right = play(merge, 2 * node + 1)
    if beats(merge, right, left):
        left, right = right, left
    merge.losers[node] = right
    return left


cdef inline uint32_t move_to(Merge* merge, uint32_t winner, Py_ssize_t row) noexcept nogil:
    """Advance the winner to a later row and return the new winner."""
    cdef Py_ssize_t node = (merge.count + winner) >> 1
    cdef uint32_t loser, swap
    cdef uint64_t head, loser_head
    merge.cursors[winner].row = row
    if row == merge.cursors[winner].keys.length:
        enter_next(merge, &merge.cursors[winner])
    head = merge.heads[winner] = head_of(&merge.cursors[winner])
    while node > 0:
        loser = merge.losers[node]
        loser_head = merge.heads[loser]
        if loser_head == head:
            swap = -<uint32_t> beats_tied(merge, loser, winner)
        else:
            swap = -<uint32_t> (loser_head < head)
        # Who wins is a coin toss, so the two change places by arithmetic rather than by a jump.
        swap &= loser ^ winner
        merge.losers[node] = loser ^ swap
        winner ^= swap
        head = min(head, loser_head)
        node >>= 1
    return winner


cdef inline bint beats(const Merge* merge, uint32_t a, uint32_t b) noexcept nogil:
    if merge.heads[a] != merge.heads[b]:
        return merge.heads[a] < merge.heads[b]
    return beats_tied(merge, a, b)


cdef bint beats_tied(const Merge* merge, uint32_t a_source, uint32_t b_source) noexcept nogil:
    cdef const Cursor* a = &merge.cursors[a_source]
    cdef const Cursor* b = &merge.cursors[b_source]
    cdef int64_t a_sequence, b_sequence
    cdef int difference
    if a.row == a.keys.length or b.row == b.keys.length:
        return b.row == b.keys.length
    difference = compare_tail(&a.keys, a.row, &b.keys, b.row)
    if difference == 0 and merge.has_orders:
        difference = compare_at(&a.orders, a.row, &b.orders, b.row)
    if difference != 0:
        return difference < 0
    if merge.is_by_age:
        return a_source < b_source
    a_sequence = a.base + a.sequences[a.row]
    b_sequence = b.base + b.sequences[b.row]
    return (a_sequence < b_sequence) | ((a_sequence == b_sequence) & (a_source < b_source))


cdef inline bint emit(Merge* merge, uint32_t run, Py_ssize_t row, uint64_t prefix) \
        noexcept nogil:
    """Append a row of the run's source to the plan; False if its key is less than the last one."""
    cdef const Cursor* cursor = &merge.cursors[run]
    cdef int difference = -1
    if prefix < merge.last_prefix:
        return False
    if prefix == merge.last_prefix and merge.filled > 0:
        difference = compare_with_last(merge, cursor, row)
        if difference > 0:
            return False
    merge.sources[merge.filled] = cursor.source
    merge.rows[merge.filled] = <uint32_t> row
    merge.starts[merge.groups] = <uint32_t> merge.filled
    merge.groups += difference < 0
    merge.filled += 1
    merge.last_prefix = prefix
    return True


cdef inline int compare_with_last(const Merge* merge, const Cursor* cursor, Py_ssize_t row) \
        noexcept nogil:
    cdef const Cursor* last = &merge.parts[merge.sources[merge.filled - 1]]
    return compare_tail(&last.keys, merge.rows[merge.filled - 1], &cursor.keys, row)


cdef Py_ssize_t emit_streak(Merge* merge, uint32_t* winner) noexcept nogil:
    """Append all rows of the winner's source that come before any other run's key.

    Return their number, or -1 if keys decrease. The winner is then the next one.
    """
    cdef uint32_t run = winner[0]
    cdef Cursor* cursor = &merge.cursors[run]
    cdef Py_ssize_t start = cursor.row, stop = streak_end(merge, run), row
    for row in range(start, stop):
        if not emit(merge, run, row, prefix_at(&cursor.keys, row)):
            cursor.row = row
            return -1
    if stop > start:
        winner[0] = move_to(merge, run, stop)
    return stop - start


cdef Py_ssize_t streak_end(const Merge* merge, uint32_t winner) noexcept nogil:
    """First row of the winning run's source whose key is not less than the second best run's."""
    cdef const Cursor* cursor = &merge.cursors[winner]
    cdef const Cursor* second
    cdef Py_ssize_t node = (merge.count + winner) >> 1, best = node
    if node == 0:
        return cursor.keys.length
    while node > 0:  # the second best lost to the winner itself
        if beats(merge, merge.losers[node], merge.losers[best]):
            best = node
        node >>= 1
    second = &merge.cursors[merge.losers[best]]
    if second.row == second.keys.length:
        return cursor.keys.length
    return gallop(&cursor.keys, cursor.row, &second.keys, second.row, False)
