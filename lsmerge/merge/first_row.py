"""First-row: the first row of a key stays for ever.

    a.+I.1  a.+I.2  ->  a.+I.1

Composing keeps the first row only: nothing that arrives later can come before it, and whatever is older in other
runs still wins by its smaller sequence number.
"""

from collections.abc import Sequence

import pyarrow as pa

from lsmerge.errors import InvalidOptionError
from lsmerge.merge.door import Retracts, admit, retracts_of
from lsmerge.merge.groups import Groups
from lsmerge.merge.order import ARRIVAL, RowOrder
from lsmerge.merge.written import TargetColumns
from lsmerge.options import TableOptions
from lsmerge.schema import TableSchema
from lsmerge_native.reduce import pick_first


class FirstRow:
    """The engine of `merge-engine` = first-row."""

    one_row_per_key = True
    newest_row_wins = False
    one_add_per_key = True
    keeps_not_null = True
    target_columns = TargetColumns.REFUSED

    def __init__(self, schema: TableSchema, options: TableOptions) -> None:
        if options.sequence_field:
            raise InvalidOptionError(
                "option 'sequence.field' contradicts merge-engine=first-row, which keeps the row that "
                "arrived first; leave it out"
            )
        if options.delete_behavior == "allow":
            raise InvalidOptionError(
                "option 'delete.behavior' = 'allow' contradicts merge-engine=first-row: use ignore or disable"
            )
        self._columns = schema.file_schema.names
        self._retracts = retracts_of(options, Retracts.REFUSE)

    @property
    def order(self) -> RowOrder:
        return ARRIVAL

    @property
    def delete_columns(self) -> Sequence[str]:
        return self.order.columns

    def lift(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return admit(batch, self._retracts, "first-row")

    def compose(self, groups: Groups, *, forget_before: int) -> pa.RecordBatch:  # noqa: ARG002
        return groups.take(pick_first(groups.plan), self._columns)

    def resolve(self, groups: Groups, names: Sequence[str]) -> pa.RecordBatch:
        return groups.take(pick_first(groups.plan), names)

    def reads(self, names: Sequence[str]) -> Sequence[str]:
        return names

    def shows_stored(self, name: str) -> bool:
        return name in self._columns
