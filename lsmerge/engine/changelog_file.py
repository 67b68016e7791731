"""Changelog files: rows that say what a snapshot changed, written before it is published."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.failpoints import failpoint
from lsmerge.meta.data_file import BucketId, DataFile, FileKind
from lsmerge.storage import layout
from lsmerge.storage.run_file import write_unsynced


class ChangelogName(NamedTuple):
    """What makes the name of a changelog file unique; drawn by the thread that hands out the work."""

    uid: str
    number: int = 0


class UnsyncedChangelog(NamedTuple):
    """Files whose bytes are written, and what makes them durable: to be called once, by any thread."""

    files: tuple[DataFile, ...]
    sync: Callable[[], None]


def write_changelog(
    context: TableContext,
    place: BucketId,
    level: int,
    name: ChangelogName,
    batches: Iterator[pa.RecordBatch],
) -> tuple[DataFile, ...]:
    """One file in the format of the level where the change happened, none if there are no rows.

    Requires: batches sorted by key within and between.
    """
    changelog = write_unsynced_changelog(context, place, level, name, batches)
    changelog.sync()
    return changelog.files


def write_unsynced_changelog(
    context: TableContext,
    place: BucketId,
    level: int,
    name: ChangelogName,
    batches: Iterator[pa.RecordBatch],
) -> UnsyncedChangelog:
    """The same, but the file is there only after the `sync` of what is returned, which must be called."""
    first = next(batches, None)
    if first is None:
        return UnsyncedChangelog((), lambda: None)
    # Nobody looks for single keys or values in a changelog: it is read whole.
    fmt = replace(
        context.run_format(level),
        block_size_bytes=context.options.file_block_size,
        filter_bits_per_key=0,
        has_bounds=False,
    )
    path = context.bucket_path(place, layout.changelog_name(*name, fmt.format))
    rows = ((batch, context.keys(batch)) for batch in chain([first], batches))
    run = write_unsynced(context.store, path, context.schema.file_schema, rows, fmt)
    failpoint("changelog.after-write")
    summary, now = run.summary, context.env.now_ms()
    context.counters.add(
        changelog_files=1, changelog_rows=summary.num_rows, changelog_bytes=summary.size_bytes
    )
    file = DataFile(place, level, summary, context.schema.id, now, kind=FileKind.CHANGELOG)
    return UnsyncedChangelog((file,), run.sync)
