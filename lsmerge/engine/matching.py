"""The rows of some keys in the files of a bucket, taken out of decoded blocks that a cache keeps.

    files by key range and key filter -> blocks by index -> rows by searches side by side -> one gather a column

A file takes a few calls of kernels, however many blocks it has: all that Python does for a block is to find it in the
cache.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.engine.merging import block_at, decode_block, joined
from lsmerge.engine.parallel import ordered_map
from lsmerge.engine.run_cache import BlockId, KeptBlock
from lsmerge.engine.sections import Block
from lsmerge.merge.groups import Source, gathered, take_rows
from lsmerge.meta.data_file import DataFile
from lsmerge.storage.run_file import RunReader
from lsmerge_native.filter import passes_mostly, passing_rows
from lsmerge_native.keys import Keys
from lsmerge_native.lookup import find_rows, touched_blocks
from lsmerge_native.reduce import Selection

HASH_BYTES = 8
ROW_BYTES = 4
# Part of the budget for decoded blocks that a look-up holds beside those that the cache keeps.
SHARE_FOR_HELD = 8
# So many keys a block leave few blocks out, whatever the filter says of them.
MANY_KEYS = 16

# The keys that may be in a block: its number, and where they are among the keys looked for.
Touched = tuple[int, int, int]


def matching_sources(
    context: TableContext, files: Iterable[DataFile], probes: Keys
) -> list[Source]:
    """The rows of each file whose keys are among the probes. Requires: `probes` sorted and distinct."""
    hashes = pa.py_buffer(probes.hashes())
    found = (list(_rows_of_file(context, file, probes, hashes)) for file in files)
    return [joined(context, parts) for parts in found if parts]


def cached_block(context: TableContext, block: Block, names: Sequence[str]) -> Source:
    """One block with its keys, decoded now or for an earlier look-up."""
    identity = BlockId(context.file_path(block.file), block.number, context.schema.id, tuple(names))
    source = _kept(context, block, identity).source
    # A file has its base only once it is published; a writer may have looked at it before.
    base = block.file.sequence_base
    return source if source.sequence_base == base else replace(source, sequence_base=base)


def keep_rows(context: TableContext, file: DataFile, rows: pa.RecordBatch) -> None:
    """Keep for look-ups to come what they would decode.

    Requires: the file has one block, of these rows; all are whole; nobody else changes their memory.
    """
    names = tuple(context.merge_columns(context.schema.column_names))
    identity = BlockId(context.file_path(file), 0, context.schema.id, names)
    batch = rows.select(list(names))
    context.runs.keep(identity, Source(batch, context.keys(batch), context.order(batch)))


def _rows_of_file(
    context: TableContext, file: DataFile, probes: Keys, hashes: pa.Buffer
) -> Iterator[Source]:
    """The rows of the sorted probes in one file, in key order."""
    start = probes.search(file.run.min_key)
    stop = probes.search(file.run.max_key, right=True)
    if start == stop:
        return
    reader = context.runs.reader(context.file_path(file), file.run)
    own = hashes.slice(HASH_BYTES * start, HASH_BYTES * (stop - start))
    candidates = _passing_filter(reader, probes.slice(start, stop), own)
    touched = touched_blocks(candidates, reader.first_keys, reader.last_keys)
    for blocks, ranges in _portions(context, file, reader, touched):
        selection = find_rows([block.source.keys for block in blocks], candidates, ranges)
        if len(selection):
            batch = _taken(blocks, selection)
            keys, order = context.keys(batch), context.order(batch)
            yield Source(batch, keys, order, file.sequence_base)


def _passing_filter(reader: RunReader, probes: Keys, hashes: pa.Buffer) -> Keys:
    """The probes that the file's key filter does not exclude, or all if it would exclude too few to matter."""
    key_filter = reader.read_filter()
    if key_filter is None:
        return probes
    if len(probes) > MANY_KEYS * reader.num_blocks and passes_mostly(key_filter, hashes):
        return probes
    rows = pa.py_buffer(passing_rows(key_filter, hashes))
    return probes if rows.size == ROW_BYTES * len(probes) else probes.take(rows)


def _portions(
    context: TableContext, file: DataFile, reader: RunReader, touched: Sequence[Touched]
) -> Iterator[tuple[list[KeptBlock], list[tuple[int, int]]]]:
    """The blocks of a file and the keys to look for in each: many blocks at once, but not too many.

    What the cache has takes no more memory for being used here, so only what it lacks is counted: a block that leaves
    the cache meanwhile made room for one that came.
    """
    path, names = context.file_path(file), tuple(context.merge_columns(context.schema.column_names))
    room = context.options.scan_memory_budget // SHARE_FOR_HELD
    held: list[tuple[BlockId, KeptBlock | None]] = []
    ranges: list[tuple[int, int]] = []
    lacking = 0
    for number, start, stop in touched:
        identity = BlockId(path, number, context.schema.id, names)
        known = context.runs.find(identity)
        held.append((identity, known))
        ranges.append((start, stop))
        lacking += 0 if known is not None else reader.block_bytes[number]
        if lacking >= room:
            yield _decoded(context, file, reader, held), ranges
            held, ranges, lacking = [], [], 0
    if held:
        yield _decoded(context, file, reader, held), ranges


def _decoded(
    context: TableContext,
    file: DataFile,
    reader: RunReader,
    held: Sequence[tuple[BlockId, KeptBlock | None]],
) -> list[KeptBlock]:
    """All the blocks; those that the cache lacks are decoded side by side."""

    def decode(identity: BlockId) -> KeptBlock:
        return _kept(context, block_at(reader, 0, file, identity.number), identity)

    decoded = ordered_map(decode, [identity for identity, known in held if known is None])
    return [next(decoded) if known is None else known for _, known in held]


def _kept(context: TableContext, block: Block, identity: BlockId) -> KeptBlock:
    return context.runs.block(
        identity,
        lambda: decode_block(context, block, identity.names),
        lambda batch: Source(batch, context.keys(batch), context.order(batch)),
    )


def _taken(blocks: Sequence[KeptBlock], selection: Selection) -> pa.RecordBatch:
    """The selected rows of all columns."""
    schema = blocks[0].source.batch.schema

    def take(position: int) -> pa.Array:
        if blocks[0].views[position] is None:
            return take_rows([block.source.batch.column(position) for block in blocks], selection)
        views = [block.views[position] for block in blocks]
        return gathered(views, schema.field(position).type, selection)

    return pa.RecordBatch.from_arrays([take(i) for i in range(len(schema))], schema=schema)
