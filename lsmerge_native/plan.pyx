"""The merge plan: rows of several runs in merge order, and where each key begins.

Merge order is (key, order key if any, base + sequence number if any, run). A run may come in
several sources, in key order. A run whose keys are seen to decrease is refused; no unsorted run
makes a kernel read outside its memory. A plan is immutable once it is finished. Only plans made
from other plans (regroup) have empty groups.
"""

cimport cython
from libc.stdint cimport int64_t, UINT16_MAX, uint16_t, UINT32_MAX, uint32_t, uint64_t
from libc.string cimport memcpy, memset, strcmp

from lsmerge_native._arrow cimport ArrayView, view_array
from lsmerge_native._footprint cimport row_limits
from lsmerge_native._key_words cimport KeyBytes, compare_rest, fetch_ahead, key_bytes_at
from lsmerge_native._loser_tree cimport Cursor, Merge, merge_all
from lsmerge_native._word_merge cimport merge_interleaved
from lsmerge_native.buffers cimport (
    allocate, allocate_zeroed, InputBuffer, NativeBuffer, view_items,
)
from lsmerge_native.keys cimport Keys, KeyView, require_comparable, require_rows, word_at


class UnsortedRunError(ValueError):
    """The keys of a run decrease."""


@cython.final
@cython.auto_pickle(False)
cdef class MergePlan:
    """Rows of num_sources sources in merge order; group g is rows [starts[g], starts[g + 1])."""

    def __init__(self):
        raise TypeError("a MergePlan is made by plan_sorted() or merge_runs()")

    cdef NativeBuffer limits(self):
        with cython.critical_section(self):
            if self._limits is None:
                self._limits = row_limits(
                    self.source_ptr, self.row_ptr, self.num_rows, self.num_sources)
            return self._limits


def plan_sorted(Keys keys not None, permutation not None):
    """The plan of one source whose rows are sorted by `permutation` (uint32).

    Raises IndexError for a row that `keys` does not have, ValueError if the keys decrease.
    """
    cdef InputBuffer items = view_items(permutation, sizeof(uint32_t), "permutation")
    cdef Py_ssize_t length = items.length, wrong
    cdef const uint32_t* rows = <const uint32_t*> items.ptr
    require_rows(rows, length, keys.view.length)
    cdef MergePlan plan = allocate_plan(length, 1)
    with nogil:
        memset(plan.source_ptr, 0, length * sizeof(uint16_t))
        memcpy(plan.row_ptr, rows, length * sizeof(uint32_t))
        wrong = group_rows(&keys.view, plan)
    if wrong >= 0:
        raise ValueError(f"permutation does not sort the keys: entry {wrong} comes too late")
    return finish_plan(plan)


