"""Column functions: how the values of one column are combined, oldest first, into one.

A function reduces a grouped column to one value per key. Its laws:

- `exact`: the function of some consecutive values, put in their place as one added value, changes no result. Sums of
  integers are exact, sums of floating-point numbers are not, since they round at each step. Options may take it away.
- `order_free`: the order of the values does not matter. Where columns order the rows, one row of a key may then hold
  what all of them give together, and the others null.
- `takes_retracts`: a retracted value can be taken back. Others refuse a retract at the door.
- `lift`: what is stored in place of a value as it comes in; every other part works on lifted values.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import pyarrow as pa

from lsmerge.errors import InvalidOptionError, SchemaMismatchError
from lsmerge.field_options import FieldOptions
from lsmerge.merge import bitmap_functions as bitmaps
from lsmerge.merge import nested_functions as nested
from lsmerge.merge.group_fold import fold_groups
from lsmerge.merge.grouped_column import GroupedColumn
from lsmerge.merge.lift import Lift, RefusedValueError
from lsmerge.merge.nested_options import (
    NESTED_KEY,
    check_keyed_rows,
    check_rows,
    check_timed_map,
    keyed,
)
from lsmerge.merge.user_reduce import reduce_with, refuse_to_reduce
from lsmerge.merge.written import wrote
from lsmerge.schema import Column, TableSchema, unknown_name
from lsmerge.types import to_arrow
from lsmerge.user_functions import LIMITED_KINDS, registered_function, registered_names
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
from lsmerge_native.removal import VALUE_ANY, VALUE_FIRST, VALUE_LAST

INTEGERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
NUMBERS = INTEGERS | {"FLOAT", "DOUBLE", "DECIMAL"}
TEXTS = frozenset({"CHAR", "VARCHAR", "STRING"})
NESTED = frozenset({"ARRAY", "MAP", "ROW"})

Reduce = Callable[[GroupedColumn, FieldOptions], pa.Array]
Check = Callable[[Column, FieldOptions], None]


@dataclass(frozen=True, slots=True)
class ColumnFunction:
    """How the values of a column are combined."""

    name: str
    reduce: Reduce
    kinds: frozenset[str] | None = None  # logical types it is for; None: all
    takes_retracts: bool = False
    picks: bool = False  # the result is the value of one row, its last or last non-null one
    order_free: bool = False
    has_value: int = VALUE_ANY  # when the result is not null
    exact: Callable[[Column], bool] = lambda _column: True
    exact_with: Callable[[FieldOptions], bool] = lambda _options: True
    lift: Lift | None = None
    reads: frozenset[str] = frozenset()  # those of FieldOptions.given that it looks at
    check_options: Check | None = None
    unknown: str | None = None  # why there is no such function, where there is none

    def has_totals(self, column: Column) -> bool:
        """Whether one row may hold what several give together, wherever they stand in an order."""
        return self.order_free and self.exact(column)

    def check(self, column: Column, options: FieldOptions) -> None:
        """Refuse a column whose type or options the function is not for."""
        if self.kinds is not None and column.type.kind not in self.kinds:
            accepted = ", ".join(sorted(self.kinds))
            raise InvalidOptionError(
                f"function {self.name!r} of column {column.name!r}: type {column.type} is not for it; "
                f"accepted: {accepted}"
            )
        for given in sorted(options.given - self.reads):
            raise InvalidOptionError(
                f"option 'fields.{column.name}.{given}': function {self.name!r} does not look at it; "
                "leave it out, or use another function"
            )
        if self.check_options is not None:
            self.check_options(column, options)


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


def _count_one(values: pa.Array, column: Column, _options: FieldOptions) -> pa.Array:
    """A value counts 1, a null 0: what is stored are counts, so that adding them up is exact."""
    return values.is_valid().cast(to_arrow(column.type))


def _listagg(column: GroupedColumn, options: FieldOptions) -> pa.Array:
    if options.distinct:
        return _listagg_distinct(column, options.delimiter)
    null_count, buffers = fold_concat(column.plan, column.arrays, options.delimiter.encode())
    wrapped = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    return pa.Array.from_buffers(column.type, column.plan.num_groups, wrapped, null_count)


def _listagg_distinct(column: GroupedColumn, delimiter: str) -> pa.Array:
    """Values are split first; of the parts that are not blank each is kept once, where it came first."""
    import pyarrow.compute as pc

    def fold(values: pa.Array, starts: Sequence[int], _taken_back: Sequence[int]) -> pa.Array:
        texts = values.to_pylist()
        parts = [
            delimiter.join(texts[start:stop]).split(delimiter) for start, stop in pairwise(starts)
        ]
        return pa.array(
            [delimiter.join(dict.fromkeys(filter(str.strip, p))) for p in parts], values.type
        )

    # A lone value is in the form of a result if it is one part that is not blank.
    return fold_groups(column, fold, lambda v: pc.match_substring(v, delimiter).fill_null(False))


def _greatest(column: GroupedColumn) -> Callable[[MergePlan], Selection]:
    return lambda plan: pick_greatest(plan, column.keys(), column.arrays)


def _least(column: GroupedColumn) -> Callable[[MergePlan], Selection]:
    return lambda plan: pick_least(plan, column.keys(), column.arrays)


_BINARIES = frozenset({"BINARY", "VARBINARY", "BYTES"})
_TIMES = frozenset({"DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"})
_COMPARABLE = NUMBERS | TEXTS | _TIMES | _BINARIES | {"BOOLEAN"}

_UNLIMITED = (_COMPARABLE | NESTED) - LIMITED_KINDS

_ARRAY = frozenset({"ARRAY"})
_MAP = frozenset({"MAP"})


def _never(_column: Column) -> bool:
    return False


def _of_sets(name: str, reduce: Reduce, parse: bitmaps.Parse, what: str) -> ColumnFunction:
    return ColumnFunction(
        name,
        reduce,
        frozenset({"BYTES", "VARBINARY"}),
        exact=_never,
        lift=bitmaps.refusing_unreadable(parse, what),
        check_options=bitmaps.need_datasketches if name.endswith("sketch") else None,
    )


LAST_VALUE = ColumnFunction(
    "last_value",
    _picking(lambda _c: pick_last),
    takes_retracts=True,
    picks=True,
    has_value=VALUE_LAST,
)
LAST_NON_NULL_VALUE = ColumnFunction(
    "last_non_null_value",
    _picking(lambda c: lambda plan: pick_last_valid(plan, c.arrays)),
    takes_retracts=True,
    picks=True,
)

_OVERFLOW = frozenset({"on-overflow"})
_OF_LISTS = frozenset({"distinct", "listagg.delimiter", "string_agg.delimiter"})

FUNCTIONS: Mapping[str, ColumnFunction] = {
    function.name: function
    for function in (
        LAST_VALUE,
        LAST_NON_NULL_VALUE,
        ColumnFunction("first_value", _picking(lambda _c: pick_first), has_value=VALUE_FIRST),
        ColumnFunction(
            "first_non_null_value",
            _picking(lambda c: lambda plan: pick_first_valid(plan, c.arrays)),
        ),
        ColumnFunction("max", _picking(_greatest), _COMPARABLE, order_free=True),
        ColumnFunction("min", _picking(_least), _COMPARABLE, order_free=True),
        ColumnFunction("bool_or", _picking(_greatest), frozenset({"BOOLEAN"}), order_free=True),
        ColumnFunction("bool_and", _picking(_least), frozenset({"BOOLEAN"}), order_free=True),
        ColumnFunction(
            "sum",
            _sum,
            NUMBERS,
            takes_retracts=True,
            order_free=True,
            exact=_is_integer,
            reads=_OVERFLOW,
        ),
        ColumnFunction(
            "product", _product, NUMBERS, takes_retracts=True, exact=_is_integer, reads=_OVERFLOW
        ),
        ColumnFunction(
            "count",
            _sum,
            INTEGERS,
            takes_retracts=True,
            order_free=True,
            lift=_count_one,
            reads=_OVERFLOW,
        ),
        ColumnFunction("listagg", _listagg, frozenset({"STRING"}), reads=_OF_LISTS),
        ColumnFunction(
            "collect", nested.collect, _ARRAY, takes_retracts=True, reads=frozenset({"distinct"})
        ),
        ColumnFunction("merge_map", nested.merge_map, _MAP, takes_retracts=True),
        ColumnFunction(
            "merge_map_with_keytime",
            nested.merge_map_with_keytime,
            _MAP,
            # An entry that removes its key must still meet the older entries.
            exact=_never,
            reads=frozenset({"ts-field"}),
            check_options=check_timed_map,
        ),
        ColumnFunction(
            "nested_update",
            nested.nested_update,
            _ARRAY,
            takes_retracts=True,
            # Whether a full array takes a row depends on the keys of older ones.
            exact_with=lambda options: not (options.nested_key and options.count_limit),
            lift=keyed,
            reads=NESTED_KEY | {"nested-sequence-field", "count-limit"},
            check_options=check_rows,
        ),
        ColumnFunction(
            "nested_partial_update",
            nested.nested_partial_update,
            _ARRAY,
            lift=keyed,
            reads=NESTED_KEY,
            check_options=check_keyed_rows,
        ),
        _of_sets("rbm32", bitmaps.rbm32, bitmaps.parse_rbm32, "a portable 32-bit Roaring bitmap"),
        _of_sets("rbm64", bitmaps.rbm64, bitmaps.parse_rbm64, "a portable 64-bit Roaring bitmap"),
        _of_sets("hll_sketch", bitmaps.hll_sketch, bitmaps.parse_hll, "a HyperLogLog sketch"),
        _of_sets("theta_sketch", bitmaps.theta_sketch, bitmaps.parse_theta, "a theta sketch"),
    )
}


def _registered(name: str) -> ColumnFunction | None:
    function = registered_function(name)
    if function is None:
        return None
    return ColumnFunction(
        name,
        reduce_with(function),
        _UNLIMITED if function.types is None else function.types & _UNLIMITED,
        takes_retracts=function.retract is not None,
        exact=lambda _column: function.is_associative,
    )


def _unknown(name: str, column: Column) -> ColumnFunction:
    """Stands for a function of another process: the table can be opened, but its values not combined."""
    known = unknown_name("function", name, [*FUNCTIONS, *registered_names()])
    return ColumnFunction(
        f"{name} (not registered)",
        refuse_to_reduce(name),
        exact=_never,
        unknown=f"function of column {column.name!r}: {known}; your own need lsmerge.register_function first",
    )


def function_named(name: str, column: Column, options: FieldOptions) -> ColumnFunction:
    """The function of a column, checked against its type and options; one that is not known combines nothing."""
    function = FUNCTIONS.get(name) or _registered(name) or _unknown(name, column)
    function.check(column, options)
    _check_overflow(column, options)
    return function if function.exact_with(options) else replace(function, exact=_never)


def _check_overflow(column: Column, options: FieldOptions) -> None:
    if options.on_overflow == "wrap" and column.type.kind == "DECIMAL":
        raise InvalidOptionError(
            f"option 'fields.{column.name}.on-overflow' = 'wrap': only integers wrap around, the column is "
            f"{column.type}; use error or null"
        )


def lifted(
    batch: pa.RecordBatch,
    schema: TableSchema,
    functions: Mapping[str, ColumnFunction],
    options: Mapping[str, FieldOptions],
) -> pa.RecordBatch:
    """Rows with system columns as they are stored; columns that were not written stay null."""
    for column in schema.columns:
        lift = functions[column.name].lift
        if lift is not None and wrote(batch, column.id):
            position = batch.schema.get_field_index(column.name)
            try:
                values = lift(batch.column(position), column, options[column.name])
            except RefusedValueError as error:
                key = batch.select(schema.primary_key).slice(error.row, 1).to_pylist()[0]
                raise SchemaMismatchError(
                    f"column {column.name!r} at row {error.row}, key {key}: {error}"
                ) from error
            batch = batch.set_column(position, batch.schema.field(position), values)
    return batch
