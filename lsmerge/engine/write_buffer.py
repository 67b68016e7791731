"""Rows that a writer has taken and not written yet: bucket by bucket, under one budget.

What is buffered, and which buckets must be written for it to stay within the budget; writing them is for others.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from lsmerge.engine.memory import release_unused
from lsmerge.merge.groups import row_numbers
from lsmerge.meta.data_file import BucketId

# The rest is for keys, the sorted order and the portions on their way into a file.
SHARE_FOR_ROWS = 0.5
PORTION_ROWS = 32_768
# Portions and joined batches are this part of the buffer, and no larger than serves speed.
SHARE_OF_PORTION = 32
PORTION_BYTES = 4 << 20
# Batches below this are joined before they are sorted; what each one costs beside its bytes is counted.
MAX_SMALL_BATCHES = 1024
OVERHEAD_BYTES = 256
# Arrow's 32-bit string offsets and the plan's row numbers both stay far away at this size.
MAX_RUN_BYTES = 1 << 30


@dataclass(slots=True)
class Bucket:
    """Rows of one bucket in arrival order, not written yet.

    Small batches are joined, so that a bucket never consists of very many.
    """

    portion_bytes: int
    batches: list[pa.RecordBatch] = field(default_factory=list)
    small: list[pa.RecordBatch] = field(default_factory=list)
    small_bytes: int = 0
    num_rows: int = 0
    size_bytes: int = 0

    def append(self, batch: pa.RecordBatch) -> None:
        """Number the rows in the order they came, and keep them."""
        numbers = row_numbers(batch.num_rows, self.num_rows)
        columns = [numbers, *batch.columns[1:]]
        self.small.append(pa.RecordBatch.from_arrays(columns, schema=batch.schema))
        self.num_rows += batch.num_rows
        self.small_bytes += batch.nbytes
        self.size_bytes += batch.nbytes + OVERHEAD_BYTES * batch.num_columns
        if self.small_bytes >= self.portion_bytes or len(self.small) >= MAX_SMALL_BATCHES:
            self.settle()

    def settle(self) -> list[pa.RecordBatch]:
        """All batches, small ones joined."""
        if len(self.small) > 1:
            self.small = [pa.concat_batches(self.small)]
            release_unused()
        self.batches += self.small
        self.small, self.small_bytes = [], 0
        return self.batches

    @property
    def rows_at_once(self) -> int:
        """How many rows to move at once, so that the rows are in memory once and a portion twice."""
        affordable = self.portion_bytes * self.num_rows // max(1, self.size_bytes)
        return max(1, min(PORTION_ROWS, affordable))


class WriteBuffer:
    """The buckets of one writer."""

    def __init__(self, budget_bytes: int) -> None:
        self._room = int(budget_bytes * SHARE_FOR_ROWS)
        self._portion_bytes = min(PORTION_BYTES, budget_bytes // SHARE_OF_PORTION)
        self._buckets: dict[BucketId, Bucket] = {}

    @property
    def places(self) -> list[BucketId]:
        """The buckets that have rows."""
        return list(self._buckets)

    def __contains__(self, place: BucketId) -> bool:
        return place in self._buckets

    def append(self, place: BucketId, rows: pa.RecordBatch) -> None:
        """Add rows behind those that the bucket has."""
        self._buckets.setdefault(place, Bucket(self._portion_bytes)).append(rows)

    def take(self, place: BucketId) -> Bucket:
        """The rows of a bucket, which the buffer has no longer."""
        return self._buckets.pop(place)

    def clear(self) -> None:
        """Forget all rows."""
        self._buckets.clear()

    def overflowing(self) -> Iterator[BucketId]:
        """The fullest buckets, if there is too much, until half of the room is free again."""
        sizes = {place: bucket.size_bytes for place, bucket in self._buckets.items()}
        total = left = sum(sizes.values())
        for place in sorted(sizes, key=lambda place: -sizes[place]):
            if sizes[place] > MAX_RUN_BYTES or total > self._room:
                if left <= self._room // 2:
                    return
                left -= sizes[place]
                yield place
