"""Level-0 files whose rows turn out to belong to other buckets only when they, or those buckets, come to be published.

A file's rows keep their arrival offsets, so their order is the one in which they were written; nothing is merged.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lsmerge.engine.buckets import related_buckets, split_by_hash
from lsmerge.engine.context import TableContext
from lsmerge.engine.redistribute import Split, Target, redistribute
from lsmerge.engine.run_output import discard
from lsmerge.meta.data_file import DataFile
from lsmerge.storage.run_file import open_run


def resplit(context: TableContext, file: DataFile, count: int) -> tuple[DataFile, ...]:
    """The rows of a level-0 file in files of its partition split into `count` buckets. The file stays.

    Ensures: published in this order, the files have the effect of the one. The committer gives them sequence bases.
    """
    # A count of 0 is not known; its rows may go anywhere.
    buckets = related_buckets(file.place.bucket, file.num_buckets or 1, count)
    return place_anew(
        context,
        file,
        Target(file.place.partition, buckets, level=0, num_buckets=count),
        lambda batch: split_by_hash(context.schema, context.options, batch, count),
    )


def place_anew(
    context: TableContext, file: DataFile, target: Target, split: Split
) -> tuple[DataFile, ...]:
    """The rows of a level-0 file in files of the buckets that `split` says. The file stays."""
    return redistribute(context, target, lambda: _blocks(context, file), split)


def resplit_all(
    context: TableContext, files: Sequence[tuple[DataFile, int]]
) -> list[tuple[DataFile, tuple[DataFile, ...]]]:
    """Each file with what it becomes, resplit into its count; if one fails, nothing of the others stays."""
    made: list[tuple[DataFile, tuple[DataFile, ...]]] = []
    try:
        for file, count in files:
            made.append((file, resplit(context, file, count)))
    except BaseException:
        discard(context, [part for _, parts in made for part in parts])
        raise
    return made


def _blocks(context: TableContext, file: DataFile) -> Iterator[pa.RecordBatch]:
    # Not through the cache: the file is about to go.
    reader = open_run(context.store, context.file_path(file), file.run)
    schema = context.schema
    fields = schema.targeted_file_schema if reader.is_targeted else schema.file_schema
    try:
        for number in range(reader.num_blocks):
            yield reader.read_block(number, fields)
    finally:
        reader.close()
