"""What every path of one open table shares: an immutable bundle, built once by the facade."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lsmerge.engine.hash_index import HashIndexCache
from lsmerge.engine.key_map import KeyMap
from lsmerge.engine.padding import add_flags, whole_numbers
from lsmerge.engine.point_cache import PointCache
from lsmerge.engine.run_cache import RunCache
from lsmerge.engine.upkeep import Upkeep
from lsmerge.env import Env
from lsmerge.merge.engine import MergeEngine
from lsmerge.merge.groups import Source
from lsmerge.meta.commit import Committer
from lsmerge.meta.data_file import BucketId, DataFile
from lsmerge.meta.snapshot import SnapshotStore
from lsmerge.meta.version import VersionReader
from lsmerge.metrics import Counters
from lsmerge.options import TableOptions
from lsmerge.rowkind import KIND_COLUMN, SEQUENCE_COLUMN
from lsmerge.schema import TableSchema
from lsmerge.storage import layout
from lsmerge.storage.block_index import MAX_BLOCK_BYTES
from lsmerge.storage.object_store import ObjectStore
from lsmerge.storage.run_file import RunFormat, RunReader
from lsmerge_native.gather import viewed_batch
from lsmerge_native.keys import Keys, encode_keys

if TYPE_CHECKING:
    from lsmerge_native.gather import BatchView

# Parquet begins anew with every column of a block, however few values it holds: of wide rows more go into one.
COLUMNS_OF_A_BLOCK = 32
BLOCKS_IN_ONE = 2
# What is written must be merged again, a block of each run at once: as many as may stand by default fit the sixth of
# the budget that blocks have, without a pass through temporary files.
SHARE_FOR_A_BLOCK = 64


def parquet_block_bytes(schema: TableSchema, options: TableOptions) -> int:
    """Bytes of a block of Parquet: `file.block-size`, or up to twice that where there are many columns."""
    usual = options.file_block_size
    num_columns = min(len(schema.file_schema), BLOCKS_IN_ONE * COLUMNS_OF_A_BLOCK)
    affordable = min(options.scan_memory_budget // SHARE_FOR_A_BLOCK, MAX_BLOCK_BYTES // 2)
    return max(usual, min(usual * num_columns // COLUMNS_OF_A_BLOCK, affordable))


@dataclass(frozen=True, slots=True)
class TableContext:
    """One table as its paths see it."""

    store: ObjectStore
    env: Env
    schema: TableSchema
    options: TableOptions
    engine: MergeEngine
    snapshots: SnapshotStore
    versions: VersionReader
    committer: Committer
    runs: RunCache
    points: PointCache
    upkeep: Upkeep
    indexes: HashIndexCache
    key_map: KeyMap
    counters: Counters
    # Of the whole budget, so that files do not depend on how many buckets were compacted at once.
    parquet_block_bytes: int

    def sharing_budget(self, count: int) -> "TableContext":
        """The same table for one of `count` buckets that are worked on at once."""
        budget = self.options.scan_memory_budget // max(1, count)
        return replace(self, options=replace(self.options, scan_memory_budget=budget))

    def bucket_path(self, place: BucketId, name: str) -> str:
        directory = layout.bucket_dir(self.schema.partition_by, place.partition, place.bucket)
        return f"{directory}/{name}"

    def file_path(self, file: DataFile) -> str:
        return self.bucket_path(file.place, file.name)

    def reader(self, file: DataFile) -> RunReader:
        """The reader of a file, opened if need be."""
        return self.runs.reader(self.file_path(file), file.run)

    def keys(self, *batches: "pa.RecordBatch | BatchView") -> Keys:
        """The encoded keys of batches, or of the view of one, that have the key columns, one after the other."""
        return encode_keys([_joined(batches, name) for name in self.schema.trimmed_key])

    def source(self, rows: "pa.RecordBatch | BatchView", sequence_base: int = 0) -> Source:
        """Sorted rows, ready to be merged."""
        columns = viewed_batch(rows)
        order = self.order(columns.batch) if self.engine.order.columns else None
        return Source(columns, self.keys(columns), order, sequence_base)

    def order(self, *batches: pa.RecordBatch) -> Keys | None:
        """The encoded order of rows before arrival decides, None where arrival alone does."""
        order = self.engine.order
        if not order.columns:
            return None
        nullable = [self.schema.row_schema.field(name).nullable for name in order.columns]
        descending = [order.descending] * len(order.columns)
        arrays = [_joined(batches, name) for name in order.columns]
        if order.padding is not None:
            arrays = [whole_numbers(arrays[0], order.padding.unit)]
            if order.padding.retracts_first:
                arrays.append(add_flags(_joined(batches, KIND_COLUMN)))
                nullable.append(False)
                descending.append(False)
        return encode_keys(arrays, nullable=nullable, descending=descending, signed_zeros=True)

    @property
    def read_schema(self) -> pa.Schema:
        """The rows that readers get: NOT NULL is said of columns where it holds for what merging gives."""
        schema = self.schema
        return schema.arrow_schema if self.engine.keeps_not_null else schema.row_schema

    def merge_columns(self, names: Sequence[str]) -> list[str]:
        """Columns a merge must read to give `names`: system, key, sequence fields, the engine's, in file order."""
        wanted = {
            SEQUENCE_COLUMN,
            KIND_COLUMN,
            *self.schema.trimmed_key,
            *self.engine.order.columns,
            *self.engine.reads(names),
        }
        return [name for name in self.schema.file_schema.names if name in wanted]

    def fields(self, names: Sequence[str]) -> pa.Schema:
        """The file schema restricted to `names`; for the same ones the same object."""
        return self.schema.stored_fields(tuple(names))

    def run_format(self, level: int) -> RunFormat:
        """How files of a level are written."""
        options = self.options
        kind = options.format_at(level)
        return RunFormat(
            format=kind,
            compression=options.compression_at(level),
            compression_level=options.file_compression_zstd_level,
            block_size_bytes=(
                self.parquet_block_bytes if kind == "parquet" else options.file_block_size
            ),
            filter_bits_per_key=options.file_filter_bits_per_key,
        )


def _joined(batches: "Sequence[pa.RecordBatch | BatchView]", name: str) -> pa.Array:
    arrays = [batch.column(name) for batch in batches]
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
