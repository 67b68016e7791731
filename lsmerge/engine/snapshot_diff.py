"""The difference between any two snapshots, with or without a producer."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lsmerge.engine.changelog_rows import as_changes
from lsmerge.engine.context import TableContext
from lsmerge.engine.difference import BucketStates, changed_rows
from lsmerge.meta.data_file import DataFile
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.version import place_order, sorted_runs


def diff(context: TableContext, before: int, after: int) -> Iterator[pa.RecordBatch]:
    """What turns the table at `before` into the table at `after`; a snapshot that is not there is refused at once."""
    old, new = context.snapshots.get(before), context.snapshots.get(after)
    return as_changes(context, _rows(context, old, new), new)


def _rows(context: TableContext, old: Snapshot, new: Snapshot) -> Iterator[pa.RecordBatch]:
    versions = [context.versions.load(snapshot) for snapshot in (old, new)]
    places = sorted({p for v in versions for p in v.places()}, key=place_order)
    for version in versions:
        version.preload(places)
    key = context.schema.primary_key
    compared = [name for name in context.schema.column_names if name not in key]
    for place in places:
        states = _states(*(version.files(place) for version in versions))
        yield from changed_rows(context, states, compared)


def _states(old: Sequence[DataFile], new: Sequence[DataFile]) -> BucketStates:
    shared = {file.name for file in old} & {file.name for file in new}
    return BucketStates(
        common=[file for file in new if file.name in shared],
        before=sorted_runs([file for file in old if file.name not in shared]),
        after=sorted_runs([file for file in new if file.name not in shared]),
    )
