"""Expiring snapshots, on demand and after a commit; tags, which keep them."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from lsmerge.engine.context import TableContext
from lsmerge.engine.progress import FileHook, counted
from lsmerge.engine.time_travel import by_name
from lsmerge.errors import InvalidOptionError, LsmergeError, SnapshotNotFoundError
from lsmerge.failpoints import failpoint
from lsmerge.meta.consumer import ConsumerStore
from lsmerge.meta.expire import Expirer, Released, Retention
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.tag import Tag, TagStore
from lsmerge.moment import cutoff_ms, span_ms
from lsmerge.options import TableOptions
from lsmerge.storage import layout
from lsmerge.storage.turns import Turns
from lsmerge.tracing import span

logger = logging.getLogger("lsmerge.expiry")

# What a call that says nothing keeps of a table whose options say nothing.
DEFAULT_AT_LEAST = 10
DEFAULT_AGE_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class ExpiryReport:
    """What expired and what was deleted with it, or would be."""

    snapshots: tuple[int, ...]
    tags: tuple[str, ...]
    files: int
    manifests: int
    size_bytes: int
    dry_run: bool


def expire_snapshots(
    context: TableContext,
    retain_min: Any,
    retain_max: Any,
    older_than: Any,
    *,
    dry_run: bool,
    progress: FileHook | None = None,
) -> ExpiryReport:
    """Expire what the arguments, or else the table's options, do not retain."""
    retention = _retention(context, retain_min, retain_max, older_than)
    return _expire(context, retention, dry_run, progress)


def after_commit(context: TableContext) -> None:
    """Expire what the table's options ask for. The commit is done, so a failure is left to the next one."""
    if not is_automatic(context.options):
        return
    turns = Turns(context.store, layout.EXPIRED_DIR, context.env)
    try:
        # Who expires takes what the others would: two at once would do the same work twice.
        with turns.if_free() as is_free:
            if is_free:
                _expire(context, _retention(context, None, None, None), dry_run=False)
    except LsmergeError as error:
        # As text: a handler that keeps the record must not keep the files of the traceback.
        reason = str(error)
        logger.warning("%s: an automatic expiry was left for later: %s", context.store.uri, reason)


def is_automatic(options: TableOptions) -> bool:
    """Whether the options say when snapshots may go."""
    limits = (options.snapshot_num_retained_max, options.snapshot_time_retained_ms)
    return any(limit is not None for limit in limits)


def keeps_changes(options: TableOptions) -> bool:
    """Whether the options say that changes stay longer than snapshots."""
    limits = (
        options.changelog_num_retained_min,
        options.changelog_num_retained_max,
        options.changelog_time_retained_ms,
    )
    return any(limit is not None for limit in limits)


def pins(context: TableContext) -> Sequence[int]:
    """The first snapshot that each reader with a remembered position still needs: the one place that says so."""
    return list(ConsumerStore(context.store).awaited(context.env.now_ms()).values())


def create_tag(context: TableContext, name: Any, snapshot: Any, ttl: Any) -> Tag:
    """Name a snapshot, the newest by default; `ttl` ends the tag."""
    target = context.snapshots.latest() if snapshot is None else by_name(context, snapshot, None)
    if target is None:
        raise SnapshotNotFoundError(f"tag {name!r}: the table has no snapshot yet; commit first")
    now = context.env.now_ms()
    tag = Tag(name, target, now, None if ttl is None else now + span_ms("ttl", ttl))
    TagStore(context.store, context.snapshots).create(tag)
    return tag


def delete_tag(context: TableContext, name: Any) -> None:
    """Remove a tag, and the files that only it kept."""
    tags = TagStore(context.store, context.snapshots)
    tag = tags.get(name)
    tags.delete(tag)
    if not context.snapshots.is_retained(tag.snapshot):
        expirer = _expirer(context)
        expirer.delete(expirer.garbage(Released([[tag.snapshot]])))


def _expire(
    context: TableContext, retention: Retention, dry_run: bool, progress: FileHook | None = None
) -> ExpiryReport:
    with span("lsmerge.expiry", context.store.uri, dry_run=dry_run) as current:
        report = _expired(context, retention, dry_run, progress)
        current.note(snapshots=len(report.snapshots), files=report.files)
    if not dry_run and (report.snapshots or report.files):
        deleted = report.files + report.manifests
        context.counters.add(snapshots_expired=len(report.snapshots), files_deleted=deleted)
        logger.info("%s: %s", context.store.uri, report)
    return report


