"""Window by window through the runs of a bucket: decode, order, reduce.

One implementation serves reads, compaction and the changelog; only the reduction at the end differs. Memory is that
of the windows in flight, never that of the table.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import groupby

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.engine.parallel import ordered_map
from lsmerge.engine.sections import (
    EVERYTHING,
    Block,
    KeyRange,
    Section,
    Window,
    cut_into_windows,
)
from lsmerge.env import CORES
from lsmerge.errors import MergeValueError
from lsmerge.merge.groups import Groups, Source, adds_only, merge_groups
from lsmerge.meta.data_file import DataFile
from lsmerge.rowkind import KIND_COLUMN
from lsmerge.storage.run_file import RunReader
from lsmerge_native.reduce import all_rows

MAX_WINDOW_ROWS = 131_072
# Windows under way at once: one per core, and as many finished ones waiting to be consumed.
WINDOWS_IN_FLIGHT = 2 * CORES + 1
# Of a window, bytes as read, decoded, joined and merged may be alive together.
COPIES = 4


Task = Callable[[], pa.RecordBatch]


def resolved_batches(
    context: TableContext,
    sections: Iterable[Section],
    names: Sequence[str],
    wanted: KeyRange = EVERYTHING,
) -> Iterator[pa.RecordBatch]:
    """The visible rows of the sections, in their order and in key order within each."""
    yield from _run(_resolve_tasks(context, sections, names, wanted))


def composed_batches(
    context: TableContext, sections: Iterable[Section], forget_before: int
) -> Iterator[pa.RecordBatch]:
    """The operands of the sections, in key order, as short as the engine can make them."""
    names = context.schema.file_schema.names

    def compose(groups: Groups) -> pa.RecordBatch:
        return composed(context, groups, forget_before)

    tasks = (
        task
        for section in sections
        for task in _window_tasks(context, section, names, EVERYTHING, compose)
    )
    yield from _run(tasks)


def composed(context: TableContext, groups: Groups, forget_before: int) -> pa.RecordBatch:
    """The operands of some keys, as short as the engine can make them."""
    try:
        return context.engine.compose(groups, forget_before=forget_before)
    except MergeValueError:
        # Nobody asked for these values yet: the rows stay as they are, and whoever reads the key is told.
        return groups.take(all_rows(groups.plan), context.schema.file_schema.names)


def decode_block(context: TableContext, block: Block, names: Sequence[str]) -> Source:
    """One block with its keys, ready to be merged."""
    batch = _reader(context, block.file).read_block(block.number, context.fields(names))
    return Source(batch, context.keys(batch), context.order(batch), block.file.sequence_base)


def blocks_of(context: TableContext, section: Section, wanted: KeyRange) -> list[Block]:
    """The blocks of a section that touch the wanted keys."""
    blocks = (
        block_at(_reader(context, file), number, file, index)
        for number, run in enumerate(section.runs)
        for file in run.files
        for index in range(_reader(context, file).num_blocks)
    )
    return [block for block in blocks if wanted.touches(block.first_key, block.last_key)]


def block_at(reader: RunReader, run: int, file: DataFile, index: int) -> Block:
    """What the file's index says of one block."""
    return Block(
        run,
        file,
        index,
        reader.first_key(index),
        reader.last_key(index),
        reader.block_rows[index],
        reader.block_bytes[index],
    )


def joined(context: TableContext, parts: list[Source]) -> Source:
    """Parts of one run, in key order, as one source."""
    if len(parts) == 1:
        return parts[0]
    # Files of one run may have different bases only at level 0, where a run is one file.
    batch = pa.concat_batches([part.batch for part in parts])
    return Source(batch, context.keys(batch), context.order(batch), parts[0].sequence_base)


def _run(tasks: Iterable[Task]) -> Iterator[pa.RecordBatch]:
    return (batch for batch in ordered_map(lambda task: task(), tasks) if batch.num_rows)


def _resolve_tasks(
    context: TableContext, sections: Iterable[Section], names: Sequence[str], wanted: KeyRange
) -> Iterator[Task]:
    def resolve(groups: Groups) -> pa.RecordBatch:
        return context.engine.resolve(groups, names)

    columns = context.merge_columns(names)
    for section in sections:
        if len(section.runs) == 1 and context.engine.one_row_per_key:
            for block in blocks_of(context, section, wanted):
                yield partial(_pass_through, context, block, names)
        else:
            yield from _window_tasks(context, section, columns, wanted, resolve)


