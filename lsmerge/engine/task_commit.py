"""The commit of what many tasks wrote: one snapshot of all, or nothing.

    decode messages -> take over runs in task order -> reconcile what several tasks did to one key -> publish
        -> delete what was not used

The outcome is that of one writer that wrote the rows of all tasks, one task after the other. Files of tasks stay until
their commit is published, so that it may be tried again, or until they are discarded.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lsmerge.engine.context import TableContext
from lsmerge.engine.handed_over import check_there, published_since
from lsmerge.engine.hash_index import discard_indexes
from lsmerge.engine.orphans import referred_names
from lsmerge.engine.overwrite import Replacement
from lsmerge.engine.pre_combine import Combine
from lsmerge.engine.producer import LookupChangelog
from lsmerge.engine.run_output import discard
from lsmerge.engine.task_message import Share, TaskResult, decode
from lsmerge.engine.write import TableWriter
from lsmerge.errors import CommitConflictError, SchemaMismatchError
from lsmerge.failpoints import failpoint
from lsmerge.meta.data_file import DataFile, Edit
from lsmerge.meta.snapshot import Snapshot

RUN_AGAIN = "run the tasks again"


def commit_tasks(
    context: TableContext,
    messages: Sequence[bytes],
    replaced: Replacement | None,
    commit_user: str | None,
    commit_id: int | None,
) -> Snapshot:
    """Publish what the tasks wrote, in the order of their messages."""
    tasks = _decoded(context, messages)
    _check_tasks(context, tasks, replaced)
    writer = _TaskCommit(context, tasks, replaced, commit_user, commit_id)
    done = writer.find_commit()
    if done is not None:
        _delete_unused(context, tasks, referred_names(context))
        return done
    check_there(context, (file for task in tasks for file in task.all_files), RUN_AGAIN)
    writer.take_over()
    snapshot = writer.commit()
    _delete_unused(context, tasks, writer.published or referred_names(context))
    return snapshot


def discard_tasks(
    context: TableContext, messages: Sequence[bytes], *, was_committing: bool
) -> None:
    """Delete what the tasks wrote, unless it is published.

    If a commit was tried, its request may still be on its way to a store that answers late: nothing is deleted then
    that such a commit could name, and what nothing refers to is an orphan.
    """
    tasks = _decoded(context, messages)
    if was_committing and not context.store.is_settled:
        return
    _delete_unused(context, tasks, referred_names(context) if was_committing else set())


def _decoded(context: TableContext, messages: Sequence[bytes]) -> list[TaskResult]:
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
        raise SchemaMismatchError(
            f"messages is a {type(messages).__name__}: pass a list of what the finish() of each task gave"
        )
    return [decode(context, message) for message in messages]


class _TaskCommit(TableWriter):
    """A writer of runs that tasks have written."""

    def __init__(
        self,
        context: TableContext,
        tasks: Sequence[TaskResult],
        replaced: Replacement | None,
        commit_user: str | None,
        commit_id: int | None,
    ) -> None:
        columns = tasks[0].columns if tasks else None
        super().__init__(context, columns, commit_user, commit_id)
        self._tasks = tasks
        self._replaced = replaced
        self._has_shares = bool(tasks) and tasks[0].share is not None
        self._lookup = LookupChangelog(context, [told for task in tasks for told in task.told])
        self._told_input = [file for task in tasks for file in task.changelog]
        self.published: set[str] = set()

    def take_over(self) -> None:
        """Go on with the runs of all tasks as if they were this writer's."""
        with self._failing("taking over the runs of a task failed"):
            for task in self._tasks:
                if task.is_staged:
                    self._replay(task)
                else:
                    self._placer.adopt(task.files, task.placed)
            failpoint("task.before-commit")

    def _replay(self, task: TaskResult) -> None:
        """Place the rows of a task that left this to the commit."""
        for file in task.files:
            for batch in self._runs.rows(file):
                self._buffer(batch, keeps_memory=False)

    @property
    def _has_nothing(self) -> bool:
        """Never: a job without rows is a commit that its followers see."""
        return False

    @property
    def _looks_up(self) -> bool:
        return super()._looks_up and self._replaced is None

    @property
    def _combiner(self) -> Combine | None:
        """Who had all rows of a key has combined them already."""
        return None if self._has_shares else super()._combiner

    def _completed(self, latest: Snapshot | None, edit: Edit) -> Edit:
        self._check_unpublished(latest)
        completed = self._with_changes(latest, edit)
        self.published = {file.name for file in completed.add}
        return completed

    def _check_unpublished(self, latest: Snapshot | None) -> None:
        begun_after = min((task.begun_after for task in self._tasks), default=0)
        published = published_since(self._context, begun_after, latest) if self._tasks else set()
        for name in (file.name for task in self._tasks for file in task.files):
            if name in published:
                raise CommitConflictError(
                    f"run {name} of a task has been committed before; commit each message once, or give commit_user "
                    "and commit_id, by which a repeated commit is known"
                )

    def _with_changes(self, latest: Snapshot | None, edit: Edit) -> Edit:
        if self._replaced is not None:
            return self._replaced.applied(self._context, latest, edit)
        completed = super()._completed(latest, edit)
        return replace(completed, add=(*completed.add, *self._told_input))


