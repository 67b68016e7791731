"""Single gets of one version: files, blocks and merges, as `lsmerge_native.points` asks for them.

A key that is given as the values that its columns hold is encoded, placed and found by that kernel alone, if one row of
one run decides. What comes here is the rest: the first use of a bucket, a file or a block; keys that must be converted
or refused; places that only an index or the partitions there are can tell; and rows that have to be merged, which is
done as everywhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import pyarrow as pa

from lsmerge.engine.block_shelf import BlockId, FileId
from lsmerge.engine.bucket_counts import BucketCounts
from lsmerge.engine.context import TableContext
from lsmerge.engine.defaults import default_values, with_defaults
from lsmerge.engine.ingest import MAX_KEY_BYTES
from lsmerge.engine.key_input import key_batch
from lsmerge.engine.matching import kept_block, taken_column
from lsmerge.engine.merging import joined
from lsmerge.engine.places import find_places
from lsmerge.engine.schema_views import reading
from lsmerge.merge.groups import Source, merge_groups
from lsmerge.merge.user_code import python_value
from lsmerge.meta.bucket_index import IndexFile
from lsmerge.meta.data_file import BucketId, DataFile, Partition
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.version import is_by_age, sorted_runs
from lsmerge.rowkind import KIND_COLUMN
from lsmerge.schema import Column, TableSchema
from lsmerge_native.keys import Keys
from lsmerge_native.one_key import KeyEncoder, key_encoder
from lsmerge_native.point_files import PointBucket, PointFile
from lsmerge_native.point_rows import PointBlock, RowShape
from lsmerge_native.points import PointReader


class VersionReads:
    """One snapshot under one schema, and the owner of its `PointReader`. Thread-safe."""

    def __init__(self, context: TableContext, snapshot: Snapshot) -> None:
        schema = context.schema
        self._context = context
        self._snapshot = snapshot
        self._version = context.versions.load(snapshot)
        self._counts = BucketCounts(context, snapshot)
        self._names = tuple(context.merge_columns(schema.column_names))
        self._defaults = default_values(schema)
        self._buckets: dict[BucketId, PointBucket] = {}
        self._index_files: dict[Partition, list[IndexFile]] = {}
        self._encoder = _encoder(context)
        shape = _shape(context, self._names, self._defaults)
        self.reader = PointReader(
            self, self._encoder, shape, _partition_columns(schema), context.engine.newest_row_wins
        )
        if self._encoder is not None and not schema.partition_by:
            self.reader.put_partition(None, (), self._num_buckets(()))

    def get(self, key: Any) -> dict[str, Any] | None:
        """The visible row of one key, in any form that users may give it."""
        found = self.reader.get(key)
        if found is not NotImplemented:
            row: dict[str, Any] | None = found
            return row
        wanted = key_batch(self._context.schema, [key])
        with reading(self._context, self._snapshot):
            return self._found(key, wanted)

    def get_few(self, keys: list[Any]) -> pa.Table | None:
        """The visible rows of some keys, in the order asked and each once; None if the reader cannot tell them."""
        found = self.reader.find_many(keys)
        if found is NotImplemented:
            return None
        blocks, selection = found
        schema = self._context.read_schema
        if not blocks:
            return schema.empty_table()
        arrays = [taken_column(blocks, self._names.index(n), selection) for n in schema.names]
        rows = with_defaults(pa.RecordBatch.from_arrays(arrays, schema=schema), self._defaults)
        return pa.Table.from_batches([rows])

    def _found(self, key: Any, wanted: pa.RecordBatch) -> dict[str, Any] | None:
        for place, rows in find_places(self._context, self._version, wanted):
            self._learn(key, place.partition)
            row = self.reader.get_at(self._bucket(place), self._context.keys(rows))
            if row is not None:
                return row
        return None

    def _learn(self, key: Any, partition: Partition) -> None:
        """From now on the reader itself finds keys of a partition that has files."""
        columns = _partition_columns(self._context.schema)
        if not columns or self._encoder is None or self._encoder.key(key) is None:
            return
        if self._version.partition_files([partition]):
            values = tuple(key[column] for column in columns)
            self.reader.put_partition(
                values[0] if len(values) == 1 else values, partition, self._num_buckets(partition)
            )

    def _num_buckets(self, partition: Partition) -> int:
        """As the reader is told: 0 where an index says which bucket a key is in."""
        is_dynamic = self._context.options.has_dynamic_buckets
        return 0 if is_dynamic else self._counts.of(partition)

    # ------------------------------------------------------------------- what the reader asks for

    def bucket(self, partition: Partition, number: int) -> PointBucket:
        """The runs of a bucket."""
        with reading(self._context, self._snapshot):
            return self._bucket(BucketId(partition, number))

    def located(self, partition: Partition, hash_: int) -> PointBucket | None:
        """The runs of the bucket that the index names."""
        with reading(self._context, self._snapshot):
            files = self._index_files.get(partition)
            if files is None:
                files = self._index_files[partition] = self._version.index_files(partition)
            number = self._context.indexes.load(files).bucket_of(hash_)
            return None if number < 0 else self._bucket(BucketId(partition, number))

    def open(self, file: PointFile) -> None:
        """Read what the file's index and key filter say."""
        engine, data_file = self._context.engine, file.file
        with reading(self._context, self._snapshot):
            reader = self._context.reader(data_file)
            has_one_row = engine.one_row_per_key or (
                engine.one_add_per_key and not data_file.run.num_retracts
            )
            file.open(
                reader.first_keys,
                reader.last_keys,
                reader.read_filter(),
                has_one_row and not reader.is_targeted,
            )
        self._context.runs.note_opened(file)

    def load(self, file: PointFile, number: int) -> PointBlock:
        """Decode a block, or find it among those that were."""
        path = self._context.file_path(file.file)
        identity = BlockId(path, number, self._context.schema.id, self._names)
        with reading(self._context, self._snapshot):
            block = kept_block(self._context, file.file, identity)
        self._context.runs.put_at_hand(identity, block, file)
        return block

    def merged(self, bucket: PointBucket, key: Keys) -> dict[str, Any] | None:
        """What the engine makes of all rows of a key."""
        parts = self.reader.parts(bucket, key)
        runs = [
            joined(self._context, [_rows(*part) for part in of_file])
            for _, of_file in groupby(parts, key=lambda part: part[0].name)
        ]
        groups = merge_groups(runs)
        rows = self._context.engine.resolve(groups, self._context.schema.column_names)
        if rows.num_rows == 0:
            return None
        shown = with_defaults(rows, self._defaults)
        return {
            name: python_value(column[0])
            for name, column in zip(shown.schema.names, shown.columns, strict=True)
        }

    # ----------------------------------------------------------------------------------- buckets

    def _bucket(self, place: BucketId) -> PointBucket:
        found = self._buckets.get(place)
        if found is None:
            runs = sorted_runs(self._version.files(place))
            files = [[self._file(file) for file in run.files] for run in runs]
            found = self._buckets[place] = PointBucket(files, is_by_age(runs))
        return found

    def _file(self, file: DataFile) -> PointFile:
        context = self._context
        identity = FileId(context.file_path(file), context.schema.id, self._names)
        return context.runs.file(
            identity,
            lambda: PointFile(
                file, file.run.min_key, file.run.max_key, adds_only=file.run.num_retracts == 0
            ),
        )


