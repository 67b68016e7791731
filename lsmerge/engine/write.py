"""The write path, top to bottom.

    normalise -> lift -> place by partition and bucket -> buffer -> sort and merge -> level-0 run -> commit -> compact

A writer buffers under one budget and spills the fullest buckets when it must; everything it spilled is published in
one snapshot or not at all. Reading one's own uncommitted writes is not offered.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from types import TracebackType
from typing import Any, Self, TypeAlias

import pyarrow as pa

from lsmerge.engine import auto_compact
from lsmerge.engine.changelog_file import ChangelogName, write_changelog
from lsmerge.engine.context import TableContext
from lsmerge.engine.expiry import after_commit as expire_after_commit
from lsmerge.engine.ingest import Kinds, normalise
from lsmerge.engine.key_input import as_key_data
from lsmerge.engine.look_ahead import LookAhead
from lsmerge.engine.padding import check_sequence
from lsmerge.engine.parallel import ordered_map
from lsmerge.engine.placement import Placer
from lsmerge.engine.pre_combine import Combine, combined_runs, commit_combiner
from lsmerge.engine.producer import LookupChangelog
from lsmerge.engine.rebase import chained, placer_of
from lsmerge.engine.run_output import discard
from lsmerge.engine.targets import target_columns, with_targets, written_by
from lsmerge.engine.unchanged import check_unchanged
from lsmerge.engine.unpublished import UnpublishedRuns
from lsmerge.engine.write_buffer import Bucket, WriteBuffer
from lsmerge.errors import (
    CommitUnknownError,
    InvalidOptionError,
    LsmergeError,
    MergeValueError,
    SchemaMismatchError,
    TableClosedError,
)
from lsmerge.failpoints import failpoint
from lsmerge.merge.groups import Groups, sort_groups
from lsmerge.merge_mode import EVENT_TIME
from lsmerge.meta.commit import CommitRequest
from lsmerge.meta.data_file import BucketId, CommitKind, DataFile, Edit
from lsmerge.meta.snapshot import Snapshot
from lsmerge.rowkind import ROW_KIND_COLUMN, RowKind
from lsmerge.tracing import span
from lsmerge_native.reduce import all_rows

Rows: TypeAlias = Iterable[tuple[pa.RecordBatch, Kinds]]


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


def delete(
    context: TableContext,
    keys: Any,
    columns: Sequence[str] | None = None,
    based_on: int | None = None,
) -> Snapshot:
    """One commit of delete rows for `keys`, which also hold the columns that order rows."""
    key, wanted = context.schema.primary_key, delete_columns(context)
    data = as_key_data(keys, key, wanted[len(key) :])
    rows = normalise(data, context.schema, wanted, default_kind=RowKind.DELETE)
    writer = TableWriter(context, columns, based_on=based_on)
    writer.add(map(_as_delete, rows), keeps_memory=False)
    return writer.commit()


def delete_columns(context: TableContext) -> tuple[str, ...]:
    """The key, and what gives a delete its place among the rows of a key."""
    return tuple(dict.fromkeys((*context.schema.primary_key, *context.engine.delete_columns)))


def normalise_rows(context: TableContext, data: Any, columns: Sequence[str] | None) -> Rows:
    """What a user writes, in normal form."""
    return normalise(data, context.schema, columns, rowkind_field=context.options.rowkind_field)


class TableWriter:
    """Collects rows and publishes them in one commit; without rows and an identity, nothing.

    As a context manager it commits at the end of the block, and leaves nothing if the block raises.
    """

    def __init__(
        self,
        context: TableContext,
        columns: Sequence[str] | None = None,
        commit_user: str | None = None,
        commit_id: int | None = None,
        *,
        based_on: int | None = None,
    ) -> None:
        _check_identity(commit_user, commit_id)
        self._context = context
        self.columns = target_columns(context, columns)
        self._written = written_by(context, self.columns)
        self._commit_user = commit_user
        self._commit_id = commit_id
        self._based_on = based_on
        self._buffered = WriteBuffer(context.options.write_buffer_size)
        schema = context.schema
        is_whole = self._written is None
        self._runs = UnpublishedRuns(
            context, schema.file_schema if is_whole else schema.targeted_file_schema
        )
        self._placer = self._new_placer()
        self._changelog: list[DataFile] = []
        self._lookup = LookupChangelog(context)
        self._ahead: LookAhead | None = None
        self._numbers = count()
        self._uid = context.env.new_id()
        self._closed_by: str | None = None
        self._failed = False
        self.snapshot: Snapshot | None = None

    def write(self, data: Any) -> None:
        """Add rows. A refused batch ends the writer: nothing of it will be committed."""
        self._check_open()
        with self._failing("an earlier write failed"):
            self.add(self._normalised(data), keeps_memory=True)

    def add(self, rows: Rows, *, keeps_memory: bool) -> None:
        """Add rows in normal form; `keeps_memory` if the caller may change its memory before the commit."""
        with self._failing("an earlier write failed"):
            for batch, kinds in rows:
                self._context.counters.add(rows_written=batch.num_rows)
                arrived = self._with_system_columns(batch, kinds)
                check_sequence(arrived, self._context.engine.order)
                lifted = self._context.engine.lift(arrived)
                self._buffer(lifted, keeps_memory=keeps_memory)

    def _normalised(self, data: Any) -> Rows:
        return normalise_rows(self._context, data, self.columns)

    def _new_placer(self) -> Placer:
        return placer_of(self._context, self._runs, self._spill_bucket)

    def find_commit(self) -> Snapshot | None:
        """The snapshot of an earlier commit with the same identity."""
        committer, latest = self._context.committer, self._context.snapshots.latest()
        return committer.find(self._commit_user, self._commit_id, latest)

    def commit(self) -> Snapshot:
        """Publish everything written, durably, as one snapshot; the newest one if there is nothing to publish."""
        self._check_open()
        with self._failing("writing a run failed"):
            self._finish()
            failpoint("write.after-runs")
            newest = self._context.snapshots.latest() if self._has_nothing else None
        if newest is not None:
            self.snapshot = newest
            self._closed_by = "it was committed"
            return newest
        self._closed_by = "its commit failed"
        try:
            auto_compact.make_room(self._context, self._runs.places)
            self.snapshot = self._publish()
        finally:
            self._lookup.wait()
        failpoint("write.after-publish")
        self._closed_by = "it was committed"
        auto_compact.after_commit(self._context, self._runs.places)
        failpoint("write.after-compaction")
        expire_after_commit(self._context)
        failpoint("write.after-upkeep")
        return self.snapshot

    @property
    def _has_nothing(self) -> bool:
        """Whether a snapshot would say nothing: no rows, and no identity that must be known later."""
        return not self._runs.files and not self._changelog and self._commit_user is None

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
        self._buffered.clear()
        try:
            self._discard_runs()
        finally:
            self._lookup.wait()

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
        for place, rows in self._placer.split(batch):
            own = _copied(rows) if keeps_memory and rows is batch else rows
            self._buffered.append(place, own)
        self._spill(list(self._buffered.overflowing()), self._composed_or_kept)

    def _finish(self) -> None:
        """Write what is still buffered; tables that ask for it get the rows of the commit combined."""
        combine = self._combiner
        spilled = self._runs.places
        in_memory = [place for place in self._buffered.places if place not in spilled]
        if self._looks_up:
            self._ahead = self._lookup.ahead(in_memory)
        if combine is not None:
            self._spill(in_memory, combine)
        self._spill(self._buffered.places)
        if combine is not None:
            for place in spilled:
                self._combine_runs(place, combine)

    @property
    def _combiner(self) -> Combine | None:
        return commit_combiner(self._context)

    def _spill(self, places: Sequence[BucketId], reduce: Combine | None = None) -> None:
        """Write each bucket's rows as one level-0 run, composed or reduced otherwise."""
        if not places:
            return
        work = [(place, self._buffered.take(place), next(self._numbers)) for place in places]

        def write_one(item: tuple[BucketId, Bucket, int]) -> DataFile:
            return self._write_run(*item, reduce or self._composed)

        with span("lsmerge.flush", self._context.store.uri, buckets=len(places)):
            self._runs.files.extend(ordered_map(write_one, work))

    def _spill_bucket(self, place: BucketId) -> None:
        self._spill([place] if place in self._buffered else [])

    def _combine_runs(self, place: BucketId, combine: Combine) -> None:
        """Replace the runs of a bucket by one with the rows of the commit combined."""
        runs = [run for run in self._runs.files if run.place == place]
        combined = self._runs.write(place, combined_runs(self._context, runs, combine))
        self._runs.replace(runs[0], [combined])
        for run in runs[1:]:
            self._runs.replace(run, [])

    def _write_run(self, place: BucketId, bucket: Bucket, number: int, reduce: Combine) -> DataFile:
        """The bucket's run; beside it, where that is the changelog, its rows as they came."""
        context, (groups, max_rows) = self._context, self._sorted(bucket)
        if self._ahead is not None and self._ahead.covers(place) and bucket.num_rows <= max_rows:
            rows = reduce(groups)
            write_run = partial(self._runs.write_unsynced, place, [rows])
            return self._ahead.write(place, rows, ChangelogName(self._uid, number), write_run)
        if self._tells_input:
            name = ChangelogName(self._uid, number)
            rows = self._arrived(bucket, groups, max_rows)
            told = write_changelog(context, place, 0, name, rows)
            # It stays there, even where the run is split anew before the commit lands.
            count = self._placer.count_of(place.partition)
            self._changelog += (replace(file, num_buckets=count) for file in told)
        return self._runs.write(place, ordered_map(reduce, groups.portions(max_rows)))

    def _sorted(self, bucket: Bucket) -> tuple[Groups, int]:
        """The bucket's rows, sorted, and how many to move at once."""
        context = self._context
        batches = bucket.settle()
        groups = sort_groups(batches, context.keys(*batches), context.order(*batches))
        return groups, bucket.rows_at_once

    @property
    def _looks_up(self) -> bool:
        return self._context.options.changelog_producer == "lookup"

    @property
    def _tells_input(self) -> bool:
        return self._context.options.changelog_producer == "input"

    def _arrived(self, bucket: Bucket, merged: Groups, max_rows: int) -> Iterator[pa.RecordBatch]:
        """All rows by key, in the order that gives them their meaning."""
        context, groups = self._context, merged
        if context.options.record_merge_mode == EVENT_TIME:
            # A delete without a time hides what came before it, which the order of times does not tell.
            batches = bucket.settle()
            groups = sort_groups(batches, context.keys(*batches))
        names = context.schema.file_schema.names
        return (part.take(all_rows(part.plan), names) for part in groups.portions(max_rows))

    def _composed(self, groups: Groups) -> pa.RecordBatch:
        return self._context.engine.compose(groups, forget_before=0)

    def _composed_or_kept(self, groups: Groups) -> pa.RecordBatch:
        """Part of a commit's rows: a total that does not fit may fit with those still to come."""
        try:
            return self._composed(groups)
        except MergeValueError:
            return groups.take(all_rows(groups.plan), self._runs.schema.names)

    def _publish(self) -> Snapshot:
        context, files = self._context, tuple(self._runs.files)
        default = context.options.bucket
        edit = Edit(CommitKind.APPEND, context.schema.id, files, layout=0, num_buckets=default)
        uuid = context.env.new_id()
        rebase = chained(edit, (self._checked, *self._placer.steps, self._completed))
        identity = (self._commit_user, self._commit_id)
        request = CommitRequest(edit, uuid, *identity, rebase, self._lookup.settle)
        try:
            snapshot = self._context.committer.commit(request)
        except CommitUnknownError:
            # The runs may be referenced, so they stay; if they are not, they are orphans.
            raise
        except LsmergeError:
            self._discard_runs()
            raise
        if snapshot.commit_uuid != request.commit_uuid:
            self._discard_runs()  # the same commit was made before, with runs of its own
        return snapshot

    def _checked(self, latest: Snapshot | None, edit: Edit) -> Edit:
        """The same edit, if what its rows were computed from is still what the table holds."""
        if self._based_on is not None:
            check_unchanged(self._context.snapshots, self._based_on, latest)
        return edit

    def _completed(self, latest: Snapshot | None, edit: Edit) -> Edit:
        """The edit, whose rows have their places, with the changelog of what it changes."""
        if self._looks_up:
            return self._lookup.added_to(edit, latest)
        return replace(edit, add=(*edit.add, *self._changelog))

    def _discard_runs(self) -> None:
        failpoint("write.before-discard")
        self._runs.discard()
        self._placer.discard()
        self._lookup.discard()
        discard(self._context, self._changelog)
        self._changelog.clear()


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
