"""Where keys may be: the buckets of a snapshot that a lookup must ask."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lsmerge.engine.bucket_counts import BucketCounts
from lsmerge.engine.buckets import scatter, split_by_bucket, split_by_partition
from lsmerge.engine.context import TableContext
from lsmerge.engine.hash_index import HashIndex, buffer_of, key_hashes
from lsmerge.engine.hash_layers import LivingLayers
from lsmerge.engine.progress import FileHook
from lsmerge.meta.data_file import BucketId, Partition
from lsmerge.meta.version import Version
from lsmerge.schema import TableSchema


def index_at(context: TableContext, version: Version | None, partition: Partition) -> HashIndex:
    """The hashes placed in a partition at one version."""
    return context.indexes.load(version.index_files(partition) if version else ())


def load_key_map(context: TableContext, hook: FileHook | None) -> int:
    """Make the map of where keys may be; returns how many index files it joins."""
    latest = context.snapshots.latest()
    if latest is None or not context.schema.is_cross_partition:
        return 0
    version = context.versions.load(latest)
    context.key_map.at(version, hook)
    return len(version.index_names)


def find_places(
    context: TableContext, version: Version, keys: pa.RecordBatch
) -> Iterator[tuple[BucketId, pa.RecordBatch]]:
    """The buckets that may hold rows with these keys, and the keys that each may hold."""
    if not context.options.has_dynamic_buckets:
        counts = BucketCounts(context, version.snapshot)
        yield from split_by_bucket(context.schema, context.options, keys, counts.of)
        return
    if context.schema.is_cross_partition:
        yield from candidates(context.schema, [context.key_map.at(version)], keys)
        return
    for partition, members in split_by_partition(context.schema.partition_by, keys):
        hashes = key_hashes(context.schema, members)
        for bucket, rows in placed(members, hashes, index_at(context, version, partition)):
            yield BucketId(partition, bucket), rows


def candidates(
    schema: TableSchema, layers: Sequence[LivingLayers], keys: pa.RecordBatch
) -> Iterator[tuple[BucketId, pa.RecordBatch]]:
    """The buckets of all partitions that may hold keys; the key may have some of the partition columns."""
    shared = [name for name in schema.partition_by if name in schema.primary_key]
    positions = [schema.partition_by.index(name) for name in shared]
    for values, rows in split_by_partition(shared, keys):
        hashes = key_hashes(schema, rows)
        found: dict[BucketId, list[pa.Array]] = {}
        for some in layers:
            for place, numbers in some.find(hashes).items():
                found.setdefault(place, []).extend(numbers)
        for place, numbers in found.items():
            if tuple(place.partition[position] for position in positions) == values:
                yield place, rows.take(pa.concat_arrays(numbers))


def placed(
    rows: pa.RecordBatch, hashes: pa.Array, index: HashIndex
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows whose hash is in the index, by bucket."""
    import pyarrow.compute as pc

    buckets = index.buckets_of(hashes)
    known = pc.greater_equal(buckets, pa.scalar(0, pa.int32()))
    if known.true_count:
        yield from by_bucket(rows.filter(known), buckets.filter(known))


def by_bucket(rows: pa.RecordBatch, buckets: pa.Array) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Rows by the number of their bucket."""
    import pyarrow.compute as pc

    bounds = pc.min_max(buckets)
    if bounds["min"] == bounds["max"]:
        yield bounds["max"].as_py(), rows
        return
    yield from scatter(rows, buffer_of(buckets), bounds["max"].as_py() + 1)
