"""Folds the values of each group of a merge plan into one; nulls are passed over.

The result is a column of one row per group: (validity bitmap or None, data, null count). A group
that is empty or of nulls only gives a null, whose bytes are zero. `kinds` are the row kinds, int8
arrays, one per source; without them every row is an add.
"""

from libc.stdint cimport uint8_t

from lsmerge_native._arithmetic cimport (
    DIVIDES_BY_ZERO, OVERFLOW_FAILS, OVERFLOW_NULLS, OVERFLOW_WRAPS, PRODUCT, SUM, Operation, Rules,
    combine_groups, power_of_ten,
)
from lsmerge_native._column cimport Column
from lsmerge_native._concat cimport concat_groups
from lsmerge_native._fold cimport Fold, begin_fold, finish_fold
from lsmerge_native._operands cimport view_kinds
from lsmerge_native.buffers cimport NativeBuffer, allocate
from lsmerge_native.plan cimport MergePlan


# Arrow formats by the C type of their values; the part before a colon counts.
cdef dict NUMBERS = {b"c": 1, b"s": 2, b"i": 4, b"l": 8, b"f": -4, b"g": -8}
cdef dict DECIMALS = {b"d": 16}
cdef dict OVERFLOWS = {"error": OVERFLOW_FAILS, "wrap": OVERFLOW_WRAPS, "null": OVERFLOW_NULLS}
cdef enum:
    MOST_DIGITS = 38  # of a decimal128


class FoldError(ArithmeticError):
    """A group has no result. `group` is the first such group, `failed` flags them all: one byte per
    group, 0 where there is a result.
    """

    def __init__(self, message, group, failed):
        super().__init__(message)
        self.group = group
        self.failed = failed


class FoldOverflowError(FoldError, OverflowError):
    """A value does not fit the type of the column."""


class FoldDivisionError(FoldError, ZeroDivisionError):
    """A retract divides by zero."""


def fold_sum(
    MergePlan plan not None, arrays, *, kinds=None, on_overflow="error", precision=None, scale=None
):
    """Sum integers, floats or decimals in their own type; retracts are subtracted.

    The total of integers, and every step of decimals, must fit the type. If it does not,
    `on_overflow` decides: "error" raises FoldOverflowError, "wrap" keeps the low bits (integers
    only), "null" makes the sum null; for decimals the next value starts over. Decimals have the
    precision and scale of their arrays unless given.
    """
    return _combine(plan, arrays, kinds, SUM, on_overflow, precision, scale)


def fold_product(
    MergePlan plan not None, arrays, *, kinds=None, on_overflow="error", precision=None, scale=None
):
    """Multiply integers, floats or decimals in their own type; retracts divide.

    As fold_sum. Integers divide toward zero, decimals are rounded half-up at every step, and to
    divide them by zero raises FoldDivisionError. A retract before any add is passed over.
    """
    return _combine(plan, arrays, kinds, PRODUCT, on_overflow, precision, scale)


def fold_concat(MergePlan plan not None, arrays, bytes delimiter not None):
    """Join the strings or binaries of each group, in plan order.

    Return (null count, [validity or None, offsets, bytes]). An empty string is a value. Raises
    OverflowError if the result is longer than one array can be.
    """
    return concat_groups(plan, arrays, delimiter)


cdef int _value_kind(Column column, dict accepted) except 0:
    """Bytes of a value, negative for floats."""
    cdef bytes code = column.format
    kind = accepted.get(code.partition(b":")[0])
    if kind is None or column.width != abs(kind):
        raise TypeError(f"cannot fold arrays of Arrow format '{code.decode()}'")
    return kind


# ---- sums and products ----


cdef tuple _combine(
    MergePlan plan, object arrays, object kinds, Operation operation, str on_overflow,
    object precision, object scale,
):
    cdef Fold fold = begin_fold(plan, arrays)
    cdef int kind = _value_kind(fold.column, NUMBERS | DECIMALS)
    cdef Column kind_column = None if kinds is None else view_kinds(plan, kinds)
    cdef NativeBuffer failures = allocate(plan.num_groups)
    cdef Rules rules
    cdef Py_ssize_t failed
    rules.operation = operation
    rules.kinds = NULL
    if kind_column is not None:
        rules.kinds = kind_column.parts
    _set_overflow(&rules, on_overflow, kind)
    if kind == 16:
        _set_decimal(&rules, fold.column, precision, scale)
    with nogil:
        failed = combine_groups(fold, &rules, kind, <uint8_t*> failures.ptr)
    if failed >= 0:
        raise _failure(fold.column, operation, failed, failures)
    return finish_fold(fold)


cdef int _set_overflow(Rules* rules, str on_overflow, int kind) except -1:
    if on_overflow not in OVERFLOWS:
        raise ValueError(
            f"on_overflow is '{on_overflow}', but must be one of {', '.join(OVERFLOWS)}")
    rules.overflow = OVERFLOWS[on_overflow]
    if rules.overflow == OVERFLOW_WRAPS and kind == 16:
        raise ValueError("on_overflow='wrap' is for integers, decimals have no bits to drop")
    return 0


cdef int _set_decimal(Rules* rules, Column column, object precision, object scale) except -1:
    cdef list own = [int(number) for number in column.format[2:].split(b",")]
    cdef int digits = own[0] if precision is None else precision
    cdef int places = own[1] if scale is None else scale
    if not 0 < digits <= MOST_DIGITS or not 0 <= places <= digits:
        raise ValueError(f"decimals cannot have precision {digits} and scale {places}")
    rules.limit, rules.unit = power_of_ten(digits), power_of_ten(places)
    return 0


cdef object _failure(
    Column column, Operation operation, Py_ssize_t group, NativeBuffer failures
):
    cdef str name = "sum" if operation == SUM else "product"
    if failures.ptr[group] == DIVIDES_BY_ZERO:
        return FoldDivisionError(
            f"the {name} of group {group} is divided by zero", group, failures)
    return FoldOverflowError(
        f"the {name} of group {group} does not fit Arrow format '{column.format.decode()}'",
        group, failures)
