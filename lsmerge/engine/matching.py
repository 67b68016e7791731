"""The rows of some keys in the files of a bucket, taken out of decoded blocks that a cache keeps.

    files by key range and key filter -> blocks by index -> rows by searches side by side -> one gather a column

All blocks take a few calls of kernels together: what Python does for a block is to find it in the cache.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa

from lsmerge.engine.block_shelf import BlockId
from lsmerge.engine.context import TableContext
from lsmerge.engine.merging import block_at, decode_block, joined
from lsmerge.engine.parallel import ordered_map
from lsmerge.engine.sections import Block
from lsmerge.merge.groups import Source, take_viewed
from lsmerge.meta.data_file import DataFile
from lsmerge.storage.run_file import RunReader
from lsmerge_native.filter import passes_mostly, passing_rows
from lsmerge_native.keys import Keys
from lsmerge_native.lookup import find_rows, touched_blocks
from lsmerge_native.point_rows import PointBlock
from lsmerge_native.reduce import Selection

HASH_BYTES = 8
ROW_BYTES = 4
# Part of the budget for decoded blocks that a look-up holds beside those that the cache keeps.
SHARE_FOR_HELD = 8
# So many keys a block leave few blocks out, whatever the filter says of them.
MANY_KEYS = 16
# As many as kernels tell apart.
MAX_BLOCKS = 65535


class Wanted(NamedTuple):
    """A block of a file and the keys to look for there.

    These are the ones from `start` on of all that are looked for, or of them those at `rows` (uint32).
    """

    file: DataFile
    reader: RunReader
    block: BlockId
    probes: Keys
    start: int
    rows: pa.Buffer | None


def matching_sources(
    context: TableContext,
    files: Iterable[DataFile],
    probes: Keys,
    columns: Sequence[str] | None = None,
) -> list[Source]:
    """The rows of each file whose keys are among the probes. Requires: `probes` sorted and distinct."""
    parts: dict[str, list[Source]] = {}
    for blocks in _portions(context, wanted_blocks(context, files, probes, columns)):
        for file, source in _found(context, blocks):
            parts.setdefault(file.name, []).append(source)
    return [joined(context, of_file) for of_file in parts.values()]


def wanted_blocks(
    context: TableContext,
    files: Iterable[DataFile],
    probes: Keys,
    columns: Sequence[str] | None = None,
) -> Iterator[Wanted]:
    """The blocks that may hold some of the probes, file by file. Requires: `probes` sorted and distinct."""
    hashes = pa.py_buffer(probes.hashes())
    names = tuple(
        context.merge_columns(context.schema.column_names if columns is None else columns)
    )
    return (one for file in files for one in _wanted(context, file, probes, hashes, names))


def cached_block(context: TableContext, block: Block, names: Sequence[str]) -> Source:
    """One block with its keys, decoded now or for an earlier look-up."""
    identity = BlockId(context.file_path(block.file), block.number, context.schema.id, tuple(names))
    source: Source = _kept(context, block, identity).source
    # A file has its base only once it is published; a writer may have looked at it before.
    base = block.file.sequence_base
    return source if source.sequence_base == base else replace(source, sequence_base=base)


def kept_block(context: TableContext, file: DataFile, identity: BlockId) -> PointBlock:
    """One block as the cache has it, decoded now or for an earlier look-up."""
    return _kept(context, block_at(context.reader(file), 0, file, identity.number), identity)


def keep_rows(context: TableContext, file: DataFile, rows: pa.RecordBatch) -> None:
    """Keep for look-ups to come what they would decode.

    Requires: the file has one block, of these rows; all are whole; nobody else changes their memory.
    """
    names = tuple(context.merge_columns(context.schema.column_names))
    identity = BlockId(context.file_path(file), 0, context.schema.id, names)
    batch = rows.select(list(names))
    context.runs.keep(identity, context.source(batch))


def _wanted(
    context: TableContext,
    file: DataFile,
    probes: Keys,
    hashes: pa.Buffer,
    names: tuple[str, ...],
) -> Iterator[Wanted]:
    """The blocks of a file that may hold some of the sorted probes."""
    start = probes.search(file.run.min_key)
    stop = probes.search(file.run.max_key, right=True)
    if start == stop:
        return
    path, reader = context.file_path(file), context.reader(file)
    own = hashes.slice(HASH_BYTES * start, HASH_BYTES * (stop - start))
    in_range = probes.slice(start, stop)
    rows = _passing_filter(reader, in_range, own)
    candidates = in_range if rows is None else in_range.take(rows)
    for number, low, high in touched_blocks(candidates, reader.first_keys, reader.last_keys):
        identity = BlockId(path, number, context.schema.id, names)
        keys = candidates.slice(low, high)
        if rows is None:
            yield Wanted(file, reader, identity, keys, start + low, None)
        else:
            own_rows = rows.slice(ROW_BYTES * low, ROW_BYTES * (high - low))
            yield Wanted(file, reader, identity, keys, start, own_rows)


def _passing_filter(reader: RunReader, probes: Keys, hashes: pa.Buffer) -> pa.Buffer | None:
    """The probes that the file's key filter does not exclude, None for all: if it would exclude too few to matter."""
    key_filter = reader.read_filter()
    if key_filter is None:
        return None
    if len(probes) > MANY_KEYS * reader.num_blocks and passes_mostly(key_filter, hashes):
        return None
    rows = pa.py_buffer(passing_rows(key_filter, hashes))
    return None if rows.size == ROW_BYTES * len(probes) else rows


