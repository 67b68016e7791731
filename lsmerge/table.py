"""The facade: each method hands over to one path of the engine."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

import pyarrow as pa

from lsmerge.engine import (
    compact,
    expiry,
    file_list,
    lookup,
    opening,
    orphans,
    snapshot_diff,
    stats,
    task_commit,
    time_travel,
    verify,
    warehouse,
    work,
    write,
)
from lsmerge.engine import follow as changes
from lsmerge.engine import overwrite as overwriting
from lsmerge.engine import partitions as partitioning
from lsmerge.engine import rescale as rescaling
from lsmerge.engine import sort_compact as sorting
from lsmerge.engine.alter import alter
from lsmerge.engine.change_splits import ChangeSplit, read_changes
from lsmerge.engine.compact import CompactionReport
from lsmerge.engine.context import TableContext
from lsmerge.engine.expiry import ExpiryReport
from lsmerge.engine.feed import Feed
from lsmerge.engine.file_list import FileInfo
from lsmerge.engine.opening import Location, store_at
from lsmerge.engine.orphans import OrphanReport
from lsmerge.engine.partition_rewrite import RewriteReport
from lsmerge.engine.partitions import PartitionInfo
from lsmerge.engine.places import load_key_map
from lsmerge.engine.progress import hook_of
from lsmerge.engine.read import Scan
from lsmerge.engine.rollback import rollback_to
from lsmerge.engine.run_cache import CacheStats
from lsmerge.engine.schema_views import refreshed
from lsmerge.engine.splits import ScanSplit
from lsmerge.engine.stats import TableStats
from lsmerge.engine.task_write import TaskWriter
from lsmerge.engine.time_travel import HistoryEntry
from lsmerge.engine.verify import VerifyReport
from lsmerge.engine.write import TableWriter
from lsmerge.env import Env
from lsmerge.errors import InvalidOptionError, SnapshotExpiredError, TableClosedError
from lsmerge.evolution import SchemaChange
from lsmerge.meta import schema_store
from lsmerge.meta.consumer import ConsumerStore
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.tag import Tag, TagStore
from lsmerge.metrics import TableMetrics
from lsmerge.option_registry import OPTIONS
from lsmerge.schema import TableSchema

T = TypeVar("T")


def create_table(
    uri: Location,
    schema: Any,
    primary_key: str | Sequence[str],
    *,
    partition_by: str | Sequence[str] = (),
    options: Mapping[str, object] | None = None,
    comment: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    exist_ok: bool = False,
) -> "Table":
    """Create a table at `uri`: a path (text or pathlib.Path), or file://, memory://, s3://, gs:// or az://.

    `schema` is a pyarrow.Schema or anything with `__arrow_c_schema__`; key columns become not-null. With
    `exist_ok` a table of the same definition that is there already is opened instead; options are the same
    if their values are, however spelled. A place that holds anything else is refused. `comment` says what the table is
    for; `describe` shows it.

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
        comment=comment,
        exist_ok=exist_ok,
        env=Env.system(),
    )
    return Table(context)


def open_table(uri: Location, *, storage_options: Mapping[str, str] | None = None) -> "Table":
    """Open the table at `uri`, which is as in `create_table`.

    >>> import lsmerge, pyarrow as pa
    >>> _ = lsmerge.create_table("memory://open", pa.schema({"k": pa.int64()}), "k")
    >>> lsmerge.open_table("memory://open")
    Table('memory://open', primary_key=['k'])
    """
    return Table(opening.open_existing(store_at(uri, storage_options), env=Env.system()))


def list_tables(uri: Location, *, storage_options: Mapping[str, str] | None = None) -> list[str]:
    """The names of the tables directly below `uri`; a place that is not there has none.

    >>> import lsmerge, pyarrow as pa
    >>> _ = lsmerge.create_table("memory://shop/orders", pa.schema({"id": pa.int64()}), "id")
    >>> lsmerge.list_tables("memory://shop")
    ['orders']
    """
    return warehouse.table_names(store_at(uri, storage_options))


def drop_table(uri: Location, *, storage_options: Mapping[str, str] | None = None) -> None:
    """Delete the table at `uri` with all its snapshots and tags; directories stay only if they hold files of others.

    Whoever still uses it meets files that are gone. A drop that failed half-way can be repeated.
    """
    warehouse.drop(store_at(uri, storage_options))


