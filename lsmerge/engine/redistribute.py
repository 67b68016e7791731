"""Sorted rows of one partition into new buckets, with a bounded number of files open at once.

Requires: batches in key order, all rows of a key in one batch unless they follow each other. Ensures: the rows of
each bucket keep that order, so that they make sorted files.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.engine.run_output import RunOutput, RunTarget, discard
from lsmerge.meta.data_file import BucketId, DataFile, Partition

# Each holds a file open, and a block of rows as they came and as they are written. Where there are more buckets the
# rows are read again for the next ones.
MAX_OPEN_BUCKETS = 128
COPIES = 2

Read: TypeAlias = Callable[[], Iterator[pa.RecordBatch]]
# The rows of each bucket, by its number, in the order they came.
Split: TypeAlias = Callable[[pa.RecordBatch], Iterable[tuple[int, pa.RecordBatch]]]


@dataclass(frozen=True, slots=True)
class Target:
    """Where rows go: the buckets that may get some, and what their files say of themselves."""

    partition: Partition
    buckets: Sequence[int]
    level: int
    num_buckets: int


def redistribute(
    context: TableContext, target: Target, read: Read, split: Split
) -> tuple[DataFile, ...]:
    """Files that hold all rows of `read` where `split` puts them; nothing stays if anything fails."""
    files: list[DataFile] = []
    try:
        step = _open_at_once(context, target.level)
        for start in range(0, len(target.buckets), step):
            some = frozenset(target.buckets[start : start + step])
            files += _one_pass(context, target, some, read(), split)
    except BaseException:
        discard(context, files)
        raise
    return tuple(files)


def _open_at_once(context: TableContext, level: int) -> int:
    block_bytes = context.run_format(level).block_size_bytes
    room = context.options.scan_memory_budget // (COPIES * block_bytes)
    return max(1, min(MAX_OPEN_BUCKETS, room))


def _one_pass(
    context: TableContext,
    target: Target,
    buckets: frozenset[int],
    batches: Iterator[pa.RecordBatch],
    split: Split,
) -> list[DataFile]:
    outputs: dict[int, RunOutput] = {}
    files: list[DataFile] = []
    try:
        for batch in batches:
            for bucket, rows in split(batch):
                if bucket in buckets:
                    _output(context, target, outputs, bucket).append(rows)
        for bucket in sorted(outputs):
            files += outputs.pop(bucket).finish()
    except BaseException:
        for output in outputs.values():
            output.abort()
        discard(context, files)
        raise
    return files


def _output(
    context: TableContext, target: Target, outputs: dict[int, RunOutput], bucket: int
) -> RunOutput:
    if bucket not in outputs:
        place, env = BucketId(target.partition, bucket), context.env
        run = RunTarget(place, target.level, target.num_buckets, env.new_id(), env.now_ms())
        outputs[bucket] = RunOutput(context, run)
    return outputs[bucket]
