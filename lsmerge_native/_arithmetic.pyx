"""Sums and products of the groups of a fold, with retracts, in the type of the column.

Null is the identity: the first value of a group is taken as it is. A retract that comes first gives
its negative to a sum and nothing to a product. Sums of integers are exact and checked at the end,
products and decimals at every step; floats follow IEEE 754 and neither overflow nor fail.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t

from lsmerge_native._column cimport Part, is_valid
from lsmerge_native._fold cimport Fold, set_valid


cdef extern from * nogil:
    bint subtract_overflows "__builtin_sub_overflow"(int64_t a, int64_t b, int64_t* out)
    bint multiply_overflows "__builtin_mul_overflow"(int64_t a, int64_t b, int64_t* out)


cdef extern from "include/decimal128.h" nogil:
    bint decimal_add "lsmerge_decimal_add"(decimal* total, decimal value, decimal limit)
    bint decimal_subtract "lsmerge_decimal_subtract"(decimal* total, decimal value, decimal limit)
    bint decimal_multiply "lsmerge_decimal_multiply"(
        decimal* total, decimal value, decimal unit, decimal limit)
    bint decimal_divide "lsmerge_decimal_divide"(
        decimal* total, decimal value, decimal unit, decimal limit)


ctypedef fused integer:
    int8_t
    int16_t
    int32_t
    int64_t


ctypedef fused real:
    float
    double


ctypedef fused number:
    int8_t
    int16_t
    int32_t
    int64_t
    float
    double
    decimal


cdef Py_ssize_t combine_groups(
    Fold fold, const Rules* rules, int kind, uint8_t* failures
) noexcept nogil:
    if kind == 1:
        return _combine_all[int8_t](fold, rules, <int8_t*> fold.data.ptr, failures)
    if kind == 2:
        return _combine_all[int16_t](fold, rules, <int16_t*> fold.data.ptr, failures)
    if kind == 4:
        return _combine_all[int32_t](fold, rules, <int32_t*> fold.data.ptr, failures)
    if kind == 8:
        return _combine_all[int64_t](fold, rules, <int64_t*> fold.data.ptr, failures)
    if kind == 16:
        return _combine_all[decimal](fold, rules, <decimal*> fold.data.ptr, failures)
    if kind == -4:
        return _combine_all[float](fold, rules, <float*> fold.data.ptr, failures)
    return _combine_all[double](fold, rules, <double*> fold.data.ptr, failures)


cdef Py_ssize_t _combine_all(
    Fold fold, const Rules* rules, number* out, uint8_t* failures
) noexcept nogil:
    cdef Py_ssize_t group, first = -1
    for group in range(fold.num_groups):
        if number is not decimal and number is not float and number is not double:
            if rules.operation == SUM:
                failures[group] = _sum_integers(fold, rules, group, out + group)
            else:
                failures[group] = _combine_group(fold, rules, group, out + group)
        else:
            failures[group] = _combine_group(fold, rules, group, out + group)
        if failures[group] != NO_FAILURE and first < 0:
            first = group
    return first


cdef inline Failure _sum_integers(
    Fold fold, const Rules* rules, Py_ssize_t group, integer* out
) noexcept nogil:
    """The sum of a group, in 128 bits: only what comes out in the end must fit."""
    cdef const Part* part
    cdef Py_ssize_t i, row
    cdef int64_t valid, found = 0, sign = 0
    cdef decimal total = 0
    for i in range(fold.starts[group], fold.starts[group + 1]):
        part = fold.column.parts + fold.sources[i]
        row = fold.rows[i]
        # Nulls come in no order that a processor could learn: they are zeros, without a branch.
        valid = is_valid(part, row)
        found |= valid
        if rules.kinds != NULL:
            sign = -<int64_t> (rules.kinds[fold.sources[i]].values[row] & 1)
        # sign is 0 or -1, all bits, and (x ^ -1) + 1 is -x.
        total += (<decimal> (-valid & <int64_t> (<const integer*> part.values)[row]) ^ sign) - sign
    if not found:
        return NO_FAILURE
    if <decimal> (<integer> total) != total and rules.overflow != OVERFLOW_WRAPS:
        return NO_FAILURE if rules.overflow == OVERFLOW_NULLS else DOES_NOT_FIT
    out[0] = <integer> total
    set_valid(fold, group)
    return NO_FAILURE


cdef inline Failure _combine_group(
    Fold fold, const Rules* rules, Py_ssize_t group, number* out
) noexcept nogil:
    cdef const Part* part
    cdef Py_ssize_t i, row
    cdef bint found = False, is_retract = False
    cdef number total = 0, value
    cdef Failure failure
    for i in range(fold.starts[group], fold.starts[group + 1]):
        part = fold.column.parts + fold.sources[i]
        row = fold.rows[i]
        if not is_valid(part, row):
            continue
        value = (<const number*> part.values)[row]
        if rules.kinds != NULL:
            is_retract = rules.kinds[fold.sources[i]].values[row] & 1
        if not found and not is_retract:
            total, found = value, True
            continue
        if not found:
            if rules.operation == PRODUCT:
                continue
            total, found = <number> -0.0, True  # which less x is -x, for the zeros of floats too
        failure = _step(rules, is_retract, &total, value)
        if failure == DOES_NOT_FIT and rules.overflow == OVERFLOW_NULLS:
            found = False
        elif failure != NO_FAILURE:
            return failure
    if found:
        out[0] = total
        set_valid(fold, group)
    return NO_FAILURE


cdef inline Failure _step(
    const Rules* rules, bint is_retract, number* total, number value
) noexcept nogil:
    """Combine total and value. If that fails, total is as before."""
    if number is float or number is double:
        _step_real(rules, is_retract, total, value)
        return NO_FAILURE
    elif number is decimal:
        return _step_decimal(rules, is_retract, total, value)
    else:
        return _step_integer(rules, is_retract, total, value)


cdef inline void _step_real(
    const Rules* rules, bint is_retract, real* total, real value
) noexcept nogil:
    if rules.operation == SUM:
        total[0] = total[0] - value if is_retract else total[0] + value
    else:
        total[0] = total[0] / value if is_retract else total[0] * value


cdef inline Failure _step_integer(
    const Rules* rules, bint is_retract, integer* total, integer value
) noexcept nogil:
    """One step of a product."""
    cdef int64_t wide = total[0]
    cdef bint overflows = False
    if not is_retract:
        overflows = multiply_overflows(wide, value, &wide)
    elif value == 0:
        return DIVIDES_BY_ZERO
    elif value == -1:
        # The processor traps if the least number, which has no negative, is divided by -1.
        overflows = subtract_overflows(0, wide, &wide)
    else:
        wide = wide // value  # as in C: toward zero
    if (overflows or <integer> wide != wide) and rules.overflow != OVERFLOW_WRAPS:
        return DOES_NOT_FIT
    total[0] = <integer> wide
    return NO_FAILURE


cdef inline Failure _step_decimal(
    const Rules* rules, bint is_retract, decimal* total, decimal value
) noexcept nogil:
    cdef bint fits
    if rules.operation == SUM:
        fits = (decimal_subtract(total, value, rules.limit) if is_retract
                else decimal_add(total, value, rules.limit))
    elif not is_retract:
        fits = decimal_multiply(total, value, rules.unit, rules.limit)
    elif value == 0:
        return DIVIDES_BY_ZERO
    else:
        fits = decimal_divide(total, value, rules.unit, rules.limit)
    return NO_FAILURE if fits else DOES_NOT_FIT
