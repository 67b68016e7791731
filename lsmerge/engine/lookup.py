"""Point reads: one sorted, batched pass over the buckets that the keys fall into.

encode and group keys by bucket -> files by key range and key filter -> blocks by index
-> rows by binary search -> the same merge as everywhere
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from lsmerge.engine.bucket_counts import BucketCounts
from lsmerge.engine.buckets import split_by_bucket
from lsmerge.engine.context import TableContext
from lsmerge.engine.defaults import default_values, with_defaults
from lsmerge.engine.key_input import key_batch
from lsmerge.engine.merging import block_at, decode_block, joined
from lsmerge.engine.parallel import ordered_map
from lsmerge.engine.sections import Block
from lsmerge.merge.groups import Source, merge_groups, row_numbers, sort_groups
from lsmerge.meta.data_file import BucketId, DataFile
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.version import Version
from lsmerge.rowkind import SEQUENCE_COLUMN
from lsmerge_native.filter import probe_filter
from lsmerge_native.keys import Keys
from lsmerge_native.reduce import pick_first

# A system column's name, which no table column can have: while keys are looked up it holds their positions.
_POSITION = SEQUENCE_COLUMN


def get(context: TableContext, snapshot: Snapshot | None, key: Any) -> dict[str, Any] | None:
    """The visible row of one key as Python values."""
    rows = get_many(context, snapshot, [key])
    if rows.num_rows == 0:
        return None
    return {name: _python_value(rows[name][0]) for name in rows.column_names}


def get_many(context: TableContext, snapshot: Snapshot | None, keys: Any) -> pa.Table:
    """The visible rows of the given keys, in the order asked; keys without a row are left out."""
    schema = context.schema.arrow_schema
    wanted = key_batch(context.schema, keys)
    if snapshot is None or wanted.num_rows == 0:
        return schema.empty_table()
    version = context.versions.load(snapshot)
    counts = BucketCounts(context, snapshot)
    rows = _numbered(wanted)
    parts = list(split_by_bucket(context.schema, context.options, rows, counts.of))
    version.preload([place for place, _ in parts])
    found = ordered_map(lambda part: _get_from_bucket(context, version, *part), parts)
    batches = [batch for batch in found if batch is not None]
    if not batches:
        return schema.empty_table()
    table = pa.Table.from_batches(batches).sort_by(_POSITION)
    return table.drop_columns(_POSITION).cast(schema)


def _python_value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except ValueError:  # nanoseconds that datetime would lose
        return scalar


def _numbered(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.append_column(_POSITION, row_numbers(batch.num_rows))


def _get_from_bucket(
    context: TableContext, version: Version, place: BucketId, wanted: pa.RecordBatch
) -> pa.RecordBatch | None:
    wanted = _distinct_in_key_order(context, wanted)
    probes = context.keys(wanted)
    files = [file for run in version.runs(place) for file in run.files]
    found = (list(_matches(context, file, probes)) for file in files)
    sources = [joined(context, parts) for parts in found if parts]
    if not sources:
        return None
    merged = context.engine.resolve(merge_groups(sources), context.schema.column_names)
    rows = with_defaults(merged, default_values(context.schema))
    return _with_positions(rows, context.keys(rows), probes, wanted.column(_POSITION))


def _distinct_in_key_order(context: TableContext, wanted: pa.RecordBatch) -> pa.RecordBatch:
    """A key asked for twice is looked up once: a row met twice would be merged with itself."""
    groups = sort_groups([wanted], context.keys(wanted))
    return groups.take(pick_first(groups.plan), wanted.schema.names)


def _matches(context: TableContext, file: DataFile, probes: Keys) -> Iterator[Source]:
    """The rows of a file whose keys are among the sorted probes."""
    start = probes.search(file.run.min_key)
    stop = probes.search(file.run.max_key, right=True)
    candidates = _passing_filter(context, file, probes.slice(start, stop))
    if len(candidates) == 0:
        return
    reader = context.runs.reader(context.file_path(file), file.run)
    names = tuple(context.merge_columns(context.schema.column_names))
    low, high = candidates.bytes_at(0), candidates.bytes_at(len(candidates) - 1)
    for number in reader.block_range(low, high):
        block = block_at(reader, 0, file, number)
        start = candidates.search(block.first_key)
        here = candidates.slice(start, candidates.search(block.last_key, right=True))
        if len(here):
            yield from _matching_rows(_cached_block(context, block, names), here)


def _passing_filter(context: TableContext, file: DataFile, probes: Keys) -> Keys:
    """The probes that the file's key filter does not exclude."""
    if len(probes) == 0:
        return probes
    key_filter = context.runs.reader(context.file_path(file), file.run).read_filter()
    if key_filter is None:
        return probes
    mask = pa.py_buffer(probe_filter(key_filter, probes.hashes()))
    hits = pa.Array.from_buffers(pa.uint8(), len(probes), [None, mask]).cast(pa.bool_())
    if hits.false_count == 0:
        return probes
    import pyarrow.compute as pc

    rows = pc.indices_nonzero(hits).cast(pa.uint32())
    return probes.take(rows.buffers()[1])


def _cached_block(context: TableContext, block: Block, names: tuple[str, ...]) -> Source:
    path = context.file_path(block.file)
    return context.runs.block(
        path, block.number, names, lambda: decode_block(context, block, names)
    )


def _matching_rows(block: Source, probes: Keys) -> Iterator[Source]:
    buffer = pa.py_buffer(block.keys.matching_rows(probes))
    if buffer.size == 0:
        return
    indices = pa.Array.from_buffers(pa.uint32(), buffer.size // 4, [None, buffer])
    order = None if block.order is None else block.order.take(buffer)
    yield Source(block.batch.take(indices), block.keys.take(buffer), order, block.sequence_base)


def _with_positions(
    rows: pa.RecordBatch, keys: Keys, probes: Keys, positions: pa.Array
) -> pa.RecordBatch:
    """Say of each row which of the keys asked for it answers. Requires: `probes` sorted and distinct."""
    starts, _ = probes.match(keys)
    numbers = pa.Array.from_buffers(pa.uint32(), rows.num_rows, [None, pa.py_buffer(starts)])
    return rows.append_column(_POSITION, positions.take(numbers))
