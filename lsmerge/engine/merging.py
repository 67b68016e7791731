"""Window by window through the runs of a bucket: decode, order, reduce.

One implementation serves reads, compaction and the changelog; only the reduction at the end differs. Memory is that
of a block per run and of the windows in flight, both within the read budget, never that of the table.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.engine.parallel import IN_FLIGHT, ordered_map
from lsmerge.engine.passes import narrow
from lsmerge.engine.sections import (
    EVERYTHING,
    Block,
    KeyRange,
    KeySpan,
    Section,
    Window,
    cut_into_windows,
)
from lsmerge.engine.value_pruning import NO_FILTER, ValueFilter
from lsmerge.errors import MergeValueError
from lsmerge.merge.groups import (
    Groups,
    Source,
    adds_only,
    merge_groups,
    with_absolute_sequence,
)
from lsmerge.merge.written import is_targeted, with_written
from lsmerge.meta.data_file import DataFile
from lsmerge.meta.version import is_by_age
from lsmerge.options import TableOptions
from lsmerge.rowkind import KIND_COLUMN, SEQUENCE_COLUMN, WRITTEN_COLUMN
from lsmerge.storage.run_file import RunReader
from lsmerge_native.buffers import begin_merge, end_merge
from lsmerge_native.reduce import all_rows

MAX_WINDOW_ROWS = 131_072
# Windows alive at once: those begun and not consumed, and the one in use.
WINDOWS_IN_FLIGHT = IN_FLIGHT + 1
# Of a window, bytes as read, decoded, joined and merged may be alive together, in the half that blocks leave free.
COPIES = 4
SHARE_FOR_WINDOWS = 2
# Memory of blocks that were merged, kept for those to come: touching fresh pages costs more than filling them.
SHARE_FOR_SPARES = 16


Task = Callable[[], pa.RecordBatch]


class RunPart(NamedTuple):
    """The rows that one run has in a window, block by block, and the first of the files that they come from."""

    file: DataFile
    sources: list[Source]


ReadWindow = Callable[[], list[RunPart]]
DecodeBlock = Callable[[TableContext, Block, Sequence[str]], Source]


def resolved_batches(
    context: TableContext,
    sections: Iterable[Section],
    names: Sequence[str],
    wanted: KeyRange = EVERYTHING,
    values: ValueFilter = NO_FILTER,
) -> Iterator[pa.RecordBatch]:
    """The visible rows of the sections, in their order and in key order within each.

    Rows that `values` excludes may be missing.
    """
    return _run(context, _resolve_tasks(context, sections, names, wanted, values))


def composed_batches(
    context: TableContext, sections: Iterable[Section], forget_before: int
) -> Iterator[pa.RecordBatch]:
    """The operands of the sections, in key order, as short as the engine can make them."""
    compose = partial(composed, context, forget_before=forget_before)
    return reduced_batches(context, sections, compose)


def reduced_batches(
    context: TableContext, sections: Iterable[Section], reduce: Callable[[Groups], pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Whatever `reduce` makes of the operands of the sections, window by window, in key order."""
    names = context.schema.file_schema.names
    tasks = (
        task
        for section in sections
        for task in _window_tasks(context, section, names, EVERYTHING, NO_FILTER, reduce)
    )
    return _run(context, tasks)


def composed(context: TableContext, groups: Groups, forget_before: int) -> pa.RecordBatch:
    """The operands of some keys, as short as the engine can make them."""
    try:
        return context.engine.compose(groups, forget_before=forget_before)
    except MergeValueError:
        # Nobody asked for these values yet: the rows stay as they are, and whoever reads the key is told.
        return groups.take_operands(all_rows(groups.plan), context.schema.file_schema.names)


def decode_block(context: TableContext, block: Block, names: Sequence[str]) -> Source:
    """One block with its keys, ready to be merged; with what its rows wrote, if the file says so."""
    reader = context.reader(block.file)
    read = [*names, WRITTEN_COLUMN] if reader.is_targeted else names
    columns = reader.view_block(block.number, context.fields(read))
    return context.source(columns, block.file.sequence_base)


def windows_of(
    context: TableContext,
    section: Section,
    names: Sequence[str],
    wanted: KeyRange = EVERYTHING,
    values: ValueFilter = NO_FILTER,
    share: int = 1,
    decode: DecodeBlock = decode_block,
) -> Iterator[ReadWindow]:
    """A section window by window, in key order; each is read when called, once.

    Windows that `values` excludes are left out. `share` makes windows smaller for who holds so many times the rows of a
    window. `decode` may know blocks already.
    """
    windows = _windows(context, section, wanted, values, share)
    shared = _SharedBlocks(windows, lambda block: decode(context, block, names))
    return iter([partial(_parts, _by_run(window), window.span, shared) for window in windows])


def blocks_of(context: TableContext, section: Section, wanted: KeyRange) -> list[Block]:
    """The blocks of a section that touch the wanted keys."""
    files = ((number, file) for number, run in enumerate(section.runs) for file in run.files)
    opened = ((number, file, context.reader(file)) for number, file in files)
    blocks = (
        block_at(reader, number, file, index)
        for number, file, reader in opened
        for index in range(reader.num_blocks)
    )
    return [
        block
        for block in blocks
        if wanted.touches(block.first_key, block.last_key)
        and section.span.meets(block.first_key, block.last_key)
    ]