def _check_tasks(
    context: TableContext, tasks: Sequence[TaskResult], replaced: Replacement | None
) -> None:
    """The tasks belong together, and to this commit."""
    for task in tasks:
        if task.schema_id != context.schema.id:
            raise CommitConflictError(
                f"the table was altered while the tasks were writing (schema {context.schema.id}, a task has "
                f"{task.schema_id}); nothing was published: run the tasks again"
            )
        if task.overwrites != (replaced is not None):
            wanted = "overwrite" if task.overwrites else "add"
            raise SchemaMismatchError(
                f"a task wrote rows that {wanted}, which this commit does not: pass the same `overwrite` to "
                "task_writer and commit_tasks"
            )
        if replaced is not None:
            replaced.check_inside(file.place for file in task.files)
    if len({task.columns for task in tasks}) > 1:
        raise SchemaMismatchError("the tasks wrote different target columns; commit them apart")
    names = [file.name for task in tasks for file in task.files]
    if len(set(names)) < len(names):
        raise SchemaMismatchError("a message is there twice; pass what each task gave once")
    _check_shares([task.share for task in tasks])
    _check_counts(context, tasks)


def _check_shares(shares: Sequence[Share | None]) -> None:
    """Shares of one whole, each once; or none."""
    given = [share for share in shares if share is not None]
    counts, numbers = {share.total for share in given}, {share.number for share in given}
    # A task that would have no rows may never have been started.
    if given and (len(given) < len(shares) or len(counts) > 1 or len(numbers) < len(given)):
        raise SchemaMismatchError(
            "the shares of the tasks are not parts of one whole, each once: "
            f"{[None if share is None else tuple(share) for share in shares]}"
        )


def _check_counts(context: TableContext, tasks: Sequence[TaskResult]) -> None:
    """Input rows of a key are told in the order of tasks only if all of them are in one bucket."""
    if context.options.changelog_producer != "input":
        return
    counts: dict[tuple[str | None, ...], int] = {}
    for file in (file for task in tasks for file in task.files):
        if counts.setdefault(file.place.partition, file.num_buckets) != file.num_buckets:
            raise CommitConflictError(
                f"partition {list(file.place.partition)} was rescaled while the tasks were writing; nothing was "
                "published: run the tasks again"
            )


def _delete_unused(context: TableContext, tasks: Sequence[TaskResult], used: set[str]) -> None:
    """Delete what tasks wrote, but for the files that are used."""
    discard(context, _unused(tasks, used))
    discard_indexes(context.store, (index for task in tasks for index in task.placed.indexes))


def _unused(tasks: Sequence[TaskResult], used: set[str]) -> Iterator[DataFile]:
    return (file for task in tasks for file in task.all_files if file.name not in used)
