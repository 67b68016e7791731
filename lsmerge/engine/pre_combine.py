"""Combining the rows of one commit with each other before they meet older ones (`record.merge.combine-before-upsert`).

A bucket whose rows fit the writer's buffer is combined as it is written. One that was spilled has several runs of
operands, which are merged into one when the writer commits: what a commit says must not depend on the size of a buffer.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.engine.merging import reduced_batches
from lsmerge.engine.sections import split_into_sections
from lsmerge.merge.groups import Groups
from lsmerge.merge.record_merger_partial import RecordPartialUpdate
from lsmerge.meta.data_file import DataFile
from lsmerge.meta.version import sorted_runs

Combine: TypeAlias = Callable[[Groups], pa.RecordBatch]


def commit_combiner(context: TableContext) -> Combine | None:
    """What combines the rows of a commit, None for tables that do not ask for it."""
    engine = context.engine
    if not isinstance(engine, RecordPartialUpdate):
        return None
    return engine.combine if context.options.record_merge_combine_before_upsert else None


def combined_runs(
    context: TableContext, runs: Sequence[DataFile], combine: Combine
) -> Iterator[pa.RecordBatch]:
    """The rows of one bucket's runs, given oldest first and not yet committed, as one run."""
    based, base = [], 0
    for file in runs:
        based.append(file.based_at(base))
        base += file.run.sequence_max + 1
    return reduced_batches(context, split_into_sections(sorted_runs(based)), combine)
