"""The only publisher: turns an edit into a snapshot.

    write manifest -> create snapshot-<n+1> if absent -> done
                          | taken: somebody else committed; read it, check conflicts, try again
                          | the store failed: read back whose snapshot is there

Invariants
1. Data files and the manifest that names them are durable before the snapshot that refers to it.
2. Sequence bases are given here, from the winning predecessor, so that a retry only moves them.
3. A (commit_user, commit_id) pair is published at most once.
4. Appends never conflict, unless keys have changed their buckets since the rows were placed. An edit that removes
   files needs all of them to be live still, where it saw them.
5. A number whose snapshot has expired is not used again: who published below the mark of expiry takes it back.
6. All files of a partition were split by one bucket count, or placed by the one index. `layout_since` of a snapshot
   says when keys changed their buckets last, so that an append by the same layout needs no look at the files.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa

from lsmerge.env import Env
from lsmerge.errors import (
    CommitConflictError,
    CommitUnknownError,
    LsmergeError,
    ObjectExistsError,
    ObjectNotFoundError,
    SnapshotExpiredError,
    StorageError,
)
from lsmerge.failpoints import failpoint
from lsmerge.meta import manifest
from lsmerge.meta.bucket_index import IndexFile
from lsmerge.meta.bucket_layout import changes_layout
from lsmerge.meta.data_file import CommitKind, DataFile, Edit
from lsmerge.meta.manifest import Action, ManifestRef
from lsmerge.meta.snapshot import Snapshot, SnapshotStore, UserProgress
from lsmerge.meta.version import Version, VersionReader, check_bucket
from lsmerge.metrics import Counters
from lsmerge.storage import layout
from lsmerge.storage.object_store import ObjectStore
from lsmerge.storage.turns import Turns
from lsmerge.tracing import span

logger = logging.getLogger("lsmerge.commit")

# A manifest list longer than this is folded, so that planning reads few files whatever the history.
MAX_MANIFESTS = 30
# The big first manifest is rewritten only when the others have grown to this share of it.
REWRITE_SHARE = 0.25
MAX_ATTEMPTS = 200
# Users beyond this number are forgotten oldest first; their replays are still found by reading snapshots.
MAX_USERS = 1000
CLOCK_SAMPLES = 64
CLOCK_INTERVAL_MS = 3_600_000


# The edit as it must be on top of a given snapshot. Called once an attempt, with the snapshot that is then the newest.
Rebase: TypeAlias = Callable[[Snapshot | None], Edit]


def _is_settled() -> None:
    """Nothing is being synced any more."""


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """An edit, who asks for it, and the uuid that tells this request's snapshot from anybody else's.

    Where the edit depends on what it lands on (a changelog of old and new values, the place of new keys), `rebase`
    gives it anew for every predecessor. It deletes what an earlier call made and the new edit does not use.
    `settle` waits until all files of the edit are durable, or raises.
    """

    edit: Edit
    commit_uuid: str
    commit_user: str | None = None
    commit_id: int | None = None
    rebase: Rebase | None = None
    settle: Callable[[], None] = _is_settled

    def edit_on(self, latest: Snapshot | None) -> Edit:
        """What to publish after `latest`."""
        return self.edit if self.rebase is None else self.rebase(latest)


class Committer:
    """Publishes edits to one table."""

    def __init__(
        self,
        store: ObjectStore,
        snapshots: SnapshotStore,
        versions: VersionReader,
        env: Env,
        counters: Counters,
    ) -> None:
        self._store = store
        self._snapshots = snapshots
        self._versions = versions
        self._env = env
        self._counters = counters
        self._turns = Turns(store, layout.SNAPSHOT_DIR, env)

    def commit(self, request: CommitRequest) -> Snapshot:
        """Publish `request`, or return the snapshot that already holds the same (user, id)."""
        with span("lsmerge.commit", self._store.uri, kind=request.edit.kind.value) as current:
            try:
                snapshot = self._commit(request)
            except CommitConflictError:
                self._counters.add(commit_conflicts=1)
                raise
            current.note(snapshot=snapshot.id)
        return snapshot

    def _commit(self, request: CommitRequest) -> Snapshot:
        for attempt in range(MAX_ATTEMPTS):
            with self._turns.waiting():
                latest = self._snapshots.latest()
                done = self.find(request.commit_user, request.commit_id, latest)
                if done is not None:
                    self._counters.add(commits_repeated=1)
                    return done
                snapshot = self._attempt(request, latest)
            if snapshot is not None:
                failpoint("commit.after-publish")
                self._snapshots.note_latest(snapshot)
                failpoint("commit.after-hint")
                self._note_commit(snapshot)
                return snapshot
            self._counters.add(commit_retries=1)
            logger.debug("%s: others were faster, attempt %d", self._store.uri, attempt + 1)
            self._back_off(attempt)
        raise CommitConflictError(
            f"gave up after {MAX_ATTEMPTS} attempts: other writers were faster each time; "
            "write again, or commit less often from fewer writers"
        )

    def _note_commit(self, snapshot: Snapshot) -> None:
        self._counters.add(commits=1)
        what = (snapshot.id, snapshot.kind.value, snapshot.num_rows_added)
        logger.info("%s: snapshot %d (%s), %d rows in new files", self._store.uri, *what)

    def _attempt(self, request: CommitRequest, latest: Snapshot | None) -> Snapshot | None:
        """The snapshot published on top of `latest`, None if others were faster."""
        try:
            edit = request.edit_on(latest)
            failpoint("commit.after-rebase")
            new_layout = self._check_conflicts(edit, latest)
            snapshot = self._prepare(request, edit, latest)
        except ObjectNotFoundError:
            if latest is None or self._snapshots.is_retained(latest):
                raise
            return None  # there are newer ones, and `latest` has expired with its files
        try:
            request.settle()
        except LsmergeError:
            self._discard(snapshot, latest)
            raise
        if new_layout:
            snapshot = replace(snapshot, layout_since=snapshot.id)
        failpoint("commit.before-publish")
        if self._publish(snapshot) and self._is_in_line(snapshot):
            return snapshot
        self._discard(snapshot, latest)
        return None

    def find(
        self, user: str | None, identifier: int | None, latest: Snapshot | None
    ) -> Snapshot | None:
        """The snapshot that already carries (user, identifier), if there is one; the newest if that has expired."""
        if user is None or identifier is None or latest is None:
            return None
        progress = latest.users.get(user)
        if progress is not None and identifier > progress.max_identifier:
            return None
        if progress is None and len(latest.users) < MAX_USERS:
            return None
        # The largest number of a user was used, whether its snapshot is still there or not; others may be gaps.
        known = latest if progress is not None and identifier == progress.max_identifier else None
        return self._search(user, identifier, known)

    def _search(self, user: str, identifier: int, known: Snapshot | None) -> Snapshot | None:
        oldest = None
        for snapshot in self._snapshots.newest_first():
            oldest = snapshot
            if (snapshot.commit_user, snapshot.commit_id) == (user, identifier):
                return snapshot
        if known is None and oldest is not None and oldest.id > 1:
            raise CommitConflictError(
                f"cannot tell whether commit {identifier} of {user!r} was made: snapshots before "
                f"{oldest.id} have expired; use a commit_id above the user's largest one"
            )
        return known

    def _check_conflicts(self, edit: Edit, latest: Snapshot | None) -> bool:
        """Whether the edit changes the layout; CommitConflictError if it cannot be on top of `latest`."""
        _check_schema(edit, latest)
        if latest is None:
            _check_removed(edit, None)
            return False
        _check_placed(edit, latest)
        if not edit.remove and edit.layout == latest.layout_since:
            return edit.moves_keys
        version = self._versions.load(latest)
        _check_removed(edit, version)
        return changes_layout(edit, version) or edit.moves_keys

    def _prepare(self, request: CommitRequest, edit: Edit, latest: Snapshot | None) -> Snapshot:
        add, next_sequence = self._based(edit, latest)
        gone: list[DataFile | IndexFile] = [*edit.remove, *edit.remove_index]
        new: list[DataFile | IndexFile] = [*add, *edit.add_index]
        rows = [(Action.REMOVE, file) for file in gone] + [(Action.ADD, file) for file in new]
        # The base is folded first: a failure there leaves no orphaned delta behind.
        base = self._fold(latest.manifests) if latest else ()
        entries = manifest.entries(rows)
        delta = manifest.write_manifest(self._store, self._env.new_id(), entries)
        failpoint("commit.after-manifest")
        self._versions.note(delta, entries)
        now = max(self._env.now_ms(), latest.timestamp_ms if latest else 0)
        number = latest.id + 1 if latest else 1
        return Snapshot(
            id=number,
            commit_uuid=request.commit_uuid,
            kind=edit.kind,
            timestamp_ms=now,
            schema_id=max(edit.schema_id, latest.schema_id if latest else 0),
            next_sequence=next_sequence,
            base=base,
            delta=delta,
            commit_user=request.commit_user,
            commit_id=request.commit_id,
            num_rows_added=sum(file.run.num_rows for file in edit.add if file.is_data),
            sequence_clock=_advance_clock(latest, next_sequence, now),
            users=_advance_users(request, latest, number),
            rollbacks=self._advance_rollbacks(edit, latest, number),
            layout_since=latest.layout_since if latest else 0,
        )

    def _based(self, edit: Edit, latest: Snapshot | None) -> tuple[Sequence[DataFile], int]:
        if edit.kind is CommitKind.ROLLBACK and latest is not None:
            return edit.add, latest.next_sequence  # files that come back keep the bases they had
        return with_bases(edit.add, latest)

    def _advance_rollbacks(
        self, edit: Edit, latest: Snapshot | None, snapshot_id: int
    ) -> tuple[int, ...]:
        so_far = latest.rollbacks if latest else ()
        if edit.kind is not CommitKind.ROLLBACK:
            return so_far
        earliest = self._snapshots.earliest_id()
        return (*(number for number in so_far if number >= earliest), snapshot_id)

    def _fold(self, refs: tuple[ManifestRef, ...]) -> tuple[ManifestRef, ...]:
        """Shorten a long manifest list: always the small ones, the big first one when it pays."""
        if len(refs) < MAX_MANIFESTS:
            return refs
        first, rest = refs[0], refs[1:]
        if sum(ref.num_entries for ref in rest) < REWRITE_SHARE * first.num_entries:
            table = manifest.net_entries(self._versions.tables(rest))
            return (first, self._write_folded(table))
        table = manifest.live_entries(self._versions.tables(refs))
        return (self._write_folded(table),)

    def _write_folded(self, entries: pa.Table) -> ManifestRef:
        ref = manifest.write_manifest(self._store, self._env.new_id(), entries)
        failpoint("commit.after-fold")
        return ref

    def _publish(self, snapshot: Snapshot) -> bool:
        """True if the snapshot is ours, False if its number went to somebody else."""
        try:
            self._snapshots.publish(snapshot)
        except ObjectExistsError:
            # A retry inside the store may have met its own first attempt.
            return self._read_back(snapshot)
        except StorageError as failure:
            return self._settle(snapshot, failure)
        return True

    def _is_in_line(self, snapshot: Snapshot) -> bool:
        """Whether the snapshot that was published counts; it is taken back if not."""
        try:
            if self._snapshots.is_in_line(snapshot):
                return True
        except LsmergeError as error:
            raise _unknown(snapshot, error) from error
        failpoint("commit.before-withdraw")
        self._snapshots.withdraw(snapshot)
        return False

    def _settle(self, snapshot: Snapshot, failure: StorageError) -> bool:
        """The answer was lost: look whose snapshot is there, and make sure that it stays."""
        failpoint("commit.before-settle")
        try:
            is_there = self._store.confirm(layout.snapshot_path(snapshot.id))
            # A number that has expired was used by somebody, perhaps by this request.
            is_there = is_there or not self._snapshots.is_retained(snapshot)
            is_ours = is_there and self._read_back(snapshot)
        except LsmergeError as error:
            raise _unknown(snapshot, failure) from error
        if not is_there and not self._store.is_settled:
            raise _unknown(snapshot, failure)
        if not is_there:
            raise failure
        if is_ours and failure.is_sync:
            # It is visible, but once a sync has failed nobody can say what power loss would leave.
            raise _unknown(snapshot, failure)
        return is_ours

    def _read_back(self, snapshot: Snapshot) -> bool:
        try:
            return self._snapshots.read(snapshot.id).commit_uuid == snapshot.commit_uuid
        except ObjectNotFoundError:
            if self._snapshots.is_retained(snapshot):
                raise
        try:
            # It has expired: the mark knows whose it was.
            return self._snapshots.is_in_line(snapshot)
        except SnapshotExpiredError as error:
            raise _unknown(snapshot, error) from error

    def _discard(self, snapshot: Snapshot, latest: Snapshot | None) -> None:
        """Delete the manifests of a lost attempt. Requires: the number went to somebody else."""
        failpoint("commit.before-discard")
        kept = set(latest.manifests) if latest else set()
        for ref in snapshot.manifests:
            if ref not in kept:
                with suppress(StorageError):  # then it is an orphan: nothing refers to it
                    self._store.delete(layout.manifest_path(ref.name))

    def _back_off(self, attempt: int) -> None:
        ceiling_ms = min(200.0, 2.0 * 1.5**attempt)
        self._env.sleep(self._env.random.uniform(0, ceiling_ms) / 1000)


def _unknown(snapshot: Snapshot, failure: LsmergeError) -> CommitUnknownError:
    return CommitUnknownError(
        f"snapshot {snapshot.id} may or may not have been published for good (commit "
        f"{snapshot.commit_uuid}): {failure}; open the table again and look before you repeat"
    )


def with_bases(files: Iterable[DataFile], latest: Snapshot | None) -> tuple[list[DataFile], int]:
    """Added files as they will be after `latest`, and the first sequence number not given then."""
    next_sequence = latest.next_sequence if latest else 0
    based = []
    for file in files:
        if file.level > 0 or not file.is_data:
            based.append(file)
            continue
        based.append(file.based_at(next_sequence))
        next_sequence += file.run.sequence_max + 1
    return based, next_sequence


def _check_placed(edit: Edit, latest: Snapshot) -> None:
    """Rows in dynamic buckets lie where the index of `latest` says."""
    is_dynamic = edit.num_buckets < 0
    if is_dynamic and edit.layout is not None and edit.layout != latest.layout_since:
        raise CommitConflictError(
            "rows of this commit were placed by an index that a sort-compact, rollback or drop has replaced; "
            "nothing was published, do it again"
        )


def _check_removed(edit: Edit, version: Version | None) -> None:
    """What the edit removes is live, and what it leaves is a sound bucket."""
    if not edit.remove:
        return
    if version is None or not version.contains(edit.remove):
        raise CommitConflictError(
            "files that this commit replaces are gone or were moved: another compaction, overwrite or rescale "
            "was faster; nothing was published"
        )
    _check_result(edit, version)


def _check_schema(edit: Edit, latest: Snapshot | None) -> None:
    """Rows may be added under an older schema, since files are read by column id; what was read may not.

    A rewrite would lose the columns that its schema does not have, a changelog would miss them.
    """
    rewrites = edit.kind in (CommitKind.COMPACT, CommitKind.RESCALE, CommitKind.SORT_COMPACT)
    newest = max((file.schema_id for file in edit.remove if rewrites), default=0)
    if latest is not None and edit.has_compared:
        newest = max(newest, latest.schema_id)
    if newest > edit.schema_id:
        raise CommitConflictError(
            f"the table was altered meanwhile (schema {newest}, this commit has {edit.schema_id}); "
            "nothing was published: do it again, or open the table again"
        )


def _check_result(edit: Edit, version: Version) -> None:
    removed = {file.name for file in edit.remove}
    places = {file.place for file in (*edit.add, *edit.remove)}
    version.preload(places)
    for place in places:
        stay = [file for file in version.files(place) if file.name not in removed]
        come = [file for file in edit.add if file.place == place and file.is_data]
        check_bucket(place, [*stay, *come])


def _advance_clock(
    latest: Snapshot | None, next_sequence: int, now_ms: int
) -> tuple[tuple[int, int], ...]:
    """Sample (sequence, time), denser in the recent past, so that any retention finds a sample near it."""
    clock = latest.sequence_clock if latest else ()
    if clock and now_ms - clock[-1][1] < CLOCK_INTERVAL_MS:
        return clock
    if len(clock) >= CLOCK_SAMPLES:
        older, recent = clock[: CLOCK_SAMPLES // 2], clock[CLOCK_SAMPLES // 2 :]
        clock = (*older[::2], *recent)
    return (*clock, (next_sequence, now_ms))


def _advance_users(
    request: CommitRequest, latest: Snapshot | None, snapshot_id: int
) -> dict[str, UserProgress]:
    users = dict(latest.users) if latest else {}
    if request.commit_user is None or request.commit_id is None:
        return users
    previous = users.pop(request.commit_user, None)
    newest = (
        request.commit_id if previous is None else max(previous.max_identifier, request.commit_id)
    )
    users[request.commit_user] = UserProgress(newest, snapshot_id)
    while len(users) > MAX_USERS:
        users.pop(next(iter(users)))
    return users
