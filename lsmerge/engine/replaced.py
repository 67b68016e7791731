"""The rows that an overwrite took away, for those who follow the changelog.

An overwrite removes whole partitions, so its removed files hold all rows of their keys, and resolving them gives what
was visible before. Snapshots need not keep these files: they are there as long as the predecessor is.
"""

from collections.abc import Iterator

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.engine.merging import resolved_batches
from lsmerge.engine.schema_views import reading
from lsmerge.engine.sections import Section, split_into_sections
from lsmerge.errors import SnapshotExpiredError, SnapshotNotFoundError
from lsmerge.meta.data_file import DataFile
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.version import place_order, sorted_runs
from lsmerge.rowkind import KIND_COLUMN, RowKind

_DELETE = pa.scalar(int(RowKind.DELETE), pa.int8())


def replaced_rows(
    context: TableContext, snapshot: Snapshot, removed: list[DataFile]
) -> Iterator[pa.RecordBatch]:
    """The rows that were visible in the removed files, each as a delete: a kind column, then the table's."""
    if not removed:
        return
    names = context.schema.column_names
    with reading(context, _predecessor(context, snapshot)):
        for rows in resolved_batches(context, bucket_sections(removed), names):
            yield rows.add_column(0, KIND_COLUMN, pa.repeat(_DELETE, rows.num_rows))


def bucket_sections(files: list[DataFile]) -> Iterator[Section]:
    """The sections of some files, bucket by bucket."""
    for place in sorted({file.place for file in files}, key=place_order):
        runs = sorted_runs([file for file in files if file.place == place])
        yield from split_into_sections(runs)


def _predecessor(context: TableContext, snapshot: Snapshot) -> Snapshot:
    before = snapshot.id - 1
    try:
        return context.snapshots.get(before)
    except SnapshotNotFoundError:
        raise SnapshotExpiredError(
            f"snapshot {snapshot.id} overwrote partitions whose rows have expired with snapshot {before}; "
            f"read the table at snapshot {snapshot.id} and follow from {snapshot.id + 1}"
        ) from None
