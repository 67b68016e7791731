"""Merging more runs than memory holds blocks of: in passes, through files put aside.

A window needs a block of every run that overlaps it. Where the blocks of all runs of a section do not fit their
share of the budget, neighbours in age are composed into one run each, until they do. Composing changes no answer
(the law of engines), and the runs put aside have small blocks, so that the next pass takes many of them at once.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.engine.run_cache import RunCache
from lsmerge.engine.sections import Section
from lsmerge.merge.written import is_targeted, with_written
from lsmerge.meta.data_file import DataFile
from lsmerge.meta.version import SortedRun
from lsmerge.storage import layout
from lsmerge.storage.run_file import RunFormat, write_run
from lsmerge.storage.scratch import open_scratch

# A run may have two blocks decoded, and the rows merged from them are alive beside them: half of the budget in all.
SHARE_FOR_BLOCKS = 6
# Blocks put aside are this part of the budget, so that as many runs as the share has room for merge in one pass.
BLOCKS_PUT_ASIDE = 64
MIN_BLOCK_BYTES = 16 << 10

Compose: TypeAlias = Callable[[TableContext, Section], Iterator[pa.RecordBatch]]


class _SizedRun(NamedTuple):
    run: SortedRun
    block_bytes: int


def narrow(
    context: TableContext, section: Section, compose: Compose
) -> tuple[TableContext, Section]:
    """The same rows in runs whose blocks fit the budget together, and the context that reads them."""
    room = context.options.scan_memory_budget // SHARE_FOR_BLOCKS
    runs = [_SizedRun(run, _largest_block(context, run)) for run in section.runs]
    # Alone a run with large blocks is given small ones; after that every pass must join at least two.
    at_least = 1
    while len(runs) > at_least and sum(run.block_bytes for run in runs) > room:
        context, runs = _pass(context, list(neighbours(runs, room, at_least)), compose)
        at_least = 2
    return context, Section(tuple(run.run for run in runs), section.span)


def neighbours(runs: Sequence[_SizedRun], room: int, at_least: int) -> Iterator[list[_SizedRun]]:
    """Runs next to each other in age whose blocks fit `room`, and `at_least` so many whether they fit or not."""
    group: list[_SizedRun] = []
    taken = 0
    for run in runs:
        if len(group) >= at_least and taken + run.block_bytes > room:
            yield group
            group, taken = [], 0
        group.append(run)
        taken += run.block_bytes
    yield group


def _pass(
    context: TableContext, groups: Sequence[Sequence[_SizedRun]], compose: Compose
) -> tuple[TableContext, list[_SizedRun]]:
    scratch = open_scratch(context.env)
    aside = replace(context, store=scratch, runs=RunCache(scratch, max_block_bytes=0))
    fmt = _format(context)
    runs = []
    for number, group in enumerate(groups):
        section = Section(tuple(run.run for run in group))
        batches = compose(context, section)
        if any(context.reader(file).is_targeted for file in section.files):
            batches = map(with_written, batches)
        run = _put_aside(aside, section.files[0], number, batches, fmt)
        if run is not None:
            runs.append(_SizedRun(run, fmt.block_size_bytes))
    return aside, runs


def _put_aside(
    aside: TableContext,
    like: DataFile,
    number: int,
    batches: Iterator[pa.RecordBatch],
    fmt: RunFormat,
) -> SortedRun | None:
    """The batches as a run in the place of `like`; None if there are none."""
    first = next(batches, None)
    if first is None:
        return None
    schema = aside.schema.targeted_file_schema if is_targeted(first) else aside.schema.file_schema
    path = aside.bucket_path(like.place, layout.run_name("aside", number, fmt.format))
    rows = ((batch, aside.keys(batch)) for batch in chain([first], batches))
    summary = write_run(aside.store, path, schema, rows, fmt)
    file = DataFile(like.place, like.level, summary, aside.schema.id, like.created_ms)
    return SortedRun(like.level, (file,))


def _largest_block(context: TableContext, run: SortedRun) -> int:
    return max(max(context.reader(file).block_bytes) for file in run.files)


def _format(context: TableContext) -> RunFormat:
    block_bytes = max(MIN_BLOCK_BYTES, context.options.scan_memory_budget // BLOCKS_PUT_ASIDE)
    return RunFormat(
        format="arrow",
        compression="none",
        block_size_bytes=min(block_bytes, context.options.file_block_size),
        filter_bits_per_key=0,
    )
