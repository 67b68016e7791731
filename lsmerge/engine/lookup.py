"""Point reads: of one key (point_reads.py), and of many in one sorted, batched pass over the buckets they fall into.

encode and group keys by bucket -> the rows of these keys in each file (matching.py) -> the same merge as everywhere
"""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.engine.defaults import default_values, with_defaults
from lsmerge.engine.key_input import key_batch
from lsmerge.engine.matching import matching_sources
from lsmerge.engine.newest import find_newest
from lsmerge.engine.parallel import ordered_map
from lsmerge.engine.places import find_places
from lsmerge.engine.point_cache import PointReads, VersionId
from lsmerge.engine.point_reads import VersionReads
from lsmerge.engine.schema_views import reading
from lsmerge.merge.groups import Groups, merge_groups, row_numbers, sort_groups
from lsmerge.meta.data_file import BucketId, DataFile
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.version import Version
from lsmerge.rowkind import SEQUENCE_COLUMN
from lsmerge_native.reduce import pick_first
from lsmerge_native.watch import DirectoryWatch

# A system column's name, which no table column can have: while keys are looked up it holds their positions.
POSITION = SEQUENCE_COLUMN
# So many are looked up one by one: plans and arrays of keys would cost more than they save.
FEW_KEYS = 256


def get(context: TableContext, snapshot: Snapshot | None, key: Any) -> dict[str, Any] | None:
    """The visible row of one key as Python values."""
    if snapshot is None:
        key_batch(context.schema, [key])
        return None
    return _version(context, snapshot).get(key)


def note_newest(context: TableContext, snapshot: Snapshot, since: DirectoryWatch | None) -> None:
    """The snapshot was the newest after `since` began: point reads to come need not look which one is."""
    if since is not None:
        context.points.note_newest(snapshot, _version(context, snapshot), since)


def _version(context: TableContext, snapshot: Snapshot) -> PointReads:
    identity = VersionId(snapshot.commit_uuid, context.schema.id)
    return context.points.version(identity, lambda: _reads(context, snapshot))


def _reads(context: TableContext, snapshot: Snapshot) -> VersionReads:
    with reading(context, snapshot):
        return VersionReads(context, snapshot)


def get_many(context: TableContext, snapshot: Snapshot | None, keys: Any) -> pa.Table:
    """The visible rows of the given keys, in the order asked; keys without a row are left out."""
    if snapshot is not None and isinstance(keys, list) and len(keys) <= FEW_KEYS:
        few = _version(context, snapshot).get_few(keys)
        if few is not None:
            context.counters.add(keys_looked_up=len(keys), rows_found=few.num_rows)
            return few
    wanted = key_batch(context.schema, keys)
    if snapshot is None or wanted.num_rows == 0:
        return context.read_schema.empty_table()
    with reading(context, snapshot):
        rows = _found(context, snapshot, wanted)
    context.counters.add(keys_looked_up=wanted.num_rows, rows_found=rows.num_rows)
    return rows


def _found(context: TableContext, snapshot: Snapshot, wanted: pa.RecordBatch) -> pa.Table:
    schema = context.read_schema
    version = context.versions.load(snapshot)
    parts = list(find_places(context, version, numbered(wanted)))
    version.preload([place for place, _ in parts])
    found = ordered_map(lambda part: _get_from_bucket(context, version, *part), parts)
    rows = [batch for batch in found if batch is not None]
    if not rows:
        return schema.empty_table()
    table = pa.Table.from_batches(rows).sort_by(POSITION)
    return table.drop_columns(POSITION).cast(schema)


def numbered(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Keys with their positions, as `merged_rows` takes them."""
    return batch.append_column(POSITION, row_numbers(batch.num_rows))


def _get_from_bucket(
    context: TableContext, version: Version, place: BucketId, wanted: pa.RecordBatch
) -> pa.RecordBatch | None:
    schema, files = context.schema, version.files(place)
    distinct = _distinct_in_key_order(context, wanted)
    newest = find_newest(context, files, context.keys(distinct))
    if newest is not None:
        positions = distinct.column(POSITION)
        rows = _with_positions(newest.take(schema.row_schema), newest.keys, positions)
    else:
        rows = merged_rows(
            context,
            files,
            distinct,
            lambda groups: context.engine.resolve(groups, schema.column_names),
        )
    return None if rows is None else with_defaults(rows, default_values(schema))


def merged_rows(
    context: TableContext,
    files: Sequence[DataFile],
    wanted: pa.RecordBatch,
    reduce: Callable[[Groups], pa.RecordBatch],
    columns: Sequence[str] | None = None,
) -> pa.RecordBatch | None:
    """What `reduce` makes of the rows with the wanted keys in the files of one bucket; None if there are none.

    Each row says in the column `POSITION` which of the keys, as numbered, it belongs to. `columns` is what `reduce`
    asks for, if not all; blocks are kept with the columns they were read for.
    """
    wanted = _distinct_in_key_order(context, wanted)
    probes = context.keys(wanted)
    sources = matching_sources(context, files, probes, columns)
    if not sources:
        return None
    rows = reduce(merge_groups(sources))
    numbers, _ = probes.match(context.keys(rows))
    return _with_positions(rows, pa.py_buffer(numbers), wanted.column(POSITION))


def _distinct_in_key_order(context: TableContext, wanted: pa.RecordBatch) -> pa.RecordBatch:
    """A key asked for twice is looked up once: a row met twice would be merged with itself."""
    groups = sort_groups([wanted], context.keys(wanted))
    return groups.take(pick_first(groups.plan), wanted.schema.names)


def _with_positions(
    rows: pa.RecordBatch, numbers: pa.Buffer, positions: pa.Array
) -> pa.RecordBatch:
    """Say of each row which of the keys asked for it answers: `numbers` (uint32) of those whose positions are given."""
    numbered_keys = pa.Array.from_buffers(pa.uint32(), rows.num_rows, [None, numbers])
    return rows.append_column(POSITION, positions.take(numbered_keys))