def merge_runs(keys, orders, sequences, continues=(), *, bint newest_only=False):
    """The plan of several runs; sequences[i] is an Arrow int64 array and what to add to it.

    Where every run is wholly older than the next, `sequences` may be None. Each source is a run of
    its own, unless continues[i] says that it goes on with the run of the source before it. With
    `newest_only` rows that are not the last of their key may be left out.
    Requires: each run is sorted by (key, order, sequence). Raises ValueError if runs do not fit
    together or the keys of a run decrease.
    """
    cdef list runs = list(keys), order_keys = None if orders is None else list(orders)
    cdef list sequence_views = None if sequences is None else [
        (view_array(array), base) for array, base in sequences]
    cdef list following = list(continues) or [False] * len(runs)
    require_runs(runs, order_keys, sequence_views, following)
    cdef Py_ssize_t count = len(runs)
    cdef NativeBuffer parts = allocate_zeroed(count * sizeof(Cursor))
    cdef NativeBuffer cursors = allocate_zeroed(count * sizeof(Cursor))
    cdef NativeBuffer heads = allocate(count * sizeof(uint64_t))
    cdef NativeBuffer losers = allocate_zeroed(count * sizeof(uint32_t))
    cdef Merge merge
    cdef Py_ssize_t wrong, total = set_parts(
        <Cursor*> parts.ptr, runs, order_keys, sequence_views, following)
    cdef MergePlan plan = allocate_plan(total, count)
    merge.parts, merge.num_parts = <Cursor*> parts.ptr, count
    merge.cursors = <Cursor*> cursors.ptr
    merge.heads = <uint64_t*> heads.ptr
    merge.losers = <uint32_t*> losers.ptr
    merge.has_orders = order_keys is not None
    merge.is_by_age = sequence_views is None
    merge.newest_only = newest_only
    merge.sources, merge.rows, merge.starts = plan.source_ptr, plan.row_ptr, plan.start_ptr
    merge.total = total
    merge.filled = merge.groups = 0
    merge.last_prefix = 0
    wrong = -1
    if not merge_interleaved(&merge):
        with nogil:
            wrong = merge_all(&merge)
    if wrong >= 0:
        raise UnsortedRunError(
            f"run {merge.cursors[wrong].source} is not sorted: its key decreases at row "
            f"{merge.cursors[wrong].row}")
    plan.num_groups, plan.num_rows = merge.groups, merge.filled
    plan._limits = lengths_of(runs)
    return finish_plan(plan)


# ---- checks and memory ----


cdef int require_runs(list runs, list orders, list sequences, list following) except -1:
    cdef Py_ssize_t i
    if len(following) != len(runs) or (following and following[0]):
        raise ValueError(f"{following} does not say which of {len(runs)} sources begin a run")
    if len(runs) > UINT16_MAX:
        raise ValueError(f"cannot merge {len(runs)} runs at once, at most {UINT16_MAX}")
    for name, given in (("sequences", sequences), ("orders", orders)):
        if given is not None and len(given) != len(runs):
            raise ValueError(f"{len(runs)} runs need as many {name} (got {len(given)})")
    require_keys(runs if orders is None else runs + orders)
    for i in range(len(runs)):
        require_comparable(runs[0], runs[i], f"run {i}")
        if sequences is not None:
            require_sequence(i, sequences[i][0], runs[i])
        if orders is not None:
            require_order(i, orders[i], orders[0], runs[i])
    return 0


cdef int require_keys(list things) except -1:
    for thing in things:
        if not isinstance(thing, Keys):
            raise TypeError(f"expected Keys, got {type(thing).__name__}")
    return 0


cdef int require_sequence(Py_ssize_t position, ArrayView sequence, Keys run) except -1:
    if strcmp(sequence.format, "l") != 0 or sequence.null_count:
        raise ValueError(
            f"sequences of run {position} must be int64 without nulls, "
            f"got Arrow format '{sequence.format.decode()}' with {sequence.null_count} nulls")
    if sequence.length != run.view.length:
        raise ValueError(
            f"run {position} has {run.view.length} keys but {sequence.length} sequences")
    return 0


cdef int require_order(Py_ssize_t position, Keys order, Keys first, Keys run) except -1:
    require_comparable(first, order, f"order of run {position}")
    if order.view.length != run.view.length:
        raise ValueError(
            f"run {position} has {run.view.length} keys but {order.view.length} order keys")
    return 0


cdef MergePlan allocate_plan(Py_ssize_t num_rows, Py_ssize_t num_sources):
    return allocate_groups(num_rows, num_rows, num_sources)


cdef MergePlan allocate_groups(
    Py_ssize_t num_rows, Py_ssize_t most_groups, Py_ssize_t num_sources
):
    if num_rows >= UINT32_MAX:
        raise OverflowError(f"cannot plan {num_rows} rows, at most {UINT32_MAX - 1}")
    cdef MergePlan plan = MergePlan.__new__(MergePlan)
    plan.num_rows, plan.num_sources = num_rows, num_sources
    plan.sources = allocate(num_rows * sizeof(uint16_t))
    plan.rows = allocate(num_rows * sizeof(uint32_t))
    plan.starts = allocate((most_groups + 1) * sizeof(uint32_t))
    plan.source_ptr = <uint16_t*> plan.sources.ptr
    plan.row_ptr = <uint32_t*> plan.rows.ptr
    plan.start_ptr = <uint32_t*> plan.starts.ptr
    return plan