def _expired(
    context: TableContext, retention: Retention, dry_run: bool, progress: FileHook | None
) -> ExpiryReport:
    expirer = _expirer(context)
    start, end = expirer.choose(retention, pins(context))
    first_change = _first_change(context, retention, end)
    over, changes = _tags_over(context), expirer.expired_changes(first_change)
    if dry_run:
        released: Sequence[Snapshot] = [context.snapshots.get(n) for n in range(start, end)]
    else:
        released = expirer.expire(start, end, first_change)
        for tag in over:
            TagStore(context.store, context.snapshots).delete(tag)
        if changes or (keeps_changes(context.options) and start < first_change):
            expirer.expire_changes(first_change)
    garbage = expirer.garbage(
        Released(
            chains=[released, *([tag.snapshot] for tag in over if tag.snapshot.id < end)],
            changes=changes,
            tags=[tag.name for tag in over],
            outlived=[snapshot for snapshot in released if snapshot.id >= first_change],
        ),
        end,
    )
    if not dry_run:
        paths = list(expirer.paths(garbage))
        failpoint("expire.before-garbage")
        for path in counted(progress, paths, len(paths)):
            context.store.delete(path)
            failpoint("expire.after-file")
    return ExpiryReport(
        snapshots=tuple(snapshot.id for snapshot in released),
        tags=tuple(tag.name for tag in over),
        files=len(garbage.files),
        manifests=len(garbage.manifests),
        size_bytes=garbage.size_bytes,
        dry_run=dry_run,
    )


def _first_change(context: TableContext, retention: Retention, end: int) -> int:
    """The first snapshot whose changes stay, if `end` is the first that itself stays."""
    if not keeps_changes(context.options):
        return end
    of_changes = _changelog_retention(context, retention)
    return _expirer(context).first_change(of_changes, end, pins(context))


def _tags_over(context: TableContext) -> list[Tag]:
    now = context.env.now_ms()
    return [t for t in TagStore(context.store, context.snapshots).all() if t.is_over(now)]


def _expirer(context: TableContext) -> Expirer:
    return Expirer(context.store, context.snapshots, context.versions, context.file_path)


def _retention(
    context: TableContext, retain_min: Any, retain_max: Any, older_than: Any
) -> Retention:
    options, now = context.options, context.env.now_ms()
    at_least = _count("retain_min", retain_min) or options.snapshot_num_retained_min
    at_most = _count("retain_max", retain_max) or options.snapshot_num_retained_max
    age_ms = options.snapshot_time_retained_ms
    cutoff = None if older_than is None else cutoff_ms("older_than", older_than, now)
    if cutoff is None and age_ms is not None:
        cutoff = now - age_ms
    if at_most is None and cutoff is None:
        return Retention(at_least or DEFAULT_AT_LEAST, None, now - DEFAULT_AGE_MS)
    if retain_min is None and at_least is not None and at_most is not None:
        at_least = min(at_least, at_most)
    return _checked(Retention(at_least or 1, at_most, cutoff))


def _changelog_retention(context: TableContext, of_snapshots: Retention) -> Retention:
    """How many changes stay. Where the options only give a least number, the limits of snapshots hold beyond it."""
    options = context.options
    at_least = options.changelog_num_retained_min or 1
    at_most, age_ms = options.changelog_num_retained_max, options.changelog_time_retained_ms
    if at_most is None and age_ms is None:
        return replace(of_snapshots, at_least=max(at_least, of_snapshots.at_least))
    older_than = None if age_ms is None else context.env.now_ms() - age_ms
    return Retention(at_least, at_most, older_than)


def _checked(retention: Retention) -> Retention:
    if retention.at_most is not None and retention.at_least > retention.at_most:
        raise InvalidOptionError(
            f"retain_min = {retention.at_least} is more than retain_max = {retention.at_most}; "
            "give a smaller retain_min or a larger retain_max"
        )
    return retention


def _count(what: str, value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidOptionError(f"{what} = {value!r}: give a whole number, 1 or more")
    return value
