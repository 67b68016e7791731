"""How many buckets each partition has, as writers and look-ups ask.

A partition keeps the count its files were split by until it is rescaled; one without files gets the count of the
option `bucket`. Where no count was ever changed, which snapshots tell, no manifest is read to know it.
"""

from functools import cache
from typing import Self

from lsmerge.engine.context import TableContext
from lsmerge.meta import schema_store
from lsmerge.meta.data_file import Partition
from lsmerge.meta.snapshot import Snapshot
from lsmerge.options import TableOptions


class BucketCounts:
    """The bucket counts at one snapshot; `layout` is what an edit made by them must say."""

    def __init__(self, context: TableContext, snapshot: Snapshot | None) -> None:
        self.layout = 0 if snapshot is None else snapshot.layout_since
        self._context = context
        self._recorded: dict[Partition, tuple[int, int]] = {}
        if snapshot is not None and not _is_uniform(context, snapshot):
            self._recorded = context.versions.load(snapshot).bucket_counts
        self._count_of_schema = cache(self._read_count)

    @classmethod
    def for_writing(cls, context: TableContext) -> Self:
        """As far as they are known without asking the store: what changed since shows when the writer lands."""
        recent = context.snapshots.recent()
        if recent is None or _is_uniform(context, recent):
            return cls(context, recent)
        return cls(context, context.snapshots.latest())

    def of(self, partition: Partition) -> int:
        """How many buckets a partition has, or would get."""
        count, schema_id = self._recorded.get(partition, (0, self._context.schema.id))
        return count or self._count_of_schema(schema_id)

    def _read_count(self, schema_id: int) -> int:
        """The option `bucket` as a schema has it: what files that do not tell were split by."""
        context = self._context
        if schema_id == context.schema.id:
            return context.options.bucket
        return TableOptions.of(schema_store.read_schema(context.store, schema_id)).bucket


def _is_uniform(context: TableContext, snapshot: Snapshot) -> bool:
    """Whether every partition has the count of the option `bucket`."""
    return snapshot.layout_since == 0 and snapshot.schema_id == context.schema.id
