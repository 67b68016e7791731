"""Reduces a column with a function that a user wrote, and takes nothing that it returns on trust."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from lsmerge.errors import NotRegisteredError
from lsmerge.field_options import FieldOptions
from lsmerge.merge.group_fold import FailedFoldError, Fold, fold_groups
from lsmerge.merge.grouped_column import GroupedColumn
from lsmerge.merge.user_code import Blaming, python_values, stored_value
from lsmerge.types import from_arrow
from lsmerge.user_functions import UserFunction
from lsmerge_native.reduce import pick_last

Reduce = Callable[[GroupedColumn, FieldOptions], pa.Array]


def reduce_with(function: UserFunction) -> Reduce:
    """The reduction of a registered function."""

    def reduce(column: GroupedColumn, _options: FieldOptions) -> pa.Array:
        is_vectorised = function.fold is not None and not column.has_retracts
        fold = _at_once(function) if is_vectorised else _one_by_one(function)
        return fold_groups(column, fold, takes_nulls=function.takes_nulls)

    return reduce


def refuse_to_reduce(name: str) -> Reduce:
    """The reduction of a function that is not registered: a lone value stays, several are refused."""

    def reduce(column: GroupedColumn, _options: FieldOptions) -> pa.Array:
        if column.plan.num_rows > column.plan.num_groups:
            raise NotRegisteredError(
                f"function {name!r} of column {column.name!r} is not registered in this process; its values cannot be "
                f"combined: call lsmerge.register_function({name!r}, ...) and open the table again"
            )
        return column.pick(pick_last)

    return reduce


def _one_by_one(function: UserFunction) -> Fold:
    def fold(values: pa.Array, starts: Sequence[int], taken_back: Sequence[int]) -> pa.Array:
        listed, kind = python_values(values), from_arrow(values.type).kind
        results = []
        for group, (start, stop) in enumerate(pairwise(starts)):
            with _blaming(function, group):
                state, has_state = None, False
                for value, is_taken in zip(listed[start:stop], taken_back[start:stop], strict=True):
                    if is_taken or has_state:
                        state = _step(function, state, value, is_taken=bool(is_taken))
                        state = stored_value(state, kind, values.type)
                    else:
                        state = value
                    has_state = function.takes_nulls or state is not None
                results.append(state)
        return pa.array(results, values.type)

    return fold


def _step(function: UserFunction, state: Any, value: Any, *, is_taken: bool) -> Any:
    if is_taken:
        assert function.retract is not None
        return function.retract(state, value)
    return function.given(state, value)


def _at_once(function: UserFunction) -> Fold:
    assert function.fold is not None
    given = function.fold

    def fold(values: pa.Array, starts: Sequence[int], _taken_back: Sequence[int]) -> pa.Array:
        try:
            return attempt(values, starts, 0)
        except FailedFoldError:
            group = _first_failing(
                len(starts) - 1, lambda first, last: fails(values, starts, first, last)
            )
            attempt(*_part(values, starts, group, group + 1), group)
            raise

    def fails(values: pa.Array, starts: Sequence[int], first: int, last: int) -> bool:
        try:
            attempt(*_part(values, starts, first, last), first)
        except FailedFoldError:
            return True
        return False

    def attempt(values: pa.Array, starts: Sequence[int], group: int) -> pa.Array:
        offsets = pa.array(starts, pa.int32())
        with _blaming(function, group):
            return _checked(given(values, offsets), len(starts) - 1, values.type)

    return fold


def _part(
    values: pa.Array, starts: Sequence[int], first: int, last: int
) -> tuple[pa.Array, list[int]]:
    begin = starts[first]
    shifted = [start - begin for start in starts[first : last + 1]]
    return values.slice(begin, shifted[-1]), shifted


def _first_failing(count: int, fails: Callable[[int, int], bool]) -> int:
    """By halving: if the first half does not fail, the second does."""
    first, last = 0, count
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (first, middle) if fails(first, middle) else (middle, last)
    return first


def _checked(result: Any, count: int, type_: pa.DataType) -> pa.Array:
    if isinstance(result, pa.ChunkedArray):
        result = result.combine_chunks()
    if not isinstance(result, pa.Array):
        raise TypeError(f"fold returned a {type(result).__name__}; return a pyarrow array")
    if result.type != type_:
        raise TypeError(f"fold returned {result.type}; cast it to {type_}")
    if len(result) != count:
        raise ValueError(f"fold returned {len(result)} values for {count} keys")
    result.validate(full=True)
    return result


def _blaming(function: UserFunction, group: int) -> Blaming:
    return Blaming(lambda reason: FailedFoldError(group, f"function {function.name!r}: {reason}"))
