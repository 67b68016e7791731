"""Column functions: how the values of one column are combined, oldest first, into one.

A function reduces a grouped column to one value per key. Its laws:

- `exact`: the function of some consecutive values, put in their place as one added value, changes no result. Sums of
  integers are exact, sums of floating-point numbers are not, since they round at each step.
- `takes_retracts`: a retracted value can be taken back. Others refuse a retract at the door.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from lsmerge.errors import InvalidOptionError
from lsmerge.field_options import FieldOptions
from lsmerge.merge.grouped_column import GroupedColumn
from lsmerge.schema import Column
from lsmerge_native.fold import fold_concat, fold_product, fold_sum
from lsmerge_native.plan import MergePlan
from lsmerge_native.reduce import (
    Selection,
    pick_first,
    pick_first_valid,
    pick_greatest,
    pick_last,
    pick_last_valid,
    pick_least,
)

INTEGERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
NUMBERS = INTEGERS | {"FLOAT", "DOUBLE", "DECIMAL"}
TEXTS = frozenset({"CHAR", "VARCHAR", "STRING"})
NESTED = frozenset({"ARRAY", "MAP", "ROW"})

Reduce = Callable[[GroupedColumn, FieldOptions], pa.Array]


@dataclass(frozen=True, slots=True)
class ColumnFunction:
    """How the values of a column are combined."""

    name: str
    reduce: Reduce
    kinds: frozenset[str] | None = None  # logical types it is for; None: all
    takes_retracts: bool = False
    picks: bool = False  # the result is the value of one row, its last or last non-null one
    exact: Callable[[Column], bool] = lambda _column: True

    def check(self, column: Column) -> None:
        """Refuse a column whose type the function is not for."""
        if self.kinds is not None and column.type.kind not in self.kinds:
            accepted = ", ".join(sorted(self.kinds))
            raise InvalidOptionError(
                f"function {self.name!r} of column {column.name!r}: type {column.type} is not for it; "
                f"accepted: {accepted}"
            )


def _picking(choose: Callable[[GroupedColumn], Callable[[MergePlan], Selection]]) -> Reduce:
    return lambda column, _options: column.pick(choose(column))


def _is_integer(column: Column) -> bool:
    return column.type.kind in INTEGERS


def _sum(column: GroupedColumn, options: FieldOptions) -> pa.Array:
    folded = fold_sum(
        column.plan, column.arrays, kinds=column.kinds, on_overflow=options.on_overflow
    )
    return column.fixed(folded, column.type)


def _product(column: GroupedColumn, options: FieldOptions) -> pa.Array:
    folded = fold_product(
        column.plan, column.arrays, kinds=column.kinds, on_overflow=options.on_overflow
    )
    return column.fixed(folded, column.type)


def _listagg(column: GroupedColumn, options: FieldOptions) -> pa.Array:
    null_count, buffers = fold_concat(column.plan, column.arrays, options.delimiter.encode())
    wrapped = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    return pa.Array.from_buffers(column.type, column.plan.num_groups, wrapped, null_count)


def _greatest(column: GroupedColumn) -> Callable[[MergePlan], Selection]:
    return lambda plan: pick_greatest(plan, column.keys(), column.arrays)


def _least(column: GroupedColumn) -> Callable[[MergePlan], Selection]:
    return lambda plan: pick_least(plan, column.keys(), column.arrays)


_BINARIES = frozenset({"BINARY", "VARBINARY", "BYTES"})
_TIMES = frozenset({"DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"})
_COMPARABLE = NUMBERS | TEXTS | _TIMES | _BINARIES | {"BOOLEAN"}

LAST_VALUE = ColumnFunction(
    "last_value", _picking(lambda _c: pick_last), takes_retracts=True, picks=True
)
LAST_NON_NULL_VALUE = ColumnFunction(
    "last_non_null_value",
    _picking(lambda c: lambda plan: pick_last_valid(plan, c.arrays)),
    takes_retracts=True,
    picks=True,
)

FUNCTIONS: Mapping[str, ColumnFunction] = {
    function.name: function
    for function in (
        LAST_VALUE,
        LAST_NON_NULL_VALUE,
        ColumnFunction("first_value", _picking(lambda _c: pick_first)),
        ColumnFunction(
            "first_non_null_value",
            _picking(lambda c: lambda plan: pick_first_valid(plan, c.arrays)),
        ),
        ColumnFunction("max", _picking(_greatest), _COMPARABLE),
        ColumnFunction("min", _picking(_least), _COMPARABLE),
        ColumnFunction("bool_or", _picking(_greatest), frozenset({"BOOLEAN"})),
        ColumnFunction("bool_and", _picking(_least), frozenset({"BOOLEAN"})),
        ColumnFunction(
            "sum",
            _sum,
            NUMBERS,
            takes_retracts=True,
            exact=_is_integer,
        ),
        ColumnFunction("product", _product, NUMBERS, takes_retracts=True, exact=_is_integer),
        ColumnFunction("listagg", _listagg, frozenset({"STRING"})),
    )
}


def function_named(name: str, column: Column) -> ColumnFunction:
    """The function of a column, checked against its type."""
    if name not in FUNCTIONS:
        raise InvalidOptionError(
            f"function {name!r} of column {column.name!r} is not available in this version of lsmerge; "
            f"known: {', '.join(sorted(FUNCTIONS))}"
        )
    FUNCTIONS[name].check(column)
    return FUNCTIONS[name]
