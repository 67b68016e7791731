"""Sort-compaction: the rows of partitions clustered by columns other than the key, as one snapshot.

    all runs of a partition -> composed rows -> buckets by ranges of the clustered order -> files, a new index -> commit

Keys change their buckets, so the index of the partition is made anew in the same commit, and writers that placed rows
by the old one place them again when they land (placement.py). Only dynamic buckets can be chosen: where they are fixed,
the hash of the key has chosen already. Who else may be at work meanwhile, partition_rewrite.py says.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lsmerge.engine.bucket_assignment import BucketRules
from lsmerge.engine.buckets import scatter
from lsmerge.engine.clustering import LINEAR, Clustering
from lsmerge.engine.compaction_jobs import forget_before
from lsmerge.engine.context import TableContext
from lsmerge.engine.hash_index import HashIndex, ascending, buffer_of, discard_indexes, key_hashes
from lsmerge.engine.partition_rewrite import (
    RewriteReport,
    checked_count,
    live_partitions,
    rewrite_partitions,
)
from lsmerge.engine.partition_spec import select
from lsmerge.engine.progress import ProgressHook, Tally
from lsmerge.engine.recluster import PASSES, Request, recluster
from lsmerge.engine.redistribute import Target
from lsmerge.engine.resplit import place_anew
from lsmerge.errors import InvalidOptionError
from lsmerge.meta.bucket_index import IndexFile, write_index
from lsmerge.meta.data_file import CommitKind, DataFile, Edit, Partition
from lsmerge.meta.version import SortedRun, Version

# Fewer rows than a window of the merge are read at once anyway; more buckets than this nobody gets without asking.
ROWS_WORTH_A_BUCKET = 131_072
BUCKETS_WORTH_HAVING = 16


def sort_compact(
    context: TableContext,
    by: Any,
    order: str = LINEAR,
    partition: Any = None,
    buckets: Any = None,
    progress: ProgressHook | None = None,
) -> RewriteReport:
    """Cluster the partitions named, or all, by columns."""
    clustering = Clustering.of(context.schema, by, order)
    most = BucketRules.of(context.options).most
    count = None if buckets is None else checked_count("sort_compact into", buckets, most)
    select(context.schema, partition, [])  # refuses a wrong name even if there is nothing to do
    _check_dynamic(context, clustering)
    return rewrite_partitions(
        context, lambda current: _Clustered(current, clustering, partition, count), progress
    )


class _Clustered:
    """Rows by ranges of a clustered order, and the index that says which range each hash is in."""

    kind = CommitKind.SORT_COMPACT
    passes = PASSES

    def __init__(
        self, context: TableContext, clustering: Clustering, partition: Any, count: int | None
    ) -> None:
        self._context = context
        self._clustering = clustering
        self._named = partition
        self._count = count
        self._indexes: dict[Partition, HashIndex] = {}
        # What was written of an index, with the index: it grows if rows of new keys come meanwhile.
        self._written: dict[Partition, tuple[HashIndex, IndexFile]] = {}

    def partitions(self, version: Version) -> list[Partition]:
        return select(self._context.schema, self._named, live_partitions(version))

    def rewrite(self, version: Version, partition: Partition, tally: Tally) -> list[DataFile]:
        places = [place for place in version.places() if place.partition == partition]
        runs = [run for place in places for run in version.runs(place)]
        count = bucket_count(self._context, runs) if self._count is None else self._count
        forget = forget_before(self._context, version.snapshot)
        request = Request(self._clustering, count, forget)
        files, self._indexes[partition] = recluster(self._context, partition, runs, request, tally)
        return list(files)

    def follow(self, file: DataFile) -> tuple[DataFile, ...]:
        """Rows go where their hash is now; a hash that is new stays where the writer placed it."""
        partition, here = file.place

        def split(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
            hashes = key_hashes(self._context.schema, batch)
            index = self._indexes[partition]
            index = index.with_hashes(here, index.missing(ascending(hashes)))
            self._indexes[partition] = index
            return scatter(batch, buffer_of(index.buckets_of(hashes)), max(index.counts) + 1)

        most = max([here, *self._indexes[partition].counts])
        return place_anew(self._context, file, Target(partition, range(most + 1), 0, 0), split)

    def completed(self, edit: Edit, version: Version | None) -> Edit:
        gone = [f for p in self._indexes if version is not None for f in version.index_files(p)]
        come = [self._index_file(p, index) for p, index in self._indexes.items() if len(index)]
        return replace(edit, add_index=tuple(come), remove_index=tuple(gone), moves_keys=True)

    def forget(self, partition: Partition) -> None:
        self._indexes.pop(partition, None)
        if partition in self._written:
            discard_indexes(self._context.store, [self._written.pop(partition)[1]])

    def discard(self) -> None:
        discard_indexes(self._context.store, (file for _, file in self._written.values()))
        self._written.clear()

    def _index_file(self, partition: Partition, index: HashIndex) -> IndexFile:
        if partition in self._written:
            content, file = self._written[partition]
            if content is index:
                return file
            discard_indexes(self._context.store, [file])
        env, content = self._context.env, index.merged()
        file = write_index(
            self._context.store, env.new_id(), partition, content.stored(), env.now_ms()
        )
        self._context.indexes.keep(file, content)
        self._written[partition] = index, file
        return file


def bucket_count(context: TableContext, runs: Sequence[SortedRun]) -> int:
    """How many buckets serve: as many as keys and bytes ask for, more where each would still be worth reading apart."""
    options, rules = context.options, BucketRules.of(context.options)
    rows = sum(file.run.num_rows for run in runs for file in run.files)
    needed = max(
        -(-rows // rules.target), sum(run.size_bytes for run in runs) // options.target_file_size
    )
    worth_having = min(BUCKETS_WORTH_HAVING, rows // ROWS_WORTH_A_BUCKET)
    return max(1, min(rules.most, max(needed, worth_having)))


def _check_dynamic(context: TableContext, clustering: Clustering) -> None:
    if context.options.has_dynamic_buckets:
        return
    raise InvalidOptionError(
        f"sort_compact by {', '.join(clustering.by)}: with 'bucket' = {context.options.bucket} the hash of its key "
        "says which bucket a row is in, so rows cannot be clustered by other columns; "
        "it takes a table with 'bucket' = -1"
    )
