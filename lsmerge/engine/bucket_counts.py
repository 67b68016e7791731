"""How many buckets each partition has, as writers and look-ups ask.

A partition keeps the count its files were split by until it is rescaled; one without files gets the count of the
option `bucket`, which no alteration changes. Where no count was ever changed, which snapshots tell, no manifest is read
to know it.
"""

from typing import Self

from lsmerge.engine.context import TableContext
from lsmerge.meta.data_file import Partition
from lsmerge.meta.snapshot import Snapshot


class BucketCounts:
    """The bucket counts at one snapshot; `layout` is what an edit made by them must say."""

    def __init__(self, context: TableContext, snapshot: Snapshot | None) -> None:
        self.layout = 0 if snapshot is None else snapshot.layout_since
        self._default = context.options.bucket
        self._recorded: dict[Partition, int] = {}
        if snapshot is not None and self.layout:
            self._recorded = context.versions.load(snapshot).bucket_counts

    @classmethod
    def for_writing(cls, context: TableContext) -> Self:
        """As far as they are known without asking the store: what changed since shows when the writer lands."""
        recent = context.snapshots.recent()
        if recent is None or recent.layout_since == 0:
            return cls(context, recent)
        return cls(context, context.snapshots.latest())

    def of(self, partition: Partition) -> int:
        """How many buckets a partition has, or would get; files that do not tell were split by the option."""
        return self._recorded.get(partition, 0) or self._default
