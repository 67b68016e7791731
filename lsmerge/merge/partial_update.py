"""Partial-update: every column keeps its last value that is not null; columns may follow sequences of their own.

k.1 (23.0, 10, null)  k.2 (null, null, "book")  k.3 (25.2, null, null)   ->   (25.2, 10, "book")
"""

import pyarrow as pa

from lsmerge.errors import InvalidOptionError
from lsmerge.field_options import (
    FieldOptions,
    SequenceGroup,
    default_function,
    field_options,
    sequence_groups,
)
from lsmerge.merge.columnar import ColumnarEngine, ColumnRules
from lsmerge.merge.door import (
    Retracts,
    TakenBack,
    admit,
    retracts_of,
    without_kind,
)
from lsmerge.merge.functions import (
    LAST_NON_NULL_VALUE,
    LAST_VALUE,
    ColumnFunction,
    function_named,
    lifted,
)
from lsmerge.merge.order import sequence_order
from lsmerge.merge.written import TargetColumns
from lsmerge.options import TableOptions
from lsmerge.rowkind import RowKind
from lsmerge.schema import TableSchema

REMOVE = "partial-update.remove-record-on-delete"
REMOVE_GROUP = "partial-update.remove-record-on-sequence-group"


class PartialUpdate(ColumnarEngine):
    """The engine of `merge-engine` = partial-update."""

    target_columns = TargetColumns.AS_NULLS

    def __init__(self, schema: TableSchema, options: TableOptions) -> None:
        groups = sequence_groups(schema)
        _check(options, groups)
        fields = field_options(schema)
        functions = _functions(schema, fields, groups)
        self._removes = options.partial_update_remove_record_on_delete
        taken = Retracts.TAKE if groups or self._removes else Retracts.REFUSE
        self._retracts = retracts_of(options, taken)
        members = [name for group in groups for name in group.members]
        self._taken_back = TakenBack.of(members, functions, fields)
        removing = options.partial_update_remove_record_on_sequence_group
        rules = ColumnRules(
            functions,
            fields,
            groups,
            removing_kinds=1 << RowKind.DELETE if self._removes else 0,
            removing_groups=tuple(g for g in groups if set(g.order) & set(removing)),
            retracts_touch=False,
        )
        super().__init__(schema, sequence_order(options), rules)

    def lift(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        admitted = admit(batch, self._retracts, "partial-update")
        self._taken_back.check(admitted)
        if self._removes:
            admitted = without_kind(admitted, RowKind.UPDATE_BEFORE)
        return lifted(admitted, self._schema, self._rules.functions, self._rules.options)


def _functions(
    schema: TableSchema, fields: dict[str, FieldOptions], groups: tuple[SequenceGroup, ...]
) -> dict[str, ColumnFunction]:
    members = {name for group in groups for name in group.members}
    default = default_function(schema.options)
    functions = {}
    for column in schema.columns:
        name = fields[column.name].function
        if column.name in members:
            chosen = name or default or LAST_VALUE.name
        elif name not in (None, LAST_NON_NULL_VALUE.name):
            raise InvalidOptionError(
                f"option 'fields.{column.name}.aggregate-function' = {name!r}: in a partial-update table the column "
                "must be in a sequence group; add it to one"
            )
        else:
            chosen = LAST_NON_NULL_VALUE.name
        functions[column.name] = function_named(chosen, column, fields[column.name])
    return functions


def _check(options: TableOptions, groups: tuple[SequenceGroup, ...]) -> None:
    removing = options.partial_update_remove_record_on_sequence_group
    ordering = {name for group in groups for name in group.order}
    if options.partial_update_remove_record_on_delete and (options.ignore_delete or groups):
        raise InvalidOptionError(f"option {REMOVE!r} contradicts ignore-delete and sequence groups")
    if removing and options.ignore_delete:
        raise InvalidOptionError(f"option {REMOVE_GROUP!r} contradicts ignore-delete")
    for name in removing:
        if name not in ordering:
            raise InvalidOptionError(
                f"option {REMOVE_GROUP!r} = {name!r}: name an ordering column of a sequence group"
            )