def _portions(
    context: TableContext, wanted: Iterable[Wanted]
) -> Iterator[list[tuple[Wanted, PointBlock]]]:
    """The blocks, decoded: many at once, but not too many, and of one kind.

    What the cache has takes no more memory for being used here, so only what it lacks is counted: a block that leaves
    the cache meanwhile made room for one that came.
    """
    room = room_for_held(context)
    for _, alike in groupby(wanted, key=lambda one: one.reader.is_targeted):
        held: list[tuple[Wanted, PointBlock | None]] = []
        lacking = 0
        for one in alike:
            known = context.runs.find(one.block)
            held.append((one, known))
            lacking += 0 if known is not None else one.reader.block_bytes[one.block.number]
            if lacking >= room or len(held) == MAX_BLOCKS:
                yield decoded(context, held)
                held, lacking = [], 0
        if held:
            yield decoded(context, held)


def room_for_held(context: TableContext) -> int:
    """Bytes of blocks that the cache may lack when it is asked for blocks to be used at once."""
    return context.options.scan_memory_budget // SHARE_FOR_HELD


def decoded(
    context: TableContext, held: Sequence[tuple[Wanted, PointBlock | None]]
) -> list[tuple[Wanted, PointBlock]]:
    """All the blocks; those that the cache lacks are decoded side by side."""

    def decode(one: Wanted) -> PointBlock:
        return kept_block(context, one.file, one.block)

    missing = ordered_map(decode, [one for one, known in held if known is None])
    return [(one, next(missing) if known is None else known) for one, known in held]


def _found(
    context: TableContext, portion: Sequence[tuple[Wanted, PointBlock]]
) -> Iterator[tuple[DataFile, Source]]:
    """The rows found in some blocks, file by file: taken at once, then cut."""
    blocks = [block for _, block in portion]
    probes = [one.probes for one, _ in portion]
    selection, counts = find_rows([block.source.keys for block in blocks], probes)
    taken, start = _taken(blocks, selection), 0
    for file, count in _counted(portion, counts):
        batch = taken.slice(start, count)
        start += count
        if count:
            yield file, context.source(batch, file.sequence_base)


def _counted(
    portion: Sequence[tuple[Wanted, PointBlock]], counts: Sequence[int]
) -> Iterator[tuple[DataFile, int]]:
    """The files, and how many rows their blocks have together."""
    blocks = zip((one for one, _ in portion), counts, strict=True)
    for _, members in groupby(blocks, key=lambda item: item[0].block.path):
        own = list(members)
        yield own[0][0].file, sum(count for _, count in own)


def _kept(context: TableContext, block: Block, identity: BlockId) -> PointBlock:
    return context.runs.block(identity, lambda: decode_block(context, block, identity.names))


def _taken(blocks: Sequence[PointBlock], selection: Selection) -> pa.RecordBatch:
    """The selected rows of all columns."""
    schema = blocks[0].source.batch.schema
    arrays = [taken_column(blocks, position, selection) for position in range(len(schema))]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def taken_column(blocks: Sequence[PointBlock], position: int, selection: Selection) -> pa.Array:
    """The selected rows of one column."""
    views = [column_view(block, position) for block in blocks]
    return take_viewed(views, blocks[0].source.batch.schema.field(position).type, selection)


def column_view(block: PointBlock, position: int) -> Any:
    """One column of a block, for `take_viewed`."""
    view = block.views[position]
    return block.source.batch.column(position) if view is None else view