def _window_tasks(
    context: TableContext,
    section: Section,
    names: Sequence[str],
    wanted: KeyRange,
    reduce: Callable[[Groups], pa.RecordBatch],
) -> Iterator[Task]:
    blocks = blocks_of(context, section, wanted)
    windows = cut_into_windows(blocks, _window_rows(context, blocks))
    shared = _SharedBlocks(windows, lambda block: decode_block(context, block, names))

    def work(window: Window) -> pa.RecordBatch:
        return reduce(merge_groups(_sources(context, window, shared)))

    return (partial(work, window) for window in windows)


def _pass_through(context: TableContext, block: Block, names: Sequence[str]) -> pa.RecordBatch:
    """Rows that no other run overlaps: no plan, and no system columns where the file holds no retract."""
    reader = _reader(context, block.file)
    if block.file.run.num_retracts == 0:
        return reader.read_block(block.number, context.fields(names))
    batch = reader.read_block(block.number, context.fields([KIND_COLUMN, *names]))
    return adds_only(batch).select(list(names))


def _sources(context: TableContext, window: Window, shared: "_SharedBlocks") -> list[Source]:
    """One source a run: the window's part of its blocks."""
    blocks = sorted(window.blocks, key=lambda block: (block.run, block.first_key, block.number))
    sources = []
    for _, members in groupby(blocks, key=lambda block: block.run):
        parts = [_clip(shared.take(block), block, window) for block in members]
        parts = [part for part in parts if part.batch.num_rows]
        if parts:
            sources.append(joined(context, parts))
    return sources


def _clip(source: Source, block: Block, window: Window) -> Source:
    """The rows of a block above `after` and up to `upto`."""
    start, stop = 0, source.batch.num_rows
    if window.after is not None and block.first_key <= window.after:
        start = source.keys.search(window.after, right=True)
    if window.upto is not None and block.last_key > window.upto:
        stop = source.keys.search(window.upto, right=True)
    if (start, stop) == (0, source.batch.num_rows):
        return source
    order = None if source.order is None else source.order.slice(start, stop)
    batch = source.batch.slice(start, stop - start)
    return Source(batch, source.keys.slice(start, stop), order, source.sequence_base)


def _window_rows(context: TableContext, blocks: Sequence[Block]) -> int:
    """Rows a window may have so that all windows in flight stay within the read budget."""
    decoded = sum(block.decoded_bytes for block in blocks)
    row_bytes = max(1, decoded // max(1, sum(block.num_rows for block in blocks)))
    affordable = context.options.scan_memory_budget // (COPIES * WINDOWS_IN_FLIGHT * row_bytes)
    return max(1, min(MAX_WINDOW_ROWS, affordable))


def _reader(context: TableContext, file: DataFile) -> RunReader:
    return context.runs.reader(context.file_path(file), file.run)


class _SharedBlocks:
    """Decodes a block once for all windows that share it, and lets go of it after the last one."""

    def __init__(self, windows: Sequence[Window], decode: Callable[[Block], Source]) -> None:
        self._decode = decode
        self._uses = Counter((b.file.name, b.number) for window in windows for b in window.blocks)
        self._decoded: dict[tuple[str, int], Future[Source]] = {}
        self._lock = threading.Lock()

    def take(self, block: Block) -> Source:
        """The decoded block. Requires: each window takes each of its blocks once."""
        identity = (block.file.name, block.number)
        with self._lock:
            future = self._decoded.get(identity)
            is_first = future is None
            if future is None:
                future = self._decoded[identity] = Future()
            self._uses[identity] -= 1
            if self._uses[identity] == 0:
                del self._decoded[identity]
        if is_first:
            self._fulfil(future, block)
        return future.result()

    def _fulfil(self, future: "Future[Source]", block: Block) -> None:
        try:
            future.set_result(self._decode(block))
        except BaseException as error:
            # Whoever waits for the same block must fail too, not wait for ever.
            future.set_exception(error)
            raise
