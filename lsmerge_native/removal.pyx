"""Retracts that empty some columns: which of them leave nothing of their row.

Flags are as in regroup: bytes, one per row of the plan in plan order, any but 0 means yes.
"""

from libc.stdint cimport uint8_t
from libc.string cimport memset

from lsmerge_native.buffers cimport InputBuffer, NativeBuffer, allocate, allocate_zeroed, view_items
from lsmerge_native.plan cimport MergePlan

# When a column has a value: once one was written, if the first was one, if the last was one.
VALUE_ANY = 0
VALUE_FIRST = 1
VALUE_LAST = 2


cdef enum Rule:
    RULE_ANY = 0
    RULE_FIRST = 1
    RULE_LAST = 2


cdef enum State:
    STATE_UNWRITTEN = 0
    STATE_NULL = 1
    STATE_VALUE = 2


cdef struct Column:
    const uint8_t* written
    const uint8_t* valid
    int rule


def whole_removals(MergePlan plan not None, removals not None, columns):
    """Flag the removals after which the row is gone.

    A removal empties the columns that it wrote. The row is gone if none of the others has a value:
    so it is after a removal that wrote all, and where there was no row. columns[i] is (written,
    valid, rule): flags of the rows that wrote the column and that hold a value there, and one of
    VALUE_ANY, VALUE_FIRST and VALUE_LAST.
    """
    cdef InputBuffer removal_items = _view_flags(removals, plan.num_rows, "removals")
    cdef list held = [], rules = []
    cdef NativeBuffer described, states, flags = allocate_zeroed(plan.num_rows)
    cdef Py_ssize_t i, count
    for written, valid, rule in columns:
        if rule not in (VALUE_ANY, VALUE_FIRST, VALUE_LAST):
            raise ValueError(f"column {len(rules)}: no rule {rule!r}")
        held.append((_view_flags(written, plan.num_rows, "written"),
                     _view_flags(valid, plan.num_rows, "valid")))
        rules.append(rule)
    count = len(rules)
    described = allocate(count * sizeof(Column))
    states = allocate_zeroed(count)
    for i in range(count):
        (<Column*> described.ptr)[i].written = <const uint8_t*> (<InputBuffer> held[i][0]).ptr
        (<Column*> described.ptr)[i].valid = <const uint8_t*> (<InputBuffer> held[i][1]).ptr
        (<Column*> described.ptr)[i].rule = rules[i]
    with nogil:
        _flag_whole(plan, <const uint8_t*> removal_items.ptr, <const Column*> described.ptr, count,
                    <uint8_t*> states.ptr, <uint8_t*> flags.ptr)
    return flags


cdef InputBuffer _view_flags(object flags, Py_ssize_t expected, str what):
    cdef InputBuffer items = view_items(flags, 1, what)
    if <Py_ssize_t> items.length != expected:
        raise ValueError(f"{what}: {items.length} flags for {expected} rows")
    return items


cdef void _flag_whole(
    MergePlan plan, const uint8_t* removals, const Column* columns, Py_ssize_t count,
    uint8_t* states, uint8_t* flags,
) noexcept nogil:
    cdef Py_ssize_t group, row
    for group in range(plan.num_groups):
        memset(states, STATE_UNWRITTEN, count)
        for row in range(plan.start_ptr[group], plan.start_ptr[group + 1]):
            if not removals[row]:
                _add(columns, count, row, states)
            elif _is_left(columns, count, row, states):
                _empty(columns, count, row, states)
            else:
                memset(states, STATE_UNWRITTEN, count)
                flags[row] = 1


cdef inline void _add(
    const Column* columns, Py_ssize_t count, Py_ssize_t row, uint8_t* states
) noexcept nogil:
    cdef Py_ssize_t i
    cdef uint8_t state
    for i in range(count):
        if not columns[i].written[row]:
            continue
        state = STATE_VALUE if columns[i].valid[row] else STATE_NULL
        if columns[i].rule == RULE_LAST or states[i] == STATE_UNWRITTEN:
            states[i] = state
        elif columns[i].rule == RULE_ANY:
            states[i] = max(states[i], state)


cdef inline bint _is_left(
    const Column* columns, Py_ssize_t count, Py_ssize_t row, const uint8_t* states
) noexcept nogil:
    """Whether a column that the removal did not write has a value."""
    cdef Py_ssize_t i
    for i in range(count):
        if states[i] == STATE_VALUE and not columns[i].written[row]:
            return True
    return False


cdef inline void _empty(
    const Column* columns, Py_ssize_t count, Py_ssize_t row, uint8_t* states
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        if columns[i].written[row]:
            states[i] = STATE_UNWRITTEN
