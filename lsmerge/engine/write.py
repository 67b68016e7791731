"""The write path, top to bottom.

    normalise -> lift -> split by partition and bucket -> buffer -> sort and merge -> level-0 run -> commit -> compact

A writer buffers under one budget and spills the fullest buckets when it must; everything it spilled is published in
one snapshot or not at all. Reading one's own uncommitted writes is not offered.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from types import TracebackType
from typing import Any, Self, TypeAlias

import pyarrow as pa

from lsmerge.engine import auto_compact
from lsmerge.engine.bucket_counts import BucketCounts
from lsmerge.engine.buckets import split_by_bucket
from lsmerge.engine.changelog_file import ChangelogName, write_changelog
from lsmerge.engine.context import TableContext
from lsmerge.engine.expiry import after_commit as expire_after_commit
from lsmerge.engine.ingest import Kinds, normalise
from lsmerge.engine.key_input import as_key_data
from lsmerge.engine.memory import release_unused
from lsmerge.engine.padding import check_sequence
from lsmerge.engine.parallel import ordered_map
from lsmerge.engine.pre_combine import Combine, combined_runs, commit_combiner
from lsmerge.engine.producer import LookupChangelog
from lsmerge.engine.resplit import resplit_all
from lsmerge.engine.run_output import discard
from lsmerge.engine.targets import target_columns, with_targets, written_by
from lsmerge.errors import (
    CommitUnknownError,
    InvalidOptionError,
    LsmergeError,
    SchemaMismatchError,
    StorageError,
    TableClosedError,
)
from lsmerge.merge.groups import Groups, row_numbers, sort_groups
from lsmerge.merge.written import with_written
from lsmerge.meta.commit import CommitRequest
from lsmerge.meta.data_file import BucketId, CommitKind, DataFile, Edit
from lsmerge.meta.snapshot import Snapshot
from lsmerge.rowkind import ROW_KIND_COLUMN, RowKind
from lsmerge.storage import layout
from lsmerge.storage.run_file import write_run
from lsmerge_native.reduce import all_rows

# The rest is for keys, the sorted order and the portions on their way into a file.
SHARE_FOR_ROWS = 0.5
PORTION_ROWS = 32_768
# Portions and joined batches are this part of the buffer, and no larger than serves speed.
SHARE_OF_PORTION = 32
PORTION_BYTES = 4 << 20
# Batches below this are joined before they are sorted; what each one costs beside its bytes is counted.
MAX_SMALL_BATCHES = 1024
OVERHEAD_BYTES = 256

Rows: TypeAlias = Iterable[tuple[pa.RecordBatch, Kinds]]
# Arrow's 32-bit string offsets and the plan's row numbers both stay far away at this size.
MAX_RUN_BYTES = 1 << 30


def write(
    context: TableContext,
    data: Any,
    columns: Sequence[str] | None = None,
    commit_user: str | None = None,
    commit_id: int | None = None,
) -> Snapshot:
    """One commit of `data`."""
    writer = TableWriter(context, columns, commit_user, commit_id)
    done = writer.find_commit()
    if done is not None:
        return done
    # The rows are committed before this returns, so the caller's memory need not be copied.
    writer.add(normalise_rows(context, data, writer.columns), keeps_memory=False)
    return writer.commit()


def delete(context: TableContext, keys: Any, columns: Sequence[str] | None = None) -> Snapshot:
    """One commit of delete rows for `keys`, which also hold the columns that order rows."""
    given = tuple(dict.fromkeys((*context.schema.primary_key, *context.engine.delete_columns)))
    rows = normalise(as_key_data(keys, given), context.schema, given, default_kind=RowKind.DELETE)
    writer = TableWriter(context, columns)
    writer.add(map(_as_delete, rows), keeps_memory=False)
    return writer.commit()


def normalise_rows(context: TableContext, data: Any, columns: Sequence[str] | None) -> Rows:
    """What a user writes, in normal form."""
    return normalise(data, context.schema, columns, rowkind_field=context.options.rowkind_field)


@dataclass(slots=True)
class _Bucket:
    """Rows of one bucket in arrival order, not written yet.

    Small batches are joined, so that a bucket never consists of very many.
    """

    joined_bytes: int
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
        if self.small_bytes >= self.joined_bytes or len(self.small) >= MAX_SMALL_BATCHES:
            self.settle()

    def settle(self) -> list[pa.RecordBatch]:
        """All batches, small ones joined."""
        if self.small:
            self.batches.append(pa.concat_batches(self.small))
            self.small.clear()
            self.small_bytes = 0
            release_unused()
        return self.batches


class TableWriter:
    """Collects rows and publishes them in one commit.

    As a context manager it commits at the end of the block, and leaves nothing if the block raises.
    """

    def __init__(
        self,
        context: TableContext,
        columns: Sequence[str] | None = None,
        commit_user: str | None = None,
        commit_id: int | None = None,
    ) -> None:
        _check_identity(commit_user, commit_id)
        self._context = context
        self.columns = target_columns(context, columns)
        self._written = written_by(context, self.columns)
        self._commit_user = commit_user
        self._commit_id = commit_id
        self._buckets: dict[BucketId, _Bucket] = {}
        self._buffered_bytes = 0
        self._portion_bytes = min(
            PORTION_BYTES, context.options.write_buffer_size // SHARE_OF_PORTION
        )
        self._runs: list[DataFile] = []
        self._paths: list[str] = []
        self._numbers = count()
        self._uid = context.env.new_id()
        self._closed_by: str | None = None
        self._failed = False
        self.snapshot: Snapshot | None = None

    def write(self, data: Any) -> None:
        """Add rows. A refused batch ends the writer: nothing of it will be committed."""
        self._check_open()
        with self._failing("an earlier write failed"):
            rows = normalise_rows(self._context, data, self.columns)
            self.add(rows, keeps_memory=True)

    def add(self, rows: Rows, *, keeps_memory: bool) -> None:
        """Add rows in normal form; `keeps_memory` if the caller may change its memory before the commit."""
        with self._failing("an earlier write failed"):
            for batch, kinds in rows:
                rows = self._with_system_columns(batch, kinds)
                check_sequence(rows, self._context.engine.order)
                lifted = self._context.engine.lift(rows)
                self._buffer(lifted, keeps_memory=keeps_memory)

    def find_commit(self) -> Snapshot | None:
        """The snapshot of an earlier commit with the same identity."""
        committer, latest = self._context.committer, self._context.snapshots.latest()
        return committer.find(self._commit_user, self._commit_id, latest)

    def commit(self) -> Snapshot:
        """Publish everything written, durably, as one snapshot."""
        self._check_open()
        with self._failing("writing a run failed"):
            self._finish()
        self._closed_by = "it was committed"
        auto_compact.make_room(self._context, {file.place for file in self._runs})
        self.snapshot = self._publish()
        auto_compact.after_commit(self._context, {file.place for file in self._runs})
        expire_after_commit(self._context)
        return self.snapshot

    def abort(self) -> None:
        """Forget all rows and delete the runs already spilled; nothing after a commit."""
        if self._closed_by is None:
            self._close("it was aborted")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.abort()
        elif self._closed_by is None or self._failed:
            self.commit()

    def _close(self, reason: str) -> None:
        self._closed_by = reason
        self._buckets.clear()
        self._discard_runs()

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        """Whatever goes wrong inside ends the writer, and leaves nothing of it."""
        try:
            yield
        except BaseException as error:
            if self._closed_by is None:
                self._failed = True
                self._close(f"{what}: {error}")
            raise

    def _check_open(self) -> None:
        if self._closed_by is not None:
            raise TableClosedError(f"this writer is closed: {self._closed_by}; open a new one")

    def _with_system_columns(self, batch: pa.RecordBatch, kinds: Kinds) -> pa.RecordBatch:
        """Kinds, and room for the sequence numbers that a bucket gives its rows."""
        count = batch.num_rows
        if kinds is None:
            kinds = pa.repeat(pa.scalar(int(RowKind.INSERT), pa.int8()), count)
        sequence = pa.repeat(pa.scalar(0, pa.int64()), count)
        rows = pa.RecordBatch.from_arrays(
            [sequence, kinds, *batch.columns], schema=self._context.schema.file_schema
        )
        return with_targets(rows, self._written)

    def _buffer(self, batch: pa.RecordBatch, *, keeps_memory: bool) -> None:
        schema, options = self._context.schema, self._context.options
        for place, rows in split_by_bucket(schema, options, batch, self._counts.of):
            own = _copied(rows) if keeps_memory and rows is batch else rows
            self._buckets.setdefault(place, _Bucket(self._portion_bytes)).append(own)
        self._count()
        self._spill(list(self._overflowing()))

    def _count(self) -> None:
        self._buffered_bytes = sum(bucket.size_bytes for bucket in self._buckets.values())

    def _overflowing(self) -> Iterator[BucketId]:
        """The fullest buckets, until half of the room is free again."""
        room = int(self._context.options.write_buffer_size * SHARE_FOR_ROWS)
        buffered = self._buffered_bytes
        fullest = sorted(self._buckets, key=lambda place: -self._buckets[place].size_bytes)
        for place in fullest:
            if self._buckets[place].size_bytes > MAX_RUN_BYTES or self._buffered_bytes > room:
                if buffered <= room // 2:
                    return
                buffered -= self._buckets[place].size_bytes
                yield place

    def _finish(self) -> None:
        """Write what is still buffered; tables that ask for it get the rows of the commit combined."""
        combine = commit_combiner(self._context)
        spilled = {run.place for run in self._runs}
        if combine is not None:
            self._spill([place for place in self._buckets if place not in spilled], combine)
        self._spill(list(self._buckets))
        if combine is not None:
            for place in spilled:
                self._combine_runs(place, combine)

    def _spill(self, places: Sequence[BucketId], reduce: Combine | None = None) -> None:
        """Write each bucket's rows as one level-0 run, composed or reduced otherwise."""
        work = [(place, self._buckets.pop(place), next(self._numbers)) for place in places]
        self._count()

        def write_one(item: tuple[BucketId, _Bucket, int]) -> list[DataFile]:
            return self._write_files(*item, reduce or self._composed)

        for files in ordered_map(write_one, work):
            self._runs.extend(files)

    def _combine_runs(self, place: BucketId, combine: Combine) -> None:
        """Replace the runs of a bucket by one with the rows of the commit combined."""
        runs = [run for run in self._runs if run.place == place and run.is_data]
        batches = combined_runs(self._context, runs, combine)
        combined = self._write_run(place, next(self._numbers), batches)
        self._runs = [*(file for file in self._runs if file not in runs), combined]
        for run in runs:
            self._delete(self._context.file_path(run))

    def _write_files(
        self, place: BucketId, bucket: _Bucket, number: int, reduce: Combine
    ) -> list[DataFile]:
        """The bucket's run, and its rows as they came where that is the changelog."""
        context, (groups, max_rows) = self._context, self._sorted(bucket)
        run = self._write_run(place, number, ordered_map(reduce, groups.portions(max_rows)))
        if not self._tells("input"):
            return [run]
        names = context.schema.file_schema.names
        portions = groups.portions(max_rows)
        rows = (part.take(all_rows(part.plan), names) for part in portions)
        changelog = write_changelog(context, place, 0, ChangelogName(self._uid, number), rows)
        self._paths += map(context.file_path, changelog)
        return [run, *changelog]

    def _write_run(
        self, place: BucketId, number: int, batches: Iterable[pa.RecordBatch]
    ) -> DataFile:
        context = self._context
        fmt = context.run_format(level=0)
        path = context.bucket_path(place, layout.run_name(self._uid, number, fmt.format))
        schema = context.schema.file_schema
        if self._written is not None:
            schema = context.schema.targeted_file_schema
            batches = map(with_written, batches)
        blocks = ((batch, context.keys(batch)) for batch in batches)
        summary = write_run(context.store, path, schema, blocks, fmt)
        self._paths.append(path)
        num_buckets = self._counts.of(place.partition)
        now = context.env.now_ms()
        return DataFile(place, 0, summary, context.schema.id, now, num_buckets=num_buckets)

    def _sorted(self, bucket: _Bucket) -> tuple[Groups, int]:
        """The bucket's rows, sorted, and how many to move at once: the rows are in memory once."""
        context = self._context
        batches = bucket.settle()
        groups = sort_groups(batches, context.keys(*batches), context.order(*batches))
        affordable = self._portion_bytes * bucket.num_rows // max(1, bucket.size_bytes)
        return groups, max(1, min(PORTION_ROWS, affordable))

    def _composed(self, groups: Groups) -> pa.RecordBatch:
        return self._context.engine.compose(groups, forget_before=0)

    @cached_property
    def _counts(self) -> BucketCounts:
        """One view for the whole writer: all runs of a partition must be split alike."""
        return BucketCounts.for_writing(self._context)

    def _tells(self, producer: str) -> bool:
        """Whether the commit leaves the changelog of that producer behind."""
        return self._context.options.changelog_producer == producer

    def _edit(self) -> Edit:
        return Edit(
            CommitKind.APPEND,
            self._context.schema.id,
            add=tuple(self._runs),
            layout=self._counts.layout,
            num_buckets=self._context.options.bucket,
        )

    def _rebased(self, latest: Snapshot | None) -> Edit:
        """The edit on top of `latest`: the same everywhere, unless a partition was rescaled meanwhile."""
        counts = BucketCounts(self._context, latest)
        if counts.layout != self._counts.layout:
            self._resplit(counts)
        return self._edit()

    def _resplit(self, counts: BucketCounts) -> None:
        """Split the runs of rescaled partitions anew; changelog files say the same wherever they lie."""
        wanted = {run.name: counts.of(run.place.partition) for run in self._runs if run.is_data}
        stale = [run for run in self._runs if run.num_buckets != wanted.get(run.name, 0)]
        made = resplit_all(self._context, [(run, wanted[run.name]) for run in stale])
        discard(self._context, stale)
        self._runs = [*(run for run in self._runs if run not in stale), *made]
        self._paths = [self._context.file_path(run) for run in self._runs]
        self._counts = counts

    def _publish(self) -> Snapshot:
        uuid, lookup = self._context.env.new_id(), LookupChangelog(self._context)

        def edit_on(latest: Snapshot | None) -> Edit:
            edit = self._rebased(latest)
            return lookup.edit_on(edit, latest) if self._tells("lookup") else edit

        request = CommitRequest(self._edit(), uuid, self._commit_user, self._commit_id, edit_on)
        try:
            snapshot = self._context.committer.commit(request)
        except CommitUnknownError:
            # The runs may be referenced, so they stay; if they are not, they are orphans.
            raise
        except LsmergeError:
            lookup.discard()
            self._discard_runs()
            raise
        if snapshot.commit_uuid != request.commit_uuid:
            lookup.discard()
            self._discard_runs()  # the same commit was made before, with runs of its own
        return snapshot

    def _discard_runs(self) -> None:
        for path in list(self._paths):
            self._delete(path)
        self._runs.clear()

    def _delete(self, path: str) -> None:
        self._paths.remove(path)
        with suppress(StorageError):  # then it is an orphan: nothing refers to it
            self._context.store.delete(path)


