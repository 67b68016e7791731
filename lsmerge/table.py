"""The facade: each method hands over to one path of the engine."""

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, NoReturn, Self

import pyarrow as pa

from lsmerge.engine import compact, lookup, opening, verify, write
from lsmerge.engine import follow as changes
from lsmerge.engine import overwrite as overwriting
from lsmerge.engine import partitions as partitioning
from lsmerge.engine import recluster as reclustering
from lsmerge.engine import rescale as rescaling
from lsmerge.engine.compact import CompactionReport
from lsmerge.engine.context import TableContext
from lsmerge.engine.opening import Location, store_at
from lsmerge.engine.partitions import PartitionInfo
from lsmerge.engine.read import Scan
from lsmerge.engine.rescale import RescaleReport
from lsmerge.engine.verify import VerifyReport
from lsmerge.engine.write import TableWriter
from lsmerge.env import Env
from lsmerge.errors import TableClosedError
from lsmerge.meta.snapshot import Snapshot


def create_table(
    uri: Location,
    schema: Any,
    primary_key: str | Sequence[str],
    *,
    partition_by: str | Sequence[str] = (),
    options: Mapping[str, object] | None = None,
    storage_options: Mapping[str, str] | None = None,
    exist_ok: bool = False,
) -> "Table":
    """Create a table at `uri`: a path (text or pathlib.Path), or file://, memory://, s3://, gs:// or az://.

    `schema` is a pyarrow.Schema or anything with `__arrow_c_schema__`; key columns become not-null. With
    `exist_ok` a table of the same definition that is there already is opened instead; options are the same
    if their values are, however spelled. A place that holds anything else is refused.

    >>> import lsmerge, pyarrow as pa
    >>> schema = pa.schema({"id": pa.int64(), "name": pa.string()})
    >>> t = lsmerge.create_table("memory://create", schema, "id", options={"bucket": 2})
    >>> t.upsert([{"id": 1, "name": "a"}]).id
    1
    """
    store = store_at(uri, storage_options)
    context = opening.create(
        store,
        schema,
        primary_key,
        partition_by,
        {} if options is None else options,
        exist_ok=exist_ok,
        env=Env.system(),
    )
    return Table(context)


def open_table(uri: Location, *, storage_options: Mapping[str, str] | None = None) -> "Table":
    """Open the table at `uri`."""
    return Table(opening.open_existing(store_at(uri, storage_options), env=Env.system()))