class Table:
    """A keyed table. Reads see whole snapshots; every write is one durable, atomic commit.

    A table may be used from several threads, and opened by several processes at once.
    """

    def __init__(self, context: TableContext) -> None:
        self._open_context: TableContext | None = context
        self._points = context.points

    @property
    def uri(self) -> str:
        """Where the table is."""
        return self._context.store.uri

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table, as of its last use."""
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
        """The options of the table, by canonical name."""
        return dict(self._context.schema.options)

    @staticmethod
    def known_options() -> dict[str, str]:
        """What each option that a table may be given is for, by canonical name; `<f>` stands for a column."""
        return {option.name: option.doc for option in OPTIONS if option.available}

    def describe(self) -> dict[str, Any]:
        """The definition of the table as plain values: columns with their types as text, keys, options, schema number.

        >>> import lsmerge, pyarrow as pa
        >>> t = lsmerge.create_table("memory://describe", pa.schema({"k": pa.int64()}), "k")
        >>> t.describe()["columns"]
        [{'id': 1, 'name': 'k', 'type': 'BIGINT', 'nullable': False}]
        """
        return self._current().schema.to_json()

    def check_definition(
        self,
        *,
        primary_key: str | Sequence[str] | None = None,
        partition_by: str | Sequence[str] | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        """Raise TableExistsError if the table has another key, other partition columns, or other values of `options`.

        What is not given may be anything. Options are the same if their values are, however spelled.
        """
        opening.check_definition(self._current(), primary_key, partition_by, options or {})

    def write(
        self,
        data: Any,
        *,
        columns: Sequence[str] | None = None,
        commit_user: str | None = None,
        commit_id: int | None = None,
    ) -> Snapshot:
        """Write rows in one commit; an optional `_row_kind` column holds +I, -U, +U or -D.

        `columns` names the columns that `data` has, the whole key among them. Other columns keep their values, or
        are null where the key is new; a `-D` empties the columns named, and removes the row if no other holds a
        value. First-row and versioned tables, and tables with NOT NULL columns beside the key, take whole rows only.
        With `commit_user` and `commit_id` the commit happens at most once: a second one with the same pair
        returns the snapshot of the first, or the newest if that one has expired. Without them, data that has no rows
        makes no snapshot: the newest is returned (of a table that has none, an empty first one is made).

        >>> import lsmerge, pyarrow as pa
        >>> t = lsmerge.create_table("memory://write", pa.schema({n: pa.int64() for n in ("k", "a", "b")}), "k")
        >>> _ = t.write([{"k": 1, "a": 1, "b": 1}])
        >>> _ = t.write([{"k": 1, "a": None}, {"k": 2, "a": 2}], columns=["k", "a"])
        >>> t.get(1), t.get(2)
        ({'k': 1, 'a': None, 'b': 1}, {'k': 2, 'a': 2, 'b': None})
        """
        return write.write(self._current(), data, columns, commit_user, commit_id)

    def upsert(self, data: Any) -> Snapshot:
        """Insert rows, or update those whose key is there, in one commit.

        `data` is a list of dicts, a dict of columns, a pyarrow table or batch, or anything else that speaks Arrow. It
        may have a `_row_kind` column, as in `write`.

        >>> import lsmerge, pyarrow as pa
        >>> t = lsmerge.create_table("memory://upsert", pa.schema({"k": pa.int64(), "v": pa.string()}), "k")
        >>> _ = t.upsert([{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
        >>> t.upsert({"k": [2], "v": ["c"]}).id
        2
        >>> t.get(2)
        {'k': 2, 'v': 'c'}
        """
        return self.write(data)

    def delete(
        self, keys: Any, *, columns: Sequence[str] | None = None, based_on: int | None = None
    ) -> Snapshot:
        """Delete the rows of these keys, in one commit; keys that have no row are fine.

        `keys` is a list of values (tuples or dicts for a composite key), or Arrow data with the key columns; a
        table with `sequence.field` or sequence groups also needs their columns, since a delete has its place in
        that order. In a table ordered by event time it removes whatever came before; for a delete with a time, write
        a `-D` row. `columns`, as in `write`, empties these columns and leaves a row that holds other values.
        `based_on` is as in `writer`.

        >>> import lsmerge, pyarrow as pa
        >>> t = lsmerge.create_table("memory://delete", pa.schema({"k": pa.int64()}), "k")
        >>> _ = t.upsert({"k": [1, 2, 3]})
        >>> _ = t.delete([1, 3])
        >>> t.scan().to_arrow()["k"].to_pylist()
        [2]
        """
        return write.delete(self._current(), keys, columns, based_on)

    @property
    def delete_columns(self) -> tuple[str, ...]:
        """The columns that data for `delete` has: the key, and those that order the rows of a key."""
        return write.delete_columns(self._context)

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
        return overwriting.overwrite(self._current(), data, partition, mode, commit_user, commit_id)

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
        return overwriting.drop_partition(self._current(), partition, commit_user, commit_id)

    def partitions(self) -> list[PartitionInfo]:
        """The partitions of the newest snapshot: values, rows stored, files, bytes and buckets.

        >>> import lsmerge, pyarrow as pa
        >>> schema = pa.schema({"day": pa.string(), "k": pa.int64()})
        >>> t = lsmerge.create_table("memory://partitions", schema, ["day", "k"], partition_by="day")
        >>> _ = t.upsert({"day": ["mon", "mon", "tue"], "k": [1, 2, 3]})
        >>> [(p.values, p.rows) for p in t.partitions()]
        [({'day': 'mon'}, 2), ({'day': 'tue'}, 1)]
        """
        return partitioning.partitions(self._context, self.latest_snapshot())

    def rescale(
        self,
        num_buckets: int,
        partition: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        *,
        progress: Any = None,
    ) -> RewriteReport:
        """Split all partitions, or those named, into another number of buckets, in one commit.

        A partition keeps its number from then on, whatever the option `bucket` says; partitions to come get that of
        the option. Writers may go on meanwhile. `progress` is as in `compact`.

        >>> import lsmerge, pyarrow as pa
        >>> t = lsmerge.create_table("memory://rescale", pa.schema({"k": pa.int64()}), "k")
        >>> _ = t.upsert({"k": range(100)})
        >>> _ = t.rescale(4)
        >>> t.partitions()[0].buckets, t.scan().count(), t.get(42)
        (4, 100, {'k': 42})
        """
        return rescaling.rescale(
            self._current(), num_buckets, partition, hook_of(progress, "rescale")
        )

    def sort_compact(
        self,
        by: str | Sequence[str],
        *,
        order: str = "order",
        partition: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        buckets: int | None = None,
        progress: Any = None,
    ) -> RewriteReport:
        """Compact partitions fully, with rows that are near in the columns `by` in the same bucket, in one commit.

        Scans that filter by these columns then skip the files of other buckets. "order" compares the columns one
        after the other; the curves "zorder" and "hilbert" give each the same weight. `buckets` is into how many
        parts a partition is cut.
        For tables with `bucket` = -1; elsewhere the hash of the key chooses the bucket. Writers may go on meanwhile;
        what they write later lies anywhere until the next call. `progress` is as in `compact`.

        >>> import lsmerge, pyarrow as pa
        >>> schema = pa.schema({"k": pa.int64(), "city": pa.string()})
        >>> t = lsmerge.create_table("memory://cluster", schema, "k", options={"bucket": -1})
        >>> _ = t.upsert({"k": range(90), "city": ["oslo", "rome", "lima"] * 30})
        >>> _ = t.sort_compact("city", buckets=3)
        >>> [bucket["files_read"] for bucket in t.scan(filter="city = 'oslo'").explain()["buckets"]]
        [0, 1, 0]
        """
        return sorting.sort_compact(
            self._current(), by, order, partition, buckets, hook_of(progress, "sort-compact")
        )

    def writer(
        self,
        *,
        columns: Sequence[str] | None = None,
        commit_user: str | None = None,
        commit_id: int | None = None,
        based_on: int | None = None,
    ) -> TableWriter:
        """Collect many batches into one commit, made at the end of the block; nothing if the block raises.

        Rows written are not visible, also not to this process, before the block has ended. `columns` is as in
        `write`, for all batches. `based_on` is the number of the snapshot that the rows were computed from (0: of a
        table without one): if others changed rows since, the block ends with CommitConflictError and nothing is
        published; read again then. Compactions in between do not count.

        >>> import lsmerge, pyarrow as pa
        >>> t = lsmerge.create_table("memory://writer", pa.schema({"k": pa.int64()}), "k")
        >>> with t.writer() as w:
        ...     w.write({"k": [1]})
        ...     w.write({"k": [2]})
        >>> t.scan().count(), t.latest_snapshot().id
        (2, 1)
        """
        return TableWriter(self._current(), columns, commit_user, commit_id, based_on=based_on)

    def task_writer(
        self,
        columns: Sequence[str] | None = None,
        *,
        share: tuple[int, int] | None = None,
        overwrite: bool = False,
        partition: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        mode: str = "static",
    ) -> TaskWriter:
        """Write one task's part of a commit that many processes make together; see `commit_tasks`.

        `share=(i, n)` promises that this task, one of n, gets all rows of its keys. Such tasks do all the work; without
        shares the commit does what depends on the rows of several tasks. With h = Spark's Murmur3 hash of the key
        (`bucket-key`, else the primary key without partition columns) and b = the option `bucket`, the keys of task i
        are those with `abs(h % n) == i` where buckets are dynamic or b < n, `abs(h % b) % n == i` otherwise; of a
        partitioned table with fixed buckets, those with `abs(hash(partition columns, abs(h % b)) % n) == i`.
        `overwrite`, `partition` and `mode` are those of the commit.

        >>> import lsmerge, pyarrow as pa
        >>> t = lsmerge.create_table("memory://tasks", pa.schema({"k": pa.int64(), "v": pa.string()}), "k")
        >>> messages = []
        >>> for rows in ([{"k": 1, "v": "a"}], [{"k": 1, "v": "b"}, {"k": 2, "v": "c"}]):
        ...     with lsmerge.open_table("memory://tasks").task_writer() as task:  # in any process
        ...         task.write(rows)
        ...         messages.append(task.finish())
        >>> t.commit_tasks(messages).id
        1
        >>> t.scan().to_arrow()["v"].to_pylist()
        ['b', 'c']
        """
        context = self._current()
        replaced = overwriting.replacement_if(overwrite, context, partition, mode)
        return TaskWriter(context, columns, share, replaced)

    def commit_tasks(
        self,
        messages: Sequence[bytes],
        *,
        overwrite: bool = False,
        partition: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        mode: str = "static",
        commit_user: str | None = None,
        commit_id: int | None = None,
    ) -> Snapshot:
        """Publish what tasks wrote in one commit, as if one writer had written it in the order of the messages.

        `overwrite`, `partition` and `mode` are those of `overwrite`; `commit_user` and `commit_id` those of `write`.
        If it fails, nothing is published and the files of the tasks stay: try again, or call `discard_tasks`.
        """
        context = self._current()
        replaced = overwriting.replacement_if(overwrite, context, partition, mode)
        return task_commit.commit_tasks(context, messages, replaced, commit_user, commit_id)

    def discard_tasks(self, messages: Sequence[bytes], *, was_committing: bool = True) -> None:
        """Delete what tasks wrote and no snapshot refers to.

        If `commit_tasks` was called with these messages, say so: where a store may still carry out a request whose
        answer was lost, the files stay then, and are orphans if nothing comes of it.
        """
        task_commit.discard_tasks(self._current(), messages, was_committing=was_committing)

    def get(
        self,
        key: Any,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: Any = None,
    ) -> dict[str, Any] | None:
        """The row of one key, or None; now, or at a snapshot, tag or time as in `scan`.

        Values are Python's; a time or timestamp with nanoseconds that Python cannot hold stays an Arrow scalar.

        >>> import lsmerge, pyarrow as pa
        >>> t = lsmerge.create_table("memory://get", pa.schema({"k": pa.int64(), "v": pa.string()}), "k")
        >>> _ = t.upsert([{"k": 1, "v": "a"}])
        >>> t.get(1)
        {'k': 1, 'v': 'a'}
        """
        if snapshot is not None or tag is not None or timestamp is not None:
            at = (snapshot, tag, timestamp)
            return time_travel.read_at(
                self._current(), at, lambda context, found: lookup.get(context, found, key)
            )
        reader = self._points.newest
        try:
            found = NotImplemented if reader is None else reader.newest(key)
        except SnapshotExpiredError:
            found = NotImplemented
        if found is not NotImplemented:
            row: dict[str, Any] | None = found
            return row
        return self._read_newest(lambda context, newest: lookup.get(context, newest, key))

    def get_many(
        self,
        keys: Any,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: Any = None,
    ) -> pa.Table:
        """The rows of many keys, in the order asked; each key once, keys without a row left out.

        Much faster than as many `get`s. Keys are given as to `delete`, snapshot, tag and time as to `scan`.

        >>> import lsmerge, pyarrow as pa
        >>> t = lsmerge.create_table("memory://get_many", pa.schema({"k": pa.int64(), "v": pa.string()}), "k")
        >>> _ = t.upsert({"k": [1, 2, 3], "v": ["a", "b", "c"]})
        >>> t.get_many([3, 1, 99]).to_pylist()
        [{'k': 3, 'v': 'c'}, {'k': 1, 'v': 'a'}]
        """
        at = (snapshot, tag, timestamp)

        def read(context: TableContext, found: Snapshot | None) -> pa.Table:
            return lookup.get_many(context, found, keys)

        if at != time_travel.NEWEST:
            return time_travel.read_at(self._current(), at, read)
        newest = self._points.newest_snapshot()
        if newest is not None:
            with suppress(SnapshotExpiredError):
                return read(self._context, newest)
        return self._read_newest(read)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: Any = None,  # noqa: A002 - the name users of Arrow expect
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: Any = None,
        limit: int | None = None,
    ) -> Scan:
        """Describe a read of a snapshot, the newest by default; arguments are checked here, rows read later.

        Another snapshot is named by number, by tag, or by a time: the newest one not after `timestamp`, which is a
        datetime with a time zone, ISO text with an offset, or milliseconds since 1970. It is read with the columns
        that the table had then.

        `columns` is a list of names, each once. `filter` is a text such as `"k >= 5 and v is not null"`, a list
        of (column, operator, value) tuples, or a pyarrow expression (which prunes if it only compares columns with
        values).

        >>> import lsmerge, pyarrow as pa
        >>> t = lsmerge.create_table("memory://scan-rows", pa.schema({"k": pa.int64(), "v": pa.string()}), "k")
        >>> _ = t.upsert({"k": [1, 2, 3], "v": ["a", "b", None]})
        >>> t.scan(columns=["k"], filter="v is not null and k >= 2").to_arrow().to_pylist()
        [{'k': 2}]
        >>> t.scan(filter=[("k", ">", 1)]).count()
        2
        """
        context, found = time_travel.chosen(self._current(), snapshot, tag, timestamp)
        return Scan.of(context, found, columns, filter, limit)

    def to_dataset(self) -> Any:
        """The newest snapshot as a `pyarrow.dataset.Dataset`; see `Scan.to_dataset`."""
        return self.scan().to_dataset()

    def changelog(
        self,
        start: Any = None,
        end: int | None = None,
        *,
        follow: bool = False,
        consumer: str | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The changes of snapshots `start` to `end`, both inclusive, in commit order.

        `start` is a snapshot's number (1 by default), a time with its zone (the first snapshot committed then or
        later), "earliest", "latest" (what is committed from now on), or "latest-full" (all rows as they are now, as
        inserts, then what is committed from now on). One that is not there any more is refused at once; one still to
        come gives nothing yet. With `follow` the iterator waits for snapshots to come, and takes over the columns of a
        table that is altered meanwhile.

        A `consumer` goes on where the reader of that name stopped. Its place is kept in the table, and moves on
        when the iterator is asked for more after the last batch of a snapshot.

        Batches have the table's columns, and `_row_kind`, `_snapshot_id`, `_commit_timestamp`. Which changes there are,
        the option `changelog-producer` says.

        >>> import lsmerge, pyarrow as pa
        >>> schema, options = pa.schema({"k": pa.int64(), "v": pa.string()}), {"changelog-producer": "lookup"}
        >>> t = lsmerge.create_table("memory://changelog", schema, "k", options=options)
        >>> _ = t.upsert([{"k": 1, "v": "a"}])
        >>> _ = t.upsert([{"k": 1, "v": "b"}])
        >>> for batch in t.changelog(start=2):
        ...     print(batch["_row_kind"].to_pylist(), batch["v"].to_pylist())
        ['-U', '+U'] ['a', 'b']
        """
        return changes.changelog(self._current(), start, end, follow=follow, consumer=consumer)

    def feed(self, consumer: str | None = None, ttl: Any = None) -> Feed:
        """The changelog in planned batches, whose parts other processes read; for connectors to streaming systems.

        With a `consumer` nothing that it has not committed expires, until `ttl` (a timedelta, or text such as
        `"1 d"`) after its last sign of life; for ever by default.
        """
        return Feed(self._current(), consumer, ttl)

    def read_split(self, split: ScanSplit | ChangeSplit) -> Iterator[pa.RecordBatch]:
        """The rows of one part of a scan (`Scan.splits`) or of the changelog (`Feed.splits`)."""
        context = self._current()
        if isinstance(split, ChangeSplit):
            return read_changes(context, split)
        if isinstance(split, ScanSplit):
            return Scan.of_split(context, split).to_batches()
        raise InvalidOptionError(f"split = {split!r}: pass a part of Scan.splits or Feed.splits")

    def consumers(self) -> dict[str, int]:
        """The next snapshot that each consumer of the changelog needs, by name.

        >>> import lsmerge, pyarrow as pa
        >>> t = lsmerge.create_table("memory://consumers", pa.schema({"k": pa.int64()}), "k")
        >>> _ = t.upsert({"k": [1]})
        >>> for batch in t.changelog(consumer="index"):
        ...     pass  # use the rows
        >>> t.consumers()
        {'index': 2}
        """
        return ConsumerStore(self._context.store).positions()

    def delete_consumer(self, name: str) -> None:
        """Forget a consumer: a reader of that name starts anew."""
        ConsumerStore(self._context.store).delete(name)

    def diff(self, before: int, after: int) -> Iterator[pa.RecordBatch]:
        """What turns the table at one snapshot into the table at another, whatever the producer.

        Batches are those of `changelog`, with the id and time of `after`: `+I` for rows that came, `-D` for rows that
        went, `-U` and `+U` for rows that differ. Files that both snapshots share are read only where rows of other
        files have the same keys.

        >>> import lsmerge, pyarrow as pa
        >>> t = lsmerge.create_table("memory://diff", pa.schema({"k": pa.int64(), "v": pa.string()}), "k")
        >>> _ = t.upsert([{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
        >>> _ = t.upsert([{"k": 1, "v": "c"}, {"k": 2, "v": "b"}])
        >>> for batch in t.diff(1, 2):
        ...     print(batch["_row_kind"].to_pylist(), batch["v"].to_pylist())
        ['-U', '+U'] ['a', 'c']
        """
        return snapshot_diff.diff(self._current(), before, after)

    def compact(
        self,
        full: bool = False,
        partition: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        *,
        progress: Any = None,
    ) -> CompactionReport:
        """Merge sorted runs: those that the options ask for, or all into one per bucket.

        Writers do the former by themselves unless the table is `write-only`. `partition` names some or all of the
        partition columns with their values, a list of such several; only those buckets are looked at. `progress=True`
        draws a bar on the terminal; something to call is called with a CompactionProgress as rows get done: raising
        there ends the compaction, which then leaves nothing. It must not write to the table.

        >>> import lsmerge, pyarrow as pa
        >>> t = lsmerge.create_table("memory://compact", pa.schema({"k": pa.int64()}), "k")
        >>> _ = t.upsert({"k": [1]}), t.upsert({"k": [1, 2]})
        >>> report = t.compact(full=True)
        >>> report.rows_read, report.rows_written
        (3, 2)
        """
        hook = hook_of(progress, "compact")
        return compact.compact(self._current(), full=full, partition=partition, progress=hook)

    def compaction_job(
        self,
        full: bool = False,
        partition: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        *,
        target_size: Any = work.UNIT_BYTES,
    ) -> work.Job[CompactionReport]:
        """`compact` in units of about `target_size` bytes, which other processes do; each publishes its buckets.

        A bucket that another compaction was faster with is counted in `buckets_lost` of the report.
        """
        return work.compaction_job(
            self._current(), full=full, partition=partition, target_size=target_size
        )

    def rescale_job(
        self,
        num_buckets: int,
        partition: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    ) -> work.Job[RewriteReport]:
        """`rescale` in units that other processes do; `finish` publishes them all at once."""
        return work.rescale_job(self._current(), num_buckets, partition)

    def verify_job(self, *, target_size: Any = work.UNIT_BYTES) -> work.Job[VerifyReport]:
        """`verify` in units of about `target_size` bytes, which other processes read."""
        return work.verify_job(self._context, target_size)

    def run_unit(self, unit: work.AnyUnit) -> bytes:
        """Do one unit of a job; what it returns is for `finish` of the job."""
        return work.run(self._current(), unit)

    def load_key_map(self, *, progress: Any = None) -> int:
        """Make the map of where keys may be, as the first commit would; returns how many index files it joins.

        It serves tables whose key leaves the partition open, and is empty for others. What is done is kept if the call
        is interrupted, in the directory of `cross-partition-upsert.index-directory` also for the next process.
        `progress` is True for a bar on the terminal, or called with a FileProgress for each index file that is read.

        >>> import lsmerge, pyarrow as pa
        >>> schema = pa.schema({"country": pa.string(), "user": pa.int64()})
        >>> t = lsmerge.create_table("memory://key-map", schema, "user", partition_by="country", options={"bucket": -1})
        >>> _ = t.upsert({"country": ["de", "fr"], "user": [1, 2]})
        >>> t.load_key_map()
        2
        """
        return load_key_map(self._current(), hook_of(progress, "key map"))

    def stats(self) -> TableStats:
        """Runs, levels, sizes and amplification of every bucket and of the whole table.

        >>> import lsmerge, pyarrow as pa
        >>> t = lsmerge.create_table("memory://stats", pa.schema({"k": pa.int64()}), "k")
        >>> _ = t.upsert({"k": [1]}), t.upsert({"k": [1, 2]})
        >>> t.stats().buckets[0].read_amplification
        2
        """
        return stats.stats(self._current())

    def files(
        self, *, snapshot: int | None = None, tag: str | None = None, timestamp: Any = None
    ) -> list[FileInfo]:
        """The data files of a snapshot, named as in `scan`: level, run, rows, size and key range of each.

        >>> import lsmerge, pyarrow as pa
        >>> t = lsmerge.create_table("memory://files", pa.schema({"k": pa.int64()}), "k")
        >>> _ = t.upsert({"k": [3, 1, 2]})
        >>> [(file.level, file.rows, file.min_key, file.max_key) for file in t.files()]
        [(0, 3, {'k': 1}, {'k': 3})]
        """
        at = (snapshot, tag, timestamp)
        return time_travel.read_at(self._current(), at, file_list.files)

    def metrics(self) -> TableMetrics:
        """What this open table has done so far: rows and bytes written and read, commits, compactions, and more.

        >>> import lsmerge, pyarrow as pa
        >>> t = lsmerge.create_table("memory://metrics", pa.schema({"k": pa.int64()}), "k")
        >>> _ = t.upsert({"k": [1, 2, 3]})
        >>> t.metrics().rows_written, t.metrics().commits
        (3, 1)
        """
        cache = self._context.runs.stats()
        return self._context.counters.reading(
            cache_hits=cache.hits,
            cache_misses=cache.misses,
            cache_disk_hits=cache.disk_hits,
            cache_evictions=cache.evictions,
        )

    def schemas(self) -> list[TableSchema]:
        """Every schema the table has had, oldest first; the last is the present one."""
        store = self._context.store
        last = schema_store.latest_schema_id(store)
        return [schema_store.read_schema(store, number) for number in range(last + 1)]

    def cache_stats(self) -> CacheStats:
        """What the blocks kept for look-ups take, in memory and on local disk, and how often they served."""
        return self._context.runs.stats()

    def verify(self, *, progress: Any = None) -> VerifyReport:
        """Read every byte that any retained snapshot needs, and name all that is missing or damaged.

        `progress` is True for a bar on the terminal, or called with a FileProgress.

        >>> import lsmerge, pyarrow as pa
        >>> t = lsmerge.create_table("memory://verify", pa.schema({"k": pa.int64()}), "k")
        >>> _ = t.upsert({"k": [1]})
        >>> t.verify().ok
        True
        """
        return verify.verify(self._context, hook_of(progress, "verify"))

    def latest_snapshot(self) -> Snapshot | None:
        """The newest committed snapshot, None before the first commit."""
        return self._context.snapshots.latest()

    def snapshots(self) -> list[Snapshot]:
        """All retained snapshots, oldest first."""
        return list(self._context.snapshots.newest_first())[::-1]

    def history(self) -> list[HistoryEntry]:
        """What happened in each retained snapshot, oldest first: time, kind, user, rows and files.

        >>> import lsmerge, pyarrow as pa
        >>> t = lsmerge.create_table("memory://history", pa.schema({"k": pa.int64()}), "k")
        >>> _ = t.upsert({"k": [1, 2]}), t.compact(full=True)
        >>> [(entry.id, str(entry.kind), entry.rows_added) for entry in t.history()]
        [(1, 'append', 2), (2, 'compact', 2)]
        """
        return time_travel.history(self._context)

    def create_tag(self, name: str, snapshot: int | None = None, ttl: Any = None) -> Tag:
        """Name a snapshot, the newest by default; it stays readable as long as the tag is there.

        `ttl`, a timedelta or text such as `"7 d"`, is how long the tag lasts; expiry removes it afterwards.

        >>> import lsmerge, pyarrow as pa
        >>> t = lsmerge.create_table("memory://tag", pa.schema({"k": pa.int64()}), "k")
        >>> _ = t.upsert({"k": [1]})
        >>> _ = t.create_tag("before", ttl="30 d")
        >>> _ = t.upsert({"k": [2]})
        >>> t.scan(tag="before").count(), t.scan().count()
        (1, 2)
        """
        return expiry.create_tag(self._context, name, snapshot, ttl)

    def delete_tag(self, name: str) -> None:
        """Remove a tag, and the files that nothing else needs."""
        expiry.delete_tag(self._context, name)

    def tags(self) -> dict[str, Tag]:
        """All tags by name."""
        tags = TagStore(self._context.store, self._context.snapshots).all()
        return {tag.name: tag for tag in tags}

    def rollback_to(self, snapshot: int | None = None, *, tag: str | None = None) -> Snapshot:
        """Make the table hold again what it held at a snapshot or tag, in a new snapshot.

        The snapshots in between stay until they expire, so a rollback can be rolled back.

        >>> import lsmerge, pyarrow as pa
        >>> t = lsmerge.create_table("memory://rollback", pa.schema({"k": pa.int64()}), "k")
        >>> _ = t.upsert({"k": [1]})
        >>> _ = t.upsert({"k": [2]})
        >>> t.rollback_to(1).id, t.scan().to_arrow()["k"].to_pylist()
        (3, [1])
        """
        return rollback_to(self._current(), snapshot, tag)

    def expire_snapshots(
        self,
        *,
        retain_min: int | None = None,
        retain_max: int | None = None,
        older_than: Any = None,
        dry_run: bool = False,
        progress: Any = None,
    ) -> ExpiryReport:
        """Forget old snapshots and delete the files that no other snapshot or tag needs.

        `retain_max` is how many stay at most; `older_than`, a time or an age (a timedelta, or text such as `"7 d"`), is
        what may go; `retain_min` of the newest stay anyway. What is not given is taken from the options
        `snapshot.*`; if these say nothing either, what is older than an hour goes, and 10 stay. `progress` is as in
        `verify`.

        >>> import lsmerge, pyarrow as pa
        >>> t = lsmerge.create_table("memory://expire", pa.schema({"k": pa.int64()}), "k")
        >>> for k in range(4):
        ...     _ = t.upsert({"k": [k]})
        >>> t.expire_snapshots(retain_max=2).snapshots
        (1, 2)
        >>> t.scan().count()
        4
        """
        return expiry.expire_snapshots(
            self._current(),
            retain_min,
            retain_max,
            older_than,
            dry_run=dry_run,
            progress=hook_of(progress, "expire"),
        )

    def remove_orphan_files(
        self, older_than: Any = None, *, dry_run: bool = True, progress: Any = None
    ) -> OrphanReport:
        """Find files that crashed writers left and nothing refers to; `dry_run=False` deletes them.

        Files younger than `older_than` (a day by default; a time, a timedelta, or text such as `"2 d"`) stay: they may
        belong to a commit under way, so choose more than the longest write takes. Foreign files are not touched.
        `progress` is as in `verify`.
        """
        hook = hook_of(progress, "remove orphans")
        return orphans.remove_orphan_files(
            self._current(), older_than, dry_run=dry_run, progress=hook
        )

    def alter(
        self,
        *,
        add: Mapping[str, Any] | None = None,
        drop: Sequence[str] = (),
        rename: Mapping[str, str] | None = None,
        widen: Mapping[str, Any] | None = None,
        nullable: Sequence[str] = (),
        move: Mapping[str, str] | None = None,
        comments: Mapping[str, str | None] | None = None,
        options: Mapping[str, object] | None = None,
        reset: Sequence[str] = (),
        comment: str | None = None,
    ) -> None:
        """Change columns and options; no file is rewritten. All of it happens, or nothing.

        `add` maps names to pyarrow types, fields or type names, `widen` to types or their names; `move` maps names to
        `"first"` or `"after:<column>"`; `nullable` lists columns that may be null from now on; `options` sets options
        that are not fixed, `reset` returns them to their defaults. `drop`, `rename`, `widen` and `nullable` go by
        present names, `move` and `comments` by the new ones. `comment` is that of the table; empty text takes it away.

        >>> import lsmerge, pyarrow as pa
        >>> t = lsmerge.create_table("memory://alter", pa.schema({"k": pa.int64(), "n": pa.int32()}), "k")
        >>> _ = t.upsert([{"k": 1, "n": 5}])
        >>> t.alter(add={"note": pa.string()}, rename={"n": "count"}, widen={"n": pa.int64()})
        >>> t.get(1)
        {'k': 1, 'count': 5, 'note': None}
        """
        change = SchemaChange(
            add={} if add is None else add,
            drop=drop,
            rename={} if rename is None else rename,
            widen={} if widen is None else widen,
            nullable=nullable,
            move={} if move is None else move,
            comments={} if comments is None else comments,
            options={} if options is None else options,
            reset=reset,
            comment=comment,
        )
        self._open_context = alter(self._context, change)

    def close(self) -> None:
        """Release open files and caches; a compaction in the background is given up first.

        Using the table afterwards is an error.
        """
        if self._open_context is not None:
            self._open_context.upkeep.close()
            self._open_context.points.close()
            self._open_context.runs.close()
            self._open_context.indexes.close()
            self._open_context.key_map.close()
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

    def _read_newest(self, read: Callable[[TableContext, Snapshot | None], T]) -> T:
        """What `read` makes of the newest snapshot, for point reads, to which looking for it is dear."""
        # What the watch does not see came before it, and is seen by whoever looks after it.
        since = self._context.points.watch()

        def noted(context: TableContext, found: Snapshot | None) -> T:
            if found is not None:
                lookup.note_newest(context, found, since)
            return read(context, found)

        return time_travel.read_at(self._current(), time_travel.NEWEST, noted)

    def _current(self) -> TableContext:
        """The table with its newest schema, which another process may have made."""
        self._open_context = refreshed(self._context)
        return self._open_context