def _as_delete(row: tuple[pa.RecordBatch, Kinds]) -> tuple[pa.RecordBatch, Kinds]:
    """Keys to delete; a `_row_kind` that says otherwise is a misunderstanding."""
    import pyarrow.compute as pc

    batch, kinds = row
    if (
        kinds is None
        or not pc.all(pc.equal(kinds, pa.scalar(int(RowKind.DELETE), pa.int8()))).as_py()
    ):
        raise SchemaMismatchError(
            f"column {ROW_KIND_COLUMN!r} holds other kinds than -D: delete() takes keys to delete; "
            "use write() for rows of several kinds"
        )
    return batch, kinds


def _copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows in memory of their own."""
    middle = batch.num_rows // 2
    return pa.concat_batches([batch.slice(0, middle), batch.slice(middle)])


def _check_identity(commit_user: object, commit_id: object) -> None:
    if commit_user is None and commit_id is None:
        return
    if not isinstance(commit_user, str) or not commit_user:
        raise InvalidOptionError(
            f"commit_user = {commit_user!r} with commit_id = {commit_id!r}: give both, the user as text"
        )
    if isinstance(commit_id, bool) or not isinstance(commit_id, int) or not 0 <= commit_id < 2**63:
        raise InvalidOptionError(
            f"commit_id = {commit_id!r} of {commit_user!r}: give both, the id as a whole number from 0"
        )
