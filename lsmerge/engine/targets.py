"""Target columns: the columns that a writer writes, where these are not all.

Refused by name: a list without the whole key, or without a column that orders rows or holds their kind, since such rows
would have no place; tables with NOT NULL columns beside the key, which a new key would leave null; and engines whose
rows are whole.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.engine.ingest import check_targets
from lsmerge.errors import SchemaMismatchError
from lsmerge.merge.written import TargetColumns, bitmap
from lsmerge.schema import WRITTEN_FIELD


def target_columns(context: TableContext, columns: Any) -> tuple[str, ...] | None:
    """The columns that a writer was given, checked; None for whole rows."""
    return None if columns is None else check_targets(columns, context.schema)


def written_by(context: TableContext, targets: Sequence[str] | None) -> bytes | None:
    """The bitmap that rows of these columns carry; None if they carry none."""
    if targets is None or set(targets) == set(context.schema.column_names):
        return None
    if context.engine.target_columns is TargetColumns.REFUSED:
        raise _refused(
            targets,
            f"a {context.options.merge_engine} table takes whole rows only; write all columns",
        )
    if context.schema.is_cross_partition:
        raise _refused(
            targets,
            "the primary key leaves the partition open, and only whole rows can move; write all columns",
        )
    _check_nullable(context, targets)
    if context.engine.target_columns is TargetColumns.AS_NULLS:
        return None
    _check_places(context, targets)
    return bitmap(
        context.schema.column(name).id for name in targets if name not in context.schema.primary_key
    )


def with_targets(batch: pa.RecordBatch, written: bytes | None) -> pa.RecordBatch:
    """Rows with system columns that say what they wrote."""
    if written is None:
        return batch
    return batch.append_column(WRITTEN_FIELD, pa.repeat(pa.scalar(written), batch.num_rows))


def _check_nullable(context: TableContext, targets: Sequence[str]) -> None:
    for column in context.schema.columns:
        if not column.nullable and column.name not in context.schema.primary_key:
            raise _refused(
                targets,
                f"column {column.name!r} is NOT NULL, and a new key would have no value there; "
                "write all columns, or make it nullable",
            )


def _check_places(context: TableContext, targets: Sequence[str]) -> None:
    for name in context.engine.order.columns:
        if name not in targets:
            raise _refused(
                targets, f"they leave out {name!r}, which orders the rows of a key; add it"
            )
    kind = context.options.rowkind_field
    if kind is not None and kind not in targets:
        raise _refused(targets, f"they leave out {kind!r}, which holds the row kind; add it")


def _refused(targets: Sequence[str], reason: str) -> SchemaMismatchError:
    return SchemaMismatchError(f"target columns {list(targets)}: {reason}")