def _rows(file: DataFile, block: PointBlock, start: int, stop: int) -> Source:
    source: Source = block.source
    return replace(source.slice(start, stop), sequence_base=file.sequence_base)


def _encoder(context: TableContext) -> KeyEncoder | None:
    """What encodes keys of Python values; None if the key does not say which partition its row is in."""
    schema, options = context.schema, context.options
    if schema.is_cross_partition:
        return None
    key = schema.primary_key
    columns = [schema.column(name) for name in key]
    return key_encoder(
        [pa.array([], schema.row_schema.field(name).type) for name in key],
        [_max_length(column) for column in columns],
        MAX_KEY_BYTES,
        [key.index(name) for name in schema.trimmed_key],
        [key.index(name) for name in options.bucket_key or schema.trimmed_key],
    )


def _max_length(column: Column) -> int:
    """How long text or bytes of a key column may be."""
    if column.type.kind in ("CHAR", "VARCHAR", "VARBINARY"):
        return min(MAX_KEY_BYTES, column.type.params[0])
    return MAX_KEY_BYTES


def _partition_columns(schema: TableSchema) -> tuple[int, ...]:
    """Where the key has the partition columns."""
    if schema.is_cross_partition:
        return ()
    return tuple(schema.primary_key.index(name) for name in schema.partition_by)


def _shape(
    context: TableContext, names: Sequence[str], defaults: Mapping[str, pa.Scalar]
) -> RowShape:
    columns = context.schema.column_names
    return RowShape(
        list(columns),
        [pa.array([], context.schema.row_schema.field(name).type) for name in columns],
        [names.index(name) for name in columns],
        [python_value(defaults[name]) if name in defaults else None for name in columns],
        names.index(KIND_COLUMN),
        python_value,
    )