def blocks_to_read(
    context: TableContext, section: Section, wanted: KeyRange, values: ValueFilter
) -> list[Block]:
    """The blocks that resolving a section reads, as long as the blocks of all its runs fit the budget."""
    values = _usable(context, section, values)
    if needs_no_merge(context, section):
        blocks = blocks_of(context, section, wanted)
        return [block for block in blocks if not values.excludes(context, [block])]
    windows = _windows(context, section, wanted, values)
    return list({(b.file.name, b.number): b for w in windows for b in w.blocks}.values())


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
    base = parts[0].sequence_base
    if any(part.sequence_base != base for part in parts):
        # Files that were moved up from level 0 keep their own bases.
        parts, base = [with_absolute_sequence(part) for part in parts], 0
    batches = [part.batch for part in parts]
    if any(map(is_targeted, batches)):
        batches = [with_written(batch) for batch in batches]
    return context.source(pa.concat_batches(batches), base)


def _run(context: TableContext, tasks: Iterable[Task]) -> Iterator[pa.RecordBatch]:
    spare = context.options.scan_memory_budget // SHARE_FOR_SPARES
    begin_merge(spare)
    try:
        for batch in ordered_map(lambda task: task(), tasks, windows_in_flight(context)):
            if batch.num_rows:
                yield batch
    finally:
        end_merge(spare)


