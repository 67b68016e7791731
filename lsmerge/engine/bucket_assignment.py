"""Which dynamic bucket a new hash goes to: a pure function of how full the buckets are."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lsmerge.engine.buckets import scatter
from lsmerge.option_registry import MAX_BUCKETS
from lsmerge.options import TableOptions


@dataclass(frozen=True, slots=True)
class BucketRules:
    """When dynamic buckets are opened."""

    target: int
    initial: int
    most: int

    @classmethod
    def of(cls, options: TableOptions) -> "BucketRules":
        limit = options.dynamic_bucket_max_buckets
        most = MAX_BUCKETS if limit == -1 else limit
        initial = min(options.dynamic_bucket_initial_buckets, most)
        return cls(options.dynamic_bucket_target_row_num, initial, most)

    def shared_by(self, sharers: int) -> "BucketRules":
        """The rules for one of several writers that fill the same buckets at once, each with other hashes."""
        return replace(self, target=self._share(self.target, sharers))

    def shares(self, counts: Mapping[int, int], sharers: int) -> Counter[int]:
        """How full each bucket is to one of the sharers, so that together they fill it and no more."""
        target = self._share(self.target, sharers)
        room = {b: self._share(max(0, self.target - count), sharers) for b, count in counts.items()}
        return Counter({bucket: target - free for bucket, free in room.items()})

    def _share(self, count: int, sharers: int) -> int:
        return -(-count // sharers)


def assign(
    counts: Mapping[int, int], hashes: pa.Array, rules: BucketRules
) -> Iterator[tuple[int, pa.Array]]:
    """Buckets for new hashes (uint32, in arrival order), given how many each bucket has.

    New hashes are spread over the buckets with room. When none has room the next bucket is opened; when no more may
    be opened, all have room.
    """
    sizes = [counts.get(bucket, 0) for bucket in range(max([rules.initial - 1, *counts]) + 1)]
    with_room = [bucket for bucket, size in enumerate(sizes) if size < rules.target]
    while len(hashes):
        if not with_room and len(sizes) >= rules.most:
            yield from _spread(hashes, range(len(sizes)))
            return
        if not with_room:
            with_room = [len(sizes)]
            sizes.append(0)
        rest = []
        for bucket, some in _spread(hashes, with_room):
            taken = some.slice(0, rules.target - sizes[bucket])
            yield bucket, taken
            sizes[bucket] += len(taken)
            rest.append(some.slice(len(taken)))
        hashes = pa.concat_arrays(rest)
        with_room = [bucket for bucket in with_room if sizes[bucket] < rules.target]


def _spread(hashes: pa.Array, buckets: Sequence[int]) -> Iterator[tuple[int, pa.Array]]:
    """The hashes by remainder, each part in order."""
    if len(buckets) == 1:
        yield buckets[0], hashes
        return
    import pyarrow.compute as pc

    count = pa.scalar(len(buckets), pa.uint32())
    remainders = pc.subtract(hashes, pc.multiply(pc.divide(hashes, count), count))
    rows = pa.RecordBatch.from_arrays([hashes], ["hash"])
    ids = remainders.cast(pa.int32()).buffers()[1]
    for number, members in scatter(rows, ids, len(buckets)):
        yield buckets[number], members.column(0)
