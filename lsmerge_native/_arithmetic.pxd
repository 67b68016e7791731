"""Sums and products of the groups of a fold, with retracts, in the type of the column."""

from libc.stdint cimport uint8_t

from lsmerge_native._column cimport Part
from lsmerge_native._fold cimport Fold


cdef enum Operation:
    SUM         # a retract is subtracted
    PRODUCT     # a retract divides


cdef enum Overflow:
    OVERFLOW_FAILS   # the group is given up
    OVERFLOW_WRAPS   # integers only
    OVERFLOW_NULLS   # the accumulator is null again; the next value starts over


cdef enum Failure:
    NO_FAILURE
    DOES_NOT_FIT
    DIVIDES_BY_ZERO


cdef extern from "include/decimal128.h" nogil:
    ctypedef long long decimal "lsmerge_decimal"
    decimal power_of_ten "lsmerge_power_of_ten"(int exponent)


cdef struct Rules:
    Operation operation
    Overflow overflow
    const Part* kinds   # int8 per row: bit 0 of a retract is set; NULL if there are none
    decimal limit       # decimals: ten to the power of the precision
    decimal unit        # decimals: ten to the power of the scale


# Fold every group; failures[group] becomes a Failure. Return the first group that failed, or -1.
# Requires: the column holds integers of 1, 2, 4 or 8 bytes, decimals (16), floats (-4) or doubles
# (-8), which is its `kind`.
cdef Py_ssize_t combine_groups(Fold fold, const Rules* rules, int kind, uint8_t* failures) \
    noexcept nogil
