"""Aggregation: every column combines its values with a function.

k.1 (a=5, b="x")  k.2 (a=3, b="y")   with sum and listagg   ->   (8, "x,y")
"""

import pyarrow as pa

from lsmerge.errors import InvalidOptionError, SchemaMismatchError
from lsmerge.field_options import FieldOptions, default_function, field_options
from lsmerge.merge.columnar import ColumnarEngine, ColumnRules
from lsmerge.merge.door import Retracts, TakenBack, admit, retracts_of
from lsmerge.merge.functions import (
    LAST_NON_NULL_VALUE,
    LAST_VALUE,
    ColumnFunction,
    function_named,
    lifted,
)
from lsmerge.merge.grouped_column import DELETES, RETRACTS
from lsmerge.merge.order import sequence_order
from lsmerge.merge.written import is_targeted
from lsmerge.options import TableOptions
from lsmerge.rowkind import KIND_COLUMN, RowKind
from lsmerge.schema import TableSchema

REMOVE = "aggregation.remove-record-on-delete"


class Aggregation(ColumnarEngine):
    """The engine of `merge-engine` = aggregation."""

    def __init__(self, schema: TableSchema, options: TableOptions) -> None:
        fields = field_options(schema)
        functions = _functions(schema, options, fields)
        self._retracts = retracts_of(options, Retracts.TAKE)
        removing = _removing_kinds(options, fields)
        combined = [name for name in schema.column_names if name not in schema.fixed_columns]
        self._taken_back = TakenBack.of(combined, functions, fields, RETRACTS & ~removing)
        rules = ColumnRules(functions, fields, removing_kinds=removing)
        super().__init__(schema, sequence_order(options), rules)

    def lift(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        admitted = admit(batch, self._retracts, "aggregation")
        self._taken_back.check(admitted)
        if self._rules.removing_kinds == DELETES:
            _refuse_partial_deletes(admitted)
        return lifted(admitted, self._schema, self._rules.functions, self._rules.options)


def _refuse_partial_deletes(batch: pa.RecordBatch) -> None:
    kinds = batch.column(KIND_COLUMN).unique().to_pylist()
    if is_targeted(batch) and RowKind.DELETE in kinds:
        raise SchemaMismatchError(
            f"row kind -D with target columns: option {REMOVE!r} removes whole rows; write all columns, or create the "
            "table with delete.behavior=allow, where it empties the target columns"
        )


def _functions(
    schema: TableSchema, options: TableOptions, fields: dict[str, FieldOptions]
) -> dict[str, ColumnFunction]:
    default = default_function(schema.options) or LAST_NON_NULL_VALUE.name
    functions = {}
    for column in schema.columns:
        name = fields[column.name].function
        if name is not None and column.name in options.sequence_field:
            raise InvalidOptionError(
                f"option 'fields.{column.name}.aggregate-function' = {name!r}: the sequence column orders the rows; "
                "it has no function"
            )
        if column.name in options.sequence_field or column.name in schema.fixed_columns:
            chosen = LAST_VALUE.name
        else:
            chosen = name or default
        functions[column.name] = function_named(chosen, column, fields[column.name])
    return functions


def _removing_kinds(options: TableOptions, fields: dict[str, FieldOptions]) -> int:
    if options.delete_behavior == "allow":
        return RETRACTS
    if not options.aggregation_remove_record_on_delete:
        return 0
    if any(field.ignore_retract for field in fields.values()):
        raise InvalidOptionError(f"option {REMOVE!r} contradicts ignore-retract of a column")
    return DELETES