cdef MergePlan derive_plan(MergePlan plan, Py_ssize_t num_rows, Py_ssize_t num_groups):
    cdef MergePlan derived = allocate_groups(num_rows, num_groups, plan.num_sources)
    derived.num_groups = num_groups
    if plan.num_rows > 0:
        derived.spare_source, derived.spare_row = plan.source_ptr[0], plan.row_ptr[0]
    else:
        derived.spare_source, derived.spare_row = plan.spare_source, plan.spare_row
    return derived


cdef MergePlan finish_plan(MergePlan plan):
    plan.start_ptr[plan.num_groups] = <uint32_t> plan.num_rows
    plan.starts.truncate((plan.num_groups + 1) * sizeof(uint32_t))
    plan.sources.truncate(plan.num_rows * sizeof(uint16_t))
    plan.rows.truncate(plan.num_rows * sizeof(uint32_t))
    return plan


cdef NativeBuffer lengths_of(list runs):
    """The rows of each source: a column that goes with its keys has as many."""
    cdef NativeBuffer lengths = allocate(len(runs) * sizeof(Py_ssize_t))
    cdef Py_ssize_t i
    for i in range(len(runs)):
        (<Py_ssize_t*> lengths.ptr)[i] = (<Keys> runs[i]).view.length
    return lengths


cdef Py_ssize_t set_parts(
    Cursor* parts, list runs, list orders, list sequences, list following
) except -1:
    """Put every source at its first row; return the number of rows."""
    cdef Py_ssize_t i, total = 0
    cdef ArrayView sequence
    for i in range(len(runs)):
        parts[i].keys = (<Keys> runs[i]).view
        if orders is not None:
            parts[i].orders = (<Keys> orders[i]).view
        if sequences is not None:
            sequence = sequences[i][0]
            parts[i].sequences = <const int64_t*> sequence.values()
            parts[i].base = sequences[i][1]
        parts[i].source, parts[i].continues = <uint16_t> i, following[i]
        total += parts[i].keys.length
    return total


# ---- one sorted source ----


cdef Py_ssize_t group_rows(const KeyView* keys, MergePlan plan) noexcept nogil:
    """Set starts and num_groups; return the first entry whose key decreases, or -1."""
    if keys.words != NULL:
        return group_words(keys, plan)
    return group_bytes(keys, plan)


cdef Py_ssize_t group_words(const KeyView* keys, MergePlan plan) noexcept nogil:
    cdef const uint32_t* rows = plan.row_ptr
    cdef uint64_t word, before = 0
    cdef Py_ssize_t i, groups = 0
    for i in range(plan.num_rows):
        word = word_at(keys, rows[i])
        if word < before:
            return i
        plan.start_ptr[groups] = <uint32_t> i
        groups += i == 0 or word != before
        before = word
    plan.num_groups = groups
    return -1


cdef Py_ssize_t group_bytes(const KeyView* keys, MergePlan plan) noexcept nogil:
    cdef const uint32_t* rows = plan.row_ptr
    cdef KeyBytes key, before
    cdef Py_ssize_t i, groups = 0
    cdef int difference = -1
    for i in range(plan.num_rows):
        fetch_ahead(keys, rows, i, plan.num_rows)
        key = key_bytes_at(keys, rows[i])
        if i > 0:
            difference = compare_rest(&before, &key, 0)
        if difference > 0:
            return i
        plan.start_ptr[groups] = <uint32_t> i
        groups += difference < 0
        before = key
    plan.num_groups = groups
    return -1