class Table:
    """A keyed table. Reads see whole snapshots; every write is one durable, atomic commit.

    A table may be used from several threads, and opened by several processes at once.
    """

    def __init__(self, context: TableContext) -> None:
        self._open_context: TableContext | None = context

    @property
    def uri(self) -> str:
        """Where the table is."""
        return self._context.store.uri

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        return self._context.schema.arrow_schema

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The columns that identify a row."""
        return self._context.schema.primary_key

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The partition columns."""
        return self._context.schema.partition_by

    @property
    def options(self) -> dict[str, str]:
        """The options given at creation, by canonical name."""
        return dict(self._context.schema.options)

    def write(
        self,
        data: Any,
        *,
        columns: Sequence[str] | None = None,
        commit_user: str | None = None,
        commit_id: int | None = None,
    ) -> Snapshot:
        """Write rows in one commit; an optional `_row_kind` column holds +I, -U, +U or -D.

        `columns` names the columns that `data` must have, the key among them; today it takes whole rows only.
        With `commit_user` and `commit_id` the commit happens at most once: a second one with the same pair
        returns the snapshot of the first.
        """
        return write.write(self._context, data, columns, commit_user, commit_id)

    def upsert(self, data: Any) -> Snapshot:
        """Insert rows, or update those whose key is there, in one commit."""
        return self.write(data)

    def delete(self, keys: Any) -> Snapshot:
        """Delete the rows of these keys, in one commit; keys that have no row are fine.

        `keys` is a list of values (tuples or dicts for a composite key), or Arrow data with the key columns; a
        table with `sequence.field` or sequence groups also needs their columns, since a delete has its place in
        that order. In a table ordered by event time it removes whatever came before; for a delete with a time, write
        a `-D` row.

        >>> import lsmerge, pyarrow as pa
        >>> t = lsmerge.create_table("memory://delete", pa.schema({"k": pa.int64()}), "k")
        >>> _ = t.upsert({"k": [1, 2, 3]})
        >>> _ = t.delete([1, 3])
        >>> t.scan().to_arrow()["k"].to_pylist()
        [2]
        """
        return write.delete(self._context, keys)

    def overwrite(
        self,
        data: Any,
        partition: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        *,
        mode: str = "static",
        commit_user: str | None = None,
        commit_id: int | None = None,
    ) -> Snapshot:
        """Replace all rows of the table, or of the partitions named, by `data`, in one commit.

        `partition` holds values of some or all partition columns; a list of such names several. With
        `mode="dynamic"` the partitions that `data` has rows of are replaced. What goes is what is there when the
        overwrite lands. Followers of the changelog do not see it, unless `streaming-read-overwrite` is set.

        >>> import lsmerge, pyarrow as pa
        >>> schema = pa.schema({"day": pa.string(), "k": pa.int64()})
        >>> t = lsmerge.create_table("memory://overwrite", schema, ["day", "k"], partition_by="day")
        >>> _ = t.upsert({"day": ["mon", "mon", "tue"], "k": [1, 2, 3]})
        >>> _ = t.overwrite({"day": ["mon"], "k": [9]}, {"day": "mon"})
        >>> t.scan().to_arrow()["k"].to_pylist()
        [9, 3]
        """
        return overwriting.overwrite(self._context, data, partition, mode, commit_user, commit_id)

    def drop_partition(
        self,
        partition: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        commit_user: str | None = None,
        commit_id: int | None = None,
    ) -> Snapshot:
        """Remove all rows of the partitions named, in one commit; partitions that are not there are fine.

        >>> import lsmerge, pyarrow as pa
        >>> schema = pa.schema({"day": pa.string(), "k": pa.int64()})
        >>> t = lsmerge.create_table("memory://drop", schema, ["day", "k"], partition_by="day")
        >>> _ = t.upsert({"day": ["mon", "tue"], "k": [1, 2]})
        >>> _ = t.drop_partition({"day": "mon"})
        >>> [p.values for p in t.partitions()]
        [{'day': 'tue'}]
        """
        return overwriting.drop_partition(self._context, partition, commit_user, commit_id)

    def partitions(self) -> list[PartitionInfo]:
        """The partitions of the newest snapshot: values, rows stored, files, bytes and buckets."""
        return partitioning.partitions(self._context, self.latest_snapshot())

    def rescale(
        self,
        num_buckets: int,
        partition: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    ) -> RescaleReport:
        """Split all partitions, or those named, into another number of buckets, in one commit.

        A partition keeps its number from then on, whatever the option `bucket` says; partitions to come get that of
        the option. Writers may go on meanwhile.

        >>> import lsmerge, pyarrow as pa
        >>> t = lsmerge.create_table("memory://rescale", pa.schema({"k": pa.int64()}), "k")
        >>> _ = t.upsert({"k": range(100)})
        >>> _ = t.rescale(4)
        >>> t.partitions()[0].buckets, t.scan().count(), t.get(42)
        (4, 100, {'k': 42})
        """
        return rescaling.rescale(self._context, num_buckets, partition)

    def sort_compact(
        self,
        by: str | Sequence[str],
        *,
        order: str = "order",
        partition: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    ) -> NoReturn:
        """Cluster rows by columns other than the key, linearly ("order") or by a z-order curve ("zorder").

        Refused where the hash of the key chooses the bucket of a row, as it does in every table today.
        """
        reclustering.sort_compact(self._context, by, order, partition)

    def writer(
        self,
        *,
        columns: Sequence[str] | None = None,
        commit_user: str | None = None,
        commit_id: int | None = None,
    ) -> TableWriter:
        """Collect many batches into one commit, made at the end of the block; nothing if the block raises.

        Rows written are not visible, also not to this process, before the block has ended.

        >>> import lsmerge, pyarrow as pa
        >>> t = lsmerge.create_table("memory://writer", pa.schema({"k": pa.int64()}), "k")
        >>> with t.writer() as w:
        ...     w.write({"k": [1]})
        ...     w.write({"k": [2]})
        >>> t.scan().count(), t.latest_snapshot().id
        (2, 1)
        """
        return TableWriter(self._context, columns, commit_user, commit_id)

    def get(self, key: Any) -> dict[str, Any] | None:
        """The row of one key, or None.

        Values are Python's; a time or timestamp with nanoseconds that Python cannot hold stays an Arrow scalar.

        >>> import lsmerge, pyarrow as pa
        >>> t = lsmerge.create_table("memory://get", pa.schema({"k": pa.int64(), "v": pa.string()}), "k")
        >>> _ = t.upsert([{"k": 1, "v": "a"}])
        >>> t.get(1)
        {'k': 1, 'v': 'a'}
        """
        return lookup.get(self._context, self.latest_snapshot(), key)

    def get_many(self, keys: Any) -> pa.Table:
        """The rows of many keys, in the order asked; each key once, keys without a row left out."""
        return lookup.get_many(self._context, self.latest_snapshot(), keys)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: Any = None,  # noqa: A002 - the name users of Arrow expect
        *,
        snapshot: int | None = None,
        limit: int | None = None,
    ) -> Scan:
        """Describe a read of a snapshot, the newest by default; arguments are checked here, rows read later.

        `columns` is a list of names, each once. `filter` is a text such as `"k >= 5 and v is not null"`, a list
        of (column, operator, value) tuples, or a pyarrow expression (which prunes nothing).
        """
        return Scan.of(self._context, self._snapshot(snapshot), columns, filter, limit)

    def changelog(
        self, start: int | None = None, end: int | None = None, *, follow: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """The changes of snapshots `start` (1 by default) to `end`, both inclusive, in commit order.

        Batches have the table's columns, and `_row_kind`, `_snapshot_id`, `_commit_timestamp`. A start that is
        not there any more is refused at once; one still to come gives nothing yet. With `follow` the iterator
        waits for snapshots to come.
        """
        return changes.changelog(self._context, start, end, follow=follow)

    def compact(self, full: bool = False) -> CompactionReport:
        """Merge sorted runs: those that the options ask for, or all into one per bucket."""
        return compact.compact(self._context, full=full)

    def verify(self) -> VerifyReport:
        """Read every byte that any retained snapshot needs, and name all that is missing or damaged."""
        return verify.verify(self._context)

    def latest_snapshot(self) -> Snapshot | None:
        """The newest committed snapshot, None before the first commit."""
        return self._context.snapshots.latest()

    def snapshots(self) -> list[Snapshot]:
        """All retained snapshots, oldest first."""
        return list(self._context.snapshots.newest_first())[::-1]

    def close(self) -> None:
        """Release open files and caches. Using the table afterwards is an error."""
        if self._open_context is not None:
            self._open_context.runs.close()
        self._open_context = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._open_context is None:
            return "Table(closed)"
        return f"Table({self.uri!r}, primary_key={list(self.primary_key)})"

    def __reduce__(self) -> NoReturn:
        """Refused: an open table holds files and caches of this process."""
        raise TypeError(
            "a Table cannot be copied or pickled: hand over its uri and call lsmerge.open_table there"
        )

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The newest snapshot's rows for any Arrow consumer."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The columns for any Arrow consumer."""
        return self.schema.__arrow_c_schema__()

    @property
    def _context(self) -> TableContext:
        if self._open_context is None:
            raise TableClosedError("the table was closed; open it again with open_table")
        return self._open_context

    def _snapshot(self, number: int | None) -> Snapshot | None:
        if number is None:
            return self.latest_snapshot()
        return self._context.snapshots.get(number)
