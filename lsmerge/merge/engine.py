"""What a merge engine is, and the one place where a table's engine is chosen.

An engine gives meaning to the rows of one key, listed oldest first as *operands*:

    lift      input rows -> operand rows, once, at the door
    resolve   all operands of a key -> the visible row, or none
    compose   some operands -> fewer, where older or newer ones may be elsewhere

Law: resolve(a + compose(b) + c) == resolve(a + b + c) for every a and c. It makes the answer independent of
where and when rows were merged.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import pyarrow as pa

from lsmerge.merge.aggregate import Aggregation
from lsmerge.merge.custom import Custom
from lsmerge.merge.deduplicate import Deduplicate
from lsmerge.merge.event_time import EventOrder
from lsmerge.merge.first_row import FirstRow
from lsmerge.merge.groups import Groups
from lsmerge.merge.merger_rows import CheckRows
from lsmerge.merge.order import RowOrder
from lsmerge.merge.partial_update import PartialUpdate
from lsmerge.merge.record_merger import CommitTime, EventTime
from lsmerge.merge.record_merger_partial import RecordPartialUpdate
from lsmerge.merge.versioned import Versioned
from lsmerge.merge.written import TargetColumns
from lsmerge.merge_mode import COMMIT_TIME, CUSTOM, EVENT_TIME
from lsmerge.options import TableOptions
from lsmerge.schema import TableSchema


class MergeEngine(Protocol):
    """The meaning of several rows with one key, as columnar reductions over a merge plan."""

    @property
    def one_row_per_key(self) -> bool:
        """Whether a run of whole rows never holds two of a key, and a single add resolves to itself."""

    @property
    def newest_row_wins(self) -> bool:
        """Whether a whole row that arrives after all others of its key decides alone what is visible.

        Then `resolve` may be given rows without sequence numbers, ordered by age, and adds without their kinds.
        """

    @property
    def target_columns(self) -> TargetColumns:
        """What becomes of the columns that a row did not write."""

    @property
    def one_add_per_key(self) -> bool:
        """The same of runs that hold no retracts."""

    @property
    def keeps_not_null(self) -> bool:
        """Whether a column that takes no null shows none: not if it may lose its value, or has none that counts."""

    @property
    def order(self) -> RowOrder:
        """How rows of a key are ordered before arrival decides."""

    @property
    def delete_columns(self) -> Sequence[str]:
        """What a delete must say beside the key to have its place among the rows."""

    def lift(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Input rows with system columns, in arrival order, as operands; rows may be dropped.

        All rows of a batch wrote the same columns.
        """

    def compose(self, groups: Groups, *, forget_before: int) -> pa.RecordBatch:
        """Operands with system columns, in key order, several per key where they cannot be shortened.

        Retracts with a sequence number below `forget_before` have met all older rows of their key and may be
        forgotten once nothing older can arrive; 0 keeps them all.
        """

    def resolve(self, groups: Groups, names: Sequence[str]) -> pa.RecordBatch:
        """The visible rows, in key order, with the named columns."""

    def reads(self, names: Sequence[str]) -> Sequence[str]:
        """The columns that resolving `names` looks at."""

    def shows_stored(self, name: str) -> bool:
        """Whether a visible value of the column is always one that a row of its key was stored with, or null.

        Only of such a column do statistics of stored values say something about visible ones.
        """


def merge_engine(schema: TableSchema, options: TableOptions, check: CheckRows) -> MergeEngine:
    """The engine of a table; options that contradict it are refused. `check` is the door of rows that mergers make."""
    if options.record_merge_mode == CUSTOM:
        return Custom(schema, options, check)
    if options.record_merge_mode is not None:
        return _record_merger(schema, options)
    engines: dict[str, Callable[[TableSchema, TableOptions], MergeEngine]] = {
        "deduplicate": Deduplicate,
        "partial-update": PartialUpdate,
        "aggregation": Aggregation,
        "first-row": FirstRow,
        "versioned": Versioned,
    }
    return engines[options.merge_engine](schema, options)


def _record_merger(schema: TableSchema, options: TableOptions) -> MergeEngine:
    """The engine of `record.merge.mode`; without ordering fields event time is commit time."""
    if options.record_merge_partial_mode is not None:
        return RecordPartialUpdate(schema, options)
    is_ordered = bool(EventOrder.of(schema, options).columns)
    engines: dict[str | None, Callable[[TableSchema, TableOptions], MergeEngine]] = {
        COMMIT_TIME: CommitTime,
        EVENT_TIME: EventTime if is_ordered else CommitTime,
    }
    return engines[options.record_merge_mode](schema, options)
