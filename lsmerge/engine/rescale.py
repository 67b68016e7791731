"""Rescaling: the rows of partitions split into another number of buckets, as one snapshot.

    runs of the old buckets -> composed operands in key order -> split by Murmur3 -> new runs -> commit

Who else may be at work meanwhile, partition_rewrite.py says.
"""

from collections.abc import Iterator, Sequence
from math import gcd
from typing import Any

from lsmerge.engine.bucket_counts import BucketCounts
from lsmerge.engine.buckets import related_buckets, split_by_hash
from lsmerge.engine.context import TableContext
from lsmerge.engine.merging import composed_batches
from lsmerge.engine.partition_rewrite import (
    RewriteReport,
    checked_count,
    live_partitions,
    rewrite_partitions,
)
from lsmerge.engine.partition_spec import select
from lsmerge.engine.progress import ProgressHook, Tally
from lsmerge.engine.redistribute import Target, redistribute
from lsmerge.engine.resplit import resplit
from lsmerge.engine.run_output import discard
from lsmerge.engine.sections import split_into_sections
from lsmerge.errors import InvalidOptionError
from lsmerge.meta.data_file import BucketId, CommitKind, DataFile, Edit, Partition
from lsmerge.meta.version import Version
from lsmerge.option_registry import MAX_BUCKETS


def rescale(
    context: TableContext,
    num_buckets: Any,
    partition: Any = None,
    progress: ProgressHook | None = None,
) -> RewriteReport:
    """Split the partitions named, or all, into `num_buckets` buckets."""
    count = wanted_count(context, num_buckets)
    select(context.schema, partition, [])  # refuses a wrong name even if there is nothing to do
    return rewrite_partitions(
        context, lambda current: BucketCount(current, partition, count), progress
    )


class BucketCount:
    """Rows by hash, into another number of buckets."""

    kind = CommitKind.RESCALE
    passes = 1

    def __init__(self, context: TableContext, partition: Any, count: int) -> None:
        self._context = context
        self._named = partition
        self._count = count

    def partitions(self, version: Version) -> list[Partition]:
        counts = BucketCounts(self._context, version.snapshot)
        named = select(self._context.schema, self._named, live_partitions(version))
        return [partition for partition in named if counts.of(partition) != self._count]

    def rewrite(self, version: Version, partition: Partition, tally: Tally) -> list[DataFile]:
        made: list[DataFile] = []
        try:
            for old, new in self.families(version, partition):
                made += self.split(version, old, new, tally)
        except BaseException:
            discard(self._context, made)
            raise
        return made

    def families(
        self, version: Version, partition: Partition
    ) -> Iterator[tuple[list[BucketId], list[int]]]:
        """Old buckets that share new ones are read together, others apart, so that few runs are open at once."""
        old_count = BucketCounts(self._context, version.snapshot).of(partition)
        for first in range(gcd(old_count, self._count)):
            old = related_buckets(first, self._count, old_count)
            new = related_buckets(first, old_count, self._count)
            yield [BucketId(partition, bucket) for bucket in old], list(new)

    def split(
        self, version: Version, places: Sequence[BucketId], buckets: Sequence[int], tally: Tally
    ) -> Sequence[DataFile]:
        """The rows of some buckets in others of the same partition."""
        context, count, partition = self._context, self._count, places[0].partition
        sections = split_into_sections([run for place in places for run in version.runs(place)])
        return redistribute(
            context,
            Target(partition, buckets, context.options.num_levels - 1, count),
            lambda: tally.counted(composed_batches(context, sections, forget_before=0)),
            lambda batch: split_by_hash(context.schema, context.options, batch, count),
        )

    def follow(self, file: DataFile) -> tuple[DataFile, ...]:
        return resplit(self._context, file, self._count)

    def completed(self, edit: Edit, _version: Version | None) -> Edit:
        """Nothing but rows says how many buckets there are."""
        return edit

    def forget(self, _partition: Partition) -> None:
        """Nothing is remembered of a partition."""

    def discard(self) -> None:
        """Nothing but runs was written."""


def wanted_count(context: TableContext, num_buckets: Any) -> int:
    """The number of buckets that a user asks for."""
    if context.options.bucket < 1:
        raise InvalidOptionError(
            f"rescale: the table has 'bucket' = {context.options.bucket}, so its buckets grow by themselves; "
            "only tables with a fixed number of buckets are rescaled"
        )
    return checked_count("rescale to", num_buckets, MAX_BUCKETS)
