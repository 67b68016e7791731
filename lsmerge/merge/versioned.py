"""Versioned: the row with the greatest version stays; of equal versions the later arrival.

    a.v5.1  a.v3.2  a.v5.3      ->  a.v5.3
    b.null.1  b.null.2          ->  b.null.1, since a null version never updates

Composing keeps the winner of the rows at hand. The winner among null versions is the first, and loses to any version.
"""

from collections.abc import Sequence

import pyarrow as pa

from lsmerge.errors import InvalidOptionError
from lsmerge.merge.door import Retracts, admit, retracts_of
from lsmerge.merge.groups import Groups, take_rows
from lsmerge.merge.order import RowOrder
from lsmerge.merge.written import TargetColumns
from lsmerge.options import TableOptions
from lsmerge.schema import TableSchema
from lsmerge_native.reduce import pick_first, pick_last

VERSION_OPTION = "merge-engine.versioned.ver-column"
VERSION_KINDS = ("INT", "BIGINT", "TIMESTAMP", "TIMESTAMP_LTZ")


class Versioned:
    """The engine of `merge-engine` = versioned."""

    one_row_per_key = True
    newest_row_wins = False
    one_add_per_key = True
    keeps_not_null = True
    target_columns = TargetColumns.REFUSED

    def __init__(self, schema: TableSchema, options: TableOptions) -> None:
        self._version = _version_column(schema, options)
        self._columns = schema.file_schema.names
        self._retracts = retracts_of(options, Retracts.DROP)

    @property
    def order(self) -> RowOrder:
        return RowOrder((self._version,))

    @property
    def delete_columns(self) -> Sequence[str]:
        return self.order.columns

    def lift(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return admit(batch, self._retracts, "versioned")

    def compose(self, groups: Groups, *, forget_before: int) -> pa.RecordBatch:  # noqa: ARG002
        return self._winners(groups, self._columns)

    def resolve(self, groups: Groups, names: Sequence[str]) -> pa.RecordBatch:
        return self._winners(groups, names)

    def reads(self, names: Sequence[str]) -> Sequence[str]:
        return names

    def shows_stored(self, name: str) -> bool:
        return name in self._columns

    def _winners(self, groups: Groups, names: Sequence[str]) -> pa.RecordBatch:
        last = pick_last(groups.plan)
        rows = groups.take(last, names)
        unversioned = take_rows(groups.column(self._version), last).is_null()
        if not unversioned.true_count:
            return rows
        firsts = groups.take(pick_first(groups.plan), names)
        return _choose(unversioned, firsts, rows)


def _choose(mask: pa.Array, yes: pa.RecordBatch, no: pa.RecordBatch) -> pa.RecordBatch:
    """Row by row from one of two batches."""
    import pyarrow.compute as pc

    from_no = pc.indices_nonzero(pc.invert(mask))
    from_yes = pc.indices_nonzero(mask)
    places = pa.concat_arrays([from_no, from_yes])
    both = pa.concat_batches([no.take(from_no), yes.take(from_yes)])
    return both.take(pc.array_sort_indices(places))


def _version_column(schema: TableSchema, options: TableOptions) -> str:
    name = options.merge_engine_versioned_ver_column
    if name is None:
        raise InvalidOptionError(f"merge-engine=versioned needs the option {VERSION_OPTION!r}")
    if options.sequence_field:
        raise InvalidOptionError(
            f"option 'sequence.field' contradicts merge-engine=versioned, which orders by {name!r}"
        )
    if options.delete_behavior == "allow":
        raise InvalidOptionError(
            "option 'delete.behavior' = 'allow' contradicts merge-engine=versioned: use ignore or disable"
        )
    if name not in schema:
        raise InvalidOptionError(f"option {VERSION_OPTION!r} = {name!r}: no such column")
    logical = schema.column(name).type
    if logical.kind not in VERSION_KINDS:
        raise InvalidOptionError(
            f"option {VERSION_OPTION!r} = {name!r}: type {logical} cannot be a version; "
            f"accepted: {', '.join(VERSION_KINDS)}"
        )
    return name
