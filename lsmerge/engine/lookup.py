"""Point reads: one sorted, batched pass over the buckets that the keys fall into.

encode and group keys by bucket -> files by key range and key filter -> blocks by index
-> rows by binary search -> the same merge as everywhere
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.engine.defaults import default_values, with_defaults
from lsmerge.engine.key_input import key_batch
from lsmerge.engine.merging import block_at, decode_block, joined
from lsmerge.engine.parallel import ordered_map
from lsmerge.engine.places import find_places
from lsmerge.engine.run_cache import BlockId
from lsmerge.engine.schema_views import reading
from lsmerge.engine.sections import Block
from lsmerge.merge.groups import (
    Groups,
    Source,
    merge_groups,
    row_numbers,
    sort_groups,
    take_rows,
)
from lsmerge.meta.data_file import BucketId, DataFile
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.version import Version
from lsmerge.rowkind import SEQUENCE_COLUMN
from lsmerge_native.filter import passing_rows
from lsmerge_native.keys import Keys
from lsmerge_native.reduce import listed_rows, pick_first

# A system column's name, which no table column can have: while keys are looked up it holds their positions.
POSITION = SEQUENCE_COLUMN
HASH_BYTES = 8
ROW_BYTES = 4
# Part of the budget for decoded blocks that a look-up holds beside those that the cache keeps.
SHARE_FOR_HELD = 8


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
    with reading(context, snapshot):
        return _found(context, snapshot, wanted)


def _found(context: TableContext, snapshot: Snapshot, wanted: pa.RecordBatch) -> pa.Table:
    schema = context.schema.arrow_schema
    version = context.versions.load(snapshot)
    parts = list(find_places(context, version, numbered(wanted)))
    version.preload([place for place, _ in parts])
    found = ordered_map(lambda part: _get_from_bucket(context, version, *part), parts)
    rows = [batch for batch in found if batch is not None]
    if not rows:
        return schema.empty_table()
    table = pa.Table.from_batches(rows).sort_by(POSITION)
    return table.drop_columns(POSITION).cast(schema)


def _python_value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except ValueError:  # nanoseconds that datetime would lose
        return scalar


def numbered(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Keys with their positions, as `merged_rows` takes them."""
    return batch.append_column(POSITION, row_numbers(batch.num_rows))


def _get_from_bucket(
    context: TableContext, version: Version, place: BucketId, wanted: pa.RecordBatch
) -> pa.RecordBatch | None:
    def resolve(groups: Groups) -> pa.RecordBatch:
        rows = context.engine.resolve(groups, context.schema.column_names)
        return with_defaults(rows, default_values(context.schema))

    return merged_rows(context, version.files(place), wanted, resolve)


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
    return _with_positions(rows, context.keys(rows), probes, wanted.column(POSITION))


def matching_sources(
    context: TableContext,
    files: Iterable[DataFile],
    probes: Keys,
    columns: Sequence[str] | None = None,
) -> list[Source]:
    """The rows of each file whose keys are among the probes. Requires: `probes` sorted and distinct."""
    hashes = pa.py_buffer(probes.hashes())
    names = context.merge_columns(context.schema.column_names if columns is None else columns)
    found = (list(_taken(context, _matches(context, f, probes, hashes, names))) for f in files)
    return [joined(context, parts) for parts in found if parts]


def _distinct_in_key_order(context: TableContext, wanted: pa.RecordBatch) -> pa.RecordBatch:
    """A key asked for twice is looked up once: a row met twice would be merged with itself."""
    groups = sort_groups([wanted], context.keys(wanted))
    return groups.take(pick_first(groups.plan), wanted.schema.names)


def _matches(
    context: TableContext, file: DataFile, probes: Keys, hashes: pa.Buffer, names: Sequence[str]
) -> Iterator[tuple[Source, pa.Buffer]]:
    """The blocks of a file that hold some of the sorted probes, and the rows where (uint32)."""
    start = probes.search(file.run.min_key)
    stop = probes.search(file.run.max_key, right=True)
    own = hashes.slice(HASH_BYTES * start, HASH_BYTES * (stop - start))
    candidates = _passing_filter(context, file, probes.slice(start, stop), own)
    if len(candidates) == 0:
        return
    reader = context.runs.reader(context.file_path(file), file.run)
    low, high = candidates.bytes_at(0), candidates.bytes_at(len(candidates) - 1)
    for number in reader.block_range(low, high):
        block = block_at(reader, 0, file, number)
        start = candidates.search(block.first_key)
        here = candidates.slice(start, candidates.search(block.last_key, right=True))
        if len(here):
            source = cached_block(context, block, names)
            rows = pa.py_buffer(source.keys.matching_rows(here))
            if rows.size:
                yield source, rows


def _passing_filter(context: TableContext, file: DataFile, probes: Keys, hashes: pa.Buffer) -> Keys:
    """The probes that the file's key filter does not exclude."""
    if len(probes) == 0:
        return probes
    key_filter = context.runs.reader(context.file_path(file), file.run).read_filter()
    if key_filter is None:
        return probes
    rows = pa.py_buffer(passing_rows(key_filter, hashes))
    return probes if rows.size == ROW_BYTES * len(probes) else probes.take(rows)


def cached_block(context: TableContext, block: Block, names: Sequence[str]) -> Source:
    """One block with its keys, decoded now or for an earlier look-up."""
    key = BlockId(context.file_path(block.file), block.number, context.schema.id, tuple(names))
    source = context.runs.block(
        key,
        lambda: decode_block(context, block, names),
        lambda batch: Source(batch, context.keys(batch), context.order(batch)),
    )
    # A file has its base only once it is published; a writer may have looked at it before.
    base = block.file.sequence_base
    return source if source.sequence_base == base else replace(source, sequence_base=base)


def _taken(context: TableContext, found: Iterator[tuple[Source, pa.Buffer]]) -> Iterator[Source]:
    """The rows found in the blocks of one file, taken from several blocks at once, but not from too many."""
    held: list[tuple[Source, pa.Buffer]] = []
    size, room = 0, context.options.scan_memory_budget // SHARE_FOR_HELD
    for source, rows in found:
        held.append((source, rows))
        size += source.batch.nbytes
        if size >= room:
            yield _gathered(context, held)
            held, size = [], 0
    if held:
        yield _gathered(context, held)


def _gathered(context: TableContext, parts: Sequence[tuple[Source, pa.Buffer]]) -> Source:
    blocks = [source.batch for source, _ in parts]
    selection = listed_rows([rows for _, rows in parts])
    schema = blocks[0].schema
    arrays = [
        take_rows([block.column(position) for block in blocks], selection)
        for position in range(len(schema))
    ]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return Source(batch, context.keys(batch), context.order(batch), parts[0][0].sequence_base)


def _with_positions(
    rows: pa.RecordBatch, keys: Keys, probes: Keys, positions: pa.Array
) -> pa.RecordBatch:
    """Say of each row which of the keys asked for it answers. Requires: `probes` sorted and distinct."""
    starts, _ = probes.match(keys)
    numbers = pa.Array.from_buffers(pa.uint32(), rows.num_rows, [None, pa.py_buffer(starts)])
    return rows.append_column(POSITION, positions.take(numbers))