def windows_in_flight(context: TableContext) -> int:
    """A window has a block at least, so a small budget has room for fewer of them."""
    room = context.options.scan_memory_budget // SHARE_FOR_WINDOWS
    return max(1, min(IN_FLIGHT, room // (COPIES * context.parquet_block_bytes)))


def _resolve_tasks(
    context: TableContext,
    sections: Iterable[Section],
    names: Sequence[str],
    wanted: KeyRange,
    values: ValueFilter,
) -> Iterator[Task]:
    def resolve(groups: Groups) -> pa.RecordBatch:
        return context.engine.resolve(groups, names)

    columns = context.merge_columns(names)
    for section in sections:
        usable = _usable(context, section, values)
        if any(file.run.num_retracts for file in _targeted(context, section)):
            # Whether a retract of some columns leaves anything of its row depends on all the others.
            all_columns = context.merge_columns(context.schema.column_names)
            yield from _window_tasks(context, section, all_columns, wanted, usable, resolve)
        elif needs_no_merge(context, section):
            for block in blocks_to_read(context, section, wanted, usable):
                yield partial(_pass_through, context, block, names, section.span)
        elif not usable.bounds or not usable.excludes(context, blocks_of(context, section, wanted)):
            needed = _needed(context, section, columns, names)
            yield from _window_tasks(context, section, needed, wanted, usable, resolve)


def _needed(
    context: TableContext, section: Section, columns: list[str], names: Sequence[str]
) -> list[str]:
    """The columns to merge where the newest row decides: without what nobody wants and the manifest knows already.

    Sequence numbers say no more than the order of the runs if that is by age, and kinds nothing if all rows are adds.
    """
    if not context.engine.newest_row_wins or _targeted(context, section):
        return columns
    known = {KIND_COLUMN} if not any(file.run.num_retracts for file in section.files) else set()
    if is_by_age(section.runs):
        known.add(SEQUENCE_COLUMN)
    return [name for name in columns if name in names or name not in known]


def _targeted(context: TableContext, section: Section) -> list[DataFile]:
    """The files that say which columns their rows wrote."""
    return [file for file in section.files if context.reader(file).is_targeted]


def _usable(context: TableContext, section: Section, values: ValueFilter) -> ValueFilter:
    """A column that a row did not write is stored as null and shows another value: nothing is known of it."""
    if not values.bounds:
        return values
    if _targeted(context, section):
        return NO_FILTER
    return values.of_unmerged() if needs_no_merge(context, section) else values


def needs_no_merge(context: TableContext, section: Section) -> bool:
    """Whether the adds of a section are the visible rows: a single run, and at most one whole add per key."""
    if len(section.runs) > 1 or _targeted(context, section):
        return False
    engine = context.engine
    has_retracts = any(file.run.num_retracts for file in section.files)
    return engine.one_row_per_key or (engine.one_add_per_key and not has_retracts)


def _window_tasks(
    context: TableContext,
    section: Section,
    names: Sequence[str],
    wanted: KeyRange,
    values: ValueFilter,
    reduce: Callable[[Groups], pa.RecordBatch],
) -> Iterator[Task]:
    context, section = narrowed(context, section)
    is_by_runs = SEQUENCE_COLUMN not in names  # and the newest row decides

    def work(read: ReadWindow) -> pa.RecordBatch:
        # Runs come newest first, as in their section.
        parts = read()[::-1] if is_by_runs else read()
        sources = [source for part in parts for source in part.sources]
        continues = [number > 0 for part in parts for number in range(len(part.sources))]
        return reduce(merge_groups(sources, continues, newest_only=is_by_runs))

    return (partial(work, read) for read in windows_of(context, section, names, wanted, values))


def _windows(
    context: TableContext,
    section: Section,
    wanted: KeyRange,
    values: ValueFilter,
    share: int = 1,
) -> list[Window]:
    """The windows that may hold wanted rows."""
    blocks = blocks_of(context, section, wanted)
    rows = max(1, _window_rows(context, blocks) // share)
    windows = cut_into_windows(blocks, rows, section.span)
    return [window for window in windows if not values.excludes(context, window.blocks)]


def narrowed(context: TableContext, section: Section) -> tuple[TableContext, Section]:
    """The same rows in runs whose blocks fit the budget together, and the context that reads them."""
    return narrow(context, section, _kept_rows)


def _kept_rows(context: TableContext, section: Section) -> Iterator[pa.RecordBatch]:
    """What a pass puts aside. Requires: the blocks of the section fit the budget."""
    return composed_batches(context, [section], forget_before=0)


def _pass_through(
    context: TableContext, block: Block, names: Sequence[str], span: KeySpan
) -> pa.RecordBatch:
    """Rows that no other run overlaps: no plan, and no system columns where the file holds no retract."""
    if _is_cut(block, span):
        source = decode_block(context, block, context.merge_columns(names))
        return adds_only(_clip(source, block, span).batch).select(list(names))
    reader = context.reader(block.file)
    if block.file.run.num_retracts == 0:
        return reader.read_block(block.number, context.fields(names))
    batch = reader.read_block(block.number, context.fields([KIND_COLUMN, *names]))
    return adds_only(batch).select(list(names))


def _by_run(window: Window) -> list[list[Block]]:
    """The blocks of each run, in key order."""
    blocks = sorted(window.blocks, key=lambda block: (block.run, block.first_key, block.number))
    return [list(members) for _, members in groupby(blocks, key=lambda block: block.run)]


def _parts(runs: list[list[Block]], span: KeySpan, shared: "_SharedBlocks") -> list[RunPart]:
    """One part a run: the rows of its blocks that lie in the span."""
    found = []
    for blocks in runs:
        clipped = [_clip(shared.take(block), block, span) for block in blocks]
        clipped = [part for part in clipped if part.num_rows]
        if clipped:
            found.append(RunPart(blocks[0].file, clipped))
    return found


def _is_cut(block: Block, span: KeySpan) -> bool:
    """Whether some keys of the block lie outside the span."""
    return (span.after is not None and block.first_key <= span.after) or (
        span.upto is not None and block.last_key > span.upto
    )


def _clip(source: Source, block: Block, span: KeySpan) -> Source:
    """The rows of a block above `after` and up to `upto`."""
    start, stop = 0, source.num_rows
    if span.after is not None and block.first_key <= span.after:
        start = source.keys.search(span.after, right=True)
    if span.upto is not None and block.last_key > span.upto:
        stop = source.keys.search(span.upto, right=True)
    if (start, stop) == (0, source.num_rows):
        return source
    return source.slice(start, stop)


def _window_rows(context: TableContext, blocks: Sequence[Block]) -> int:
    """Rows a window may have so that all windows in flight stay within the read budget."""
    decoded = sum(block.decoded_bytes for block in blocks)
    return _affordable_rows(context.options, decoded, sum(block.num_rows for block in blocks))


def fits_window(context: TableContext, rows: pa.RecordBatch, share: int) -> bool:
    """Whether rows in memory may be merged at once, by who holds `share` times as many."""
    affordable = _affordable_rows(context.options, rows.nbytes, rows.num_rows) // share
    # A window has a block at least.
    return bool(rows.num_rows <= affordable or rows.nbytes <= context.options.file_block_size)


def _affordable_rows(options: TableOptions, num_bytes: int, num_rows: int) -> int:
    row_bytes = max(1, num_bytes // max(1, num_rows))
    room = options.scan_memory_budget // SHARE_FOR_WINDOWS
    return max(1, min(MAX_WINDOW_ROWS, room // (COPIES * WINDOWS_IN_FLIGHT * row_bytes)))


class _SharedBlocks:
    """Decodes a block once for all windows that share it, and lets go of it after the last one."""

    def __init__(self, windows: Sequence[Window], decode: Callable[[Block], Source]) -> None:
        self._decode = decode
        self._uses = Counter((b.file.name, b.number) for window in windows for b in window.blocks)
        self._shared: dict[tuple[str, int], _SharedBlock] = {}
        self._lock = threading.Lock()

    def take(self, block: Block) -> Source:
        """The decoded block. Requires: each window takes each of its blocks once."""
        identity = (block.file.name, block.number)
        with self._lock:
            self._uses[identity] = left = self._uses[identity] - 1
            shared = self._shared.pop(identity, None) or _SharedBlock()
            if left:
                self._shared[identity] = shared
        # Where decoding fails, whoever waits tries it again, and is told too.
        with shared.lock:
            if shared.source is None:
                shared.source = self._decode(block)
            return shared.source


class _SharedBlock:
    """A block, and who may decode it."""

    __slots__ = ("lock", "source")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.source: Source | None = None
