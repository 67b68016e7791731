"""The read path, top to bottom.

    pin a snapshot -> prune partitions, files and blocks by what the filter says of partition and key columns
    -> sections -> skip windows by statistics of values -> merge -> filter values -> limit -> Arrow stream

Value filters run after the merge, never on rows below it: a row that a filter would drop may still hide an older one.
Only windows of which no row can pass are left out before (value_pruning.py).
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow as pa

from lsmerge import arrow_expression, tracing
from lsmerge.engine import export, frames
from lsmerge.engine.buckets import partition_array
from lsmerge.engine.context import TableContext
from lsmerge.engine.dataset import dataset
from lsmerge.engine.defaults import default_values, with_defaults
from lsmerge.engine.export import ExportReport
from lsmerge.engine.merging import blocks_of, blocks_to_read, resolved_batches
from lsmerge.engine.opening import Location
from lsmerge.engine.plain_files import has_foreign_types, plain_files
from lsmerge.engine.pruning import key_range
from lsmerge.engine.run_cache import MAX_OPEN_RUNS
from lsmerge.engine.scan_arguments import (
    checked_columns,
    checked_filter,
    checked_limit,
    passing,
)
from lsmerge.engine.schema_views import reading, with_schema_id
from lsmerge.engine.sections import ALL_KEYS, EVERYTHING, KeyRange, Section, split_into_sections
from lsmerge.engine.splits import (
    PartSizes,
    Piece,
    PinnedSnapshot,
    ScanSplit,
    bytes_of,
    default_sizes,
    found_again,
    packed,
    target_bytes,
    weighed_pieces,
)
from lsmerge.engine.value_pruning import ValueFilter
from lsmerge.errors import InvalidFilterError, InvalidOptionError, NotPlainError
from lsmerge.meta.data_file import BucketId, DataFile
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.version import Version
from lsmerge.predicate import Predicate
from lsmerge.storage.run_file import RunReader


@dataclass(frozen=True, eq=False, repr=False)
class Scan:
    """A read of one snapshot, described but not started; each use reads afresh.

    A snapshot that expired before the first row is refused with SnapshotExpiredError. If it expires later, its rows
    still come: the files are held open on local disk. Of a read in the cloud, with a limit, or of very many files, they
    are not, and the error comes when a file is needed that is gone.

    >>> import lsmerge, pyarrow as pa
    >>> t = lsmerge.create_table("memory://scan", pa.schema({"k": pa.int64(), "v": pa.string()}), ["k"])
    >>> _ = t.upsert([{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
    >>> t.scan(columns=["v"], filter="k > 1").to_arrow().to_pylist()
    [{'v': 'b'}]
    """

    context: TableContext
    snapshot: Snapshot | None
    columns: tuple[str, ...]
    predicate: Predicate | None = None
    expression: Any = None
    limit: int | None = None
    pieces: tuple[Piece, ...] | None = None

    @classmethod
    def of(
        cls,
        context: TableContext,
        snapshot: Snapshot | None,
        columns: Sequence[str] | None,
        filter_: Any,
        limit: int | None,
    ) -> Self:
        """Check names and types before anything is read."""
        names = checked_columns(context.schema, columns)
        predicate, expression = checked_filter(context.schema, filter_)
        return cls(context, snapshot, names, predicate, expression, checked_limit(limit))

    @classmethod
    def of_split(cls, context: TableContext, split: ScanSplit) -> Self:
        """The part of a scan that a split stands for."""
        view = with_schema_id(context, split.snapshot.schema_id)
        snapshot = found_again(view, split.snapshot)
        return cls(
            view,
            snapshot,
            split.columns,
            split.predicate,
            split.expression,
            pieces=split.pieces,
        )

    def __repr__(self) -> str:
        number = self.snapshot.id if self.snapshot else None
        parts = [repr(self.context.store.uri), f"snapshot={number}", f"columns={[*self.columns]}"]
        condition = self._condition()
        if condition is not None:
            parts.append(f"filter={condition}")
        if self.limit is not None:
            parts.append(f"limit={self.limit}")
        return f"Scan({', '.join(parts)})"

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        fields = self.context.read_schema
        return pa.schema([fields.field(name) for name in self.columns])

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Stream the rows; memory stays within `scan.memory-budget` whatever the table's size."""
        counters, num_rows = self.context.counters, 0
        counters.add(scans=1)
        uri, number = self.context.store.uri, self.snapshot.id if self.snapshot else 0
        with tracing.span("lsmerge.scan", uri, is_current=False, snapshot=number) as current:
            try:
                for batch in self._limited():
                    num_rows += batch.num_rows
                    yield batch
            finally:
                counters.add(rows_read=num_rows)
                current.note(rows=num_rows)

    def splits(self, target_size: Any = None, readers: int | None = None) -> list[ScanSplit]:
        """The scan cut into parts of about `target_size` bytes, to be read by `Table.read_split` in any process.

        The default is 32 MB, and less for small tables, so that each of so many `readers`, or of a few, has some. Parts
        can be pickled, share no key, and hold together exactly the rows of the scan. An empty table has none.

        >>> import lsmerge, pyarrow as pa
        >>> t = lsmerge.create_table("memory://splits", pa.schema({"k": pa.int64()}), "k", options={"bucket": 4})
        >>> _ = t.upsert({"k": range(100)})
        >>> parts = t.scan(filter="k < 50").splits(target_size="1 kb")
        >>> sum(batch.num_rows for part in parts for batch in t.read_split(part))
        50
        """
        if self.limit is not None:
            raise InvalidFilterError(
                f"limit = {self.limit}: parts of a scan do not know of each other; split a scan without a limit"
            )
        if readers is not None and readers < 1:
            raise InvalidOptionError(f"readers = {readers}: accepted: 1 or more")
        asked = None if target_size is None else target_bytes(target_size)
        with reading(self.context, self.snapshot):
            version, places = self._plan()
            if version is None:
                return []
            if asked is None:
                total = sum(bytes_of(version.files(place)) for place in places)
                sizes = default_sizes(total, readers)
            else:
                sizes = PartSizes(asked, asked)
            buckets = ((place, version.runs(place)) for place in places)
            pieces = list(weighed_pieces(self.context, buckets, self._key_range(), sizes.cut))
        snapshot, schema = version.snapshot, self.context.schema
        pinned = PinnedSnapshot(snapshot.id, snapshot.commit_uuid, schema.id)
        return [
            ScanSplit(
                pinned,
                self.columns,
                tuple(weighed.piece for weighed in members),
                sum(weighed.num_rows for weighed in members),
                sum(weighed.size_bytes for weighed in members),
                self.predicate,
                self.expression,
            )
            for members in packed(pieces, (p.size_bytes for p in pieces), sizes.packed)
        ]

    def plain_files(self) -> list[str]:
        """The Parquet files whose rows are exactly those of the scan, relative to the table, for other readers.

        There are such only of a scan without filter and limit of a table that was fully compacted, holds no deletes,
        and was not altered since; else NotPlainError tells what is in the way. Other readers do not check
        lsmerge's checksums, and find the files only as long as the snapshot is there.
        """
        with reading(self.context, self.snapshot):
            version, places = self._plan()
            if version is None:
                return []
            found: list[DataFile] | str = "a filter or limit is for merged rows"
            if self._condition() is None and self.limit is None:
                version.preload(places)
                found = plain_files(self.context, version)
        if isinstance(found, list) and has_foreign_types(self.schema):
            found = (
                "other readers have no type for times, or for timestamps in seconds or nanoseconds"
            )
        if isinstance(found, str):
            raise NotPlainError(
                f"{self.context.store.uri} at snapshot {version.snapshot.id}: {found}"
            )
        return [self.context.file_path(file) for file in found]

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as an Arrow stream."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def to_arrow(self) -> pa.Table:
        """All rows as one table."""
        return pa.Table.from_batches(self.to_batches(), self.schema)

    def to_pandas(self) -> Any:
        """All rows as a pandas DataFrame."""
        return frames.pandas_frame(self.to_arrow)

    def to_polars(self) -> Any:
        """All rows as a polars DataFrame."""
        return frames.polars_frame(self.to_arrow)

    def to_polars_lazy(self) -> Any:
        """The rows as a polars LazyFrame: a query on it reads only the columns, files and blocks that it needs.

        What polars selects, filters by (where lsmerge understands it) and limits to reaches the scan; polars
        evaluates the filter itself once more. The snapshot is that of the scan, however often it is collected.
        """
        return frames.polars_lazy_frame(self.context.schema, self.schema, self._read_for_polars)

    def to_dataset(self) -> Any:
        """The rows as a `pyarrow.dataset.Dataset`, into which DuckDB and others push columns and filters.

        The snapshot is that of the scan, however often it is read. Datasets that consist of files have methods that
        make no sense here (`get_fragments`, `join`, `sort_by`, ...): these raise NotPlainError.

        >>> import lsmerge, pyarrow as pa, pyarrow.compute as pc
        >>> t = lsmerge.create_table("memory://dataset", pa.schema({"k": pa.int64(), "v": pa.string()}), ["k"])
        >>> _ = t.upsert([{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
        >>> t.scan().to_dataset().to_table(columns=["v"], filter=pc.field("k") > 1).to_pylist()
        [{'v': 'b'}]
        """
        return dataset(self.schema, self._read_for_arrow)

    def write_parquet(
        self,
        uri: Location,
        *,
        max_file_size: Any = "128 mb",
        storage_options: Mapping[str, str] | None = None,
    ) -> ExportReport:
        """Write the rows as Parquet files into a directory that holds nothing yet, for other systems to keep.

        Each file is whole and durable, or not there; if it fails, none is. Memory does not grow with the table.
        """
        budget = self.context.options.scan_memory_budget
        return export.write_parquet(
            self.schema, self.to_batches(), uri, max_file_size, budget, storage_options
        )

    def write_delta(
        self,
        uri: Location,
        *,
        mode: str = "error",
        storage_options: Mapping[str, str] | None = None,
    ) -> int:
        """Write the rows as one commit of a Delta table, whose new version is returned.

        With `mode="overwrite"` they replace what the Delta table held; "error" refuses one that is there. Columns
        with times of day, or with timestamps finer than a microsecond, are refused. Needs the package deltalake.
        """
        return export.write_delta(self.schema, self.to_batches(), uri, mode, storage_options)

    def count(self) -> int:
        """How many rows there are; reads only what merging and filtering need."""
        return sum(batch.num_rows for batch in self._narrowed().to_batches())

    def explain(self) -> dict[str, Any]:
        """What the scan would read, without reading rows."""
        with reading(self.context, self.snapshot):
            return self._explained()

    def _explained(self) -> dict[str, Any]:
        version, places = self._plan()
        if version is None:
            return {"snapshot": None, "buckets": []}
        return {
            "snapshot": version.snapshot.id,
            "columns": list(self.columns),
            "partitions_total": len({place.partition for place in version.places()}),
            "partitions": len({place.partition for place in places}),
            "buckets": [self._explain_bucket(version, place) for place in places],
        }

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows for any Arrow consumer."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The schema for any Arrow consumer."""
        return self.schema.__arrow_c_schema__()

    def _read_for_polars(
        self, columns: Sequence[str] | None, predicate: Predicate | None, limit: int | None
    ) -> Iterator[pa.RecordBatch]:
        """At least the rows that pass `predicate`; never more than `limit` if that is given."""
        wanted = self._restricted(self.columns if columns is None else columns, predicate)
        limits = [number for number in (self.limit, limit) if number is not None]
        return replace(wanted, limit=min(limits, default=None)).to_batches()

    def _read_for_arrow(self, columns: Sequence[str] | None, filter_: Any) -> pa.RecordBatchReader:
        """At least these columns, those that the filter needs, and the rows that pass it."""
        predicate = None
        if filter_ is not None:
            predicate = arrow_expression.predicate_of(filter_, self.context.schema)
        if columns is None or (filter_ is not None and predicate is None):
            return self._restricted(self.columns, predicate).to_reader()
        used = {*columns, *(predicate.columns() if predicate else ())}
        # A query that only counts rows asks for no column.
        names = [name for name in self.columns if name in used] or self.columns[:1]
        return self._restricted(names, predicate).to_reader()

    def _restricted(self, columns: Sequence[str], predicate: Predicate | None) -> Self:
        """The scan with fewer columns, and without some of the rows that do not pass `predicate`."""
        scan = replace(self, columns=tuple(columns))
        # A limit counts rows before anything else is asked of them.
        if predicate is None or self.limit is not None:
            return scan
        return replace(scan, predicate=predicate.also(self.predicate))

    def _narrowed(self) -> Self:
        first_key = self.context.schema.trimmed_key[0]
        return replace(self, columns=(first_key,))

    def _limited(self) -> Iterator[pa.RecordBatch]:
        remaining = sys.maxsize if self.limit is None else self.limit
        with reading(self.context, self.snapshot):
            for batch in self._filtered():
                rows = batch.slice(0, remaining)
                remaining -= rows.num_rows
                if rows.num_rows:
                    yield rows
                if remaining == 0:
                    return

    def _filtered(self) -> Iterator[pa.RecordBatch]:
        condition = self._condition()
        read = list(self.columns if condition is None else self._columns_with_filter())
        defaults = default_values(self.context.schema)
        sections, keys = list(self._sections()), self._key_range()
        held = self._held(sections)
        schema = self.schema
        for merged in resolved_batches(self.context, sections, read, keys, self._value_filter()):
            batch = with_defaults(merged, defaults)
            rows = batch if condition is None else passing(batch, condition)
            columns = rows.columns if condition is None else rows.select(self.columns).columns
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
        del held  # the files may go now

    def _held(self, sections: Sequence[Section]) -> list[RunReader]:
        """Open the files now: expiry may delete what a reader holds, and local disks keep it readable until it is done.

        Of more files than are kept open at once, and of a read that may end after a few rows, each is opened when it
        is needed.
        """
        files = [file for section in sections for file in section.files]
        if self.limit is not None or len(files) > MAX_OPEN_RUNS:
            return []
        return [self.context.reader(file) for file in files]

    def _sections(self) -> Iterator[Section]:
        version, places = self._plan()
        if version is None:
            return
        wanted = self._key_range()
        pieces = self.pieces or [Piece(place, ALL_KEYS) for place in places]
        for place, span in pieces:
            yield from split_into_sections(version.runs(place), wanted, span)

    def _plan(self) -> tuple[Version | None, list[BucketId]]:
        """The version to read, and the buckets of it that may hold wanted rows."""
        if self.snapshot is None:
            return None, []
        version = self.context.versions.load(self.snapshot)
        if self.pieces is None:
            places = self._surviving(version.places())
        else:
            places = list(dict.fromkeys(piece.place for piece in self.pieces))
        version.preload(places)
        return version, places

    def _surviving(self, places: list[BucketId]) -> list[BucketId]:
        """Partitions whose values satisfy what the filter says of partition columns alone."""
        columns = self.context.schema.partition_by
        condition = self.predicate.restricted_to(columns) if self.predicate and columns else None
        if condition is None:
            return places
        partitions = sorted({place.partition for place in places}, key=repr)
        schema = self.context.schema.row_schema
        table = pa.table(
            {
                name: partition_array([p[i] for p in partitions], schema.field(name).type)
                for i, name in enumerate(columns)
            }
        ).append_column("", pa.array(range(len(partitions))))
        kept = {
            partitions[i] for i in table.filter(condition.to_arrow_expression())[""].to_pylist()
        }
        return [place for place in places if place.partition in kept]

    def _key_range(self) -> KeyRange:
        return key_range(self.context.schema, self.predicate) if self.predicate else EVERYTHING

    def _value_filter(self) -> ValueFilter:
        return ValueFilter.of(self.context, self.predicate)

    def _condition(self) -> Any:
        if self.predicate is None:
            return self.expression
        condition = self.predicate.to_arrow_expression()
        return condition if self.expression is None else condition & self.expression

    def _columns_with_filter(self) -> Sequence[str]:
        if self.predicate is None or self.expression is not None:
            return self.context.schema.column_names
        used = {*self.columns, *self.predicate.columns()}
        return [name for name in self.context.schema.column_names if name in used]

    def _explain_bucket(self, version: Version, place: BucketId) -> dict[str, Any]:
        """Files and blocks by key range, then those of them that statistics of values leave to be read."""
        wanted, values = self._key_range(), self._value_filter()
        sections = split_into_sections(version.runs(place), wanted)
        blocks = [len(blocks_of(self.context, section, wanted)) for section in sections]
        read = [
            block
            for section in sections
            for block in blocks_to_read(self.context, section, wanted, values)
        ]
        return {
            "partition": dict(zip(self.context.schema.partition_by, place.partition, strict=True)),
            "bucket": place.bucket,
            "files_total": len(version.files(place)),
            "files": sum(len(section.files) for section in sections),
            "blocks": sum(blocks),
            "files_read": len({block.file.name for block in read}),
            "blocks_read": len(read),
            "sections": [{"runs": len(s.runs), "files": len(s.files)} for s in sections],
        }
