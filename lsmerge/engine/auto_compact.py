"""The tree looks after itself: what a writer does for it before and after its commit.

    before: a bucket with more runs than the stop trigger is compacted first, so that readers never meet very many
    after:  the buckets written to are compacted where the options ask for it, here or in the background

Nothing here fails a write: its rows are committed, or will be, whatever becomes of a compaction. What goes wrong is
logged, and the buckets are looked at again after the next commit.
"""

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from lsmerge.engine import full_interval
from lsmerge.engine.compact import compact_places
from lsmerge.engine.context import TableContext
from lsmerge.errors import LsmergeError
from lsmerge.meta.data_file import BucketId
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.version import place_order

logger = logging.getLogger("lsmerge.compaction")

# Lost races, failing stores, damaged inputs, values that cannot be merged, mergers that this process does not know, a
# table that is closed meanwhile. Whoever reads such rows, or asks for a compaction, is told.
TOLERATED = (LsmergeError, OSError)


def make_room(context: TableContext, places: Collection[BucketId]) -> None:
    """Before a commit: wait for, or do, the compaction of buckets that have too many runs."""
    if not _is_ours(context):
        return
    with _tolerating(context, places):
        if not _crowded(context, places):
            return
        context.upkeep.wait()
        with context.upkeep.turn:
            _compact(context, _crowded(context, places))


def after_commit(context: TableContext, places: Collection[BucketId]) -> None:
    """After a commit: compact the buckets it wrote to, and those that an earlier failure left."""
    if not _is_ours(context):
        return
    context.upkeep.add(places)
    if context.options.compaction_mode == "background":
        context.upkeep.start(lambda: _work_off(context))
    else:
        _work_off(context)


def _is_ours(context: TableContext) -> bool:
    """Whether compaction is this writer's business."""
    return not context.options.write_only and not context.upkeep.is_closed


def _work_off(context: TableContext) -> None:
    # Who does not get the turn leaves its buckets to the next commit: two compactions would race.
    if not context.upkeep.turn.acquire(blocking=False):
        return
    try:
        places = context.upkeep.take()
        with _tolerating(context, places):
            if not full_interval.compact_if_due(context):
                _compact(context, places)
    finally:
        context.upkeep.turn.release()


def _crowded(context: TableContext, places: Collection[BucketId]) -> list[BucketId]:
    """The buckets in which a commit would have to wait."""
    stop = context.options.num_sorted_run_stop_trigger
    return _with_runs(context, context.snapshots.latest(), places, at_least=stop + 1)


def _compact(context: TableContext, places: Collection[BucketId]) -> None:
    latest = context.snapshots.latest()
    trigger = context.options.num_sorted_run_compaction_trigger
    ripe = _with_runs(context, latest, places, at_least=trigger)
    if latest is not None and ripe:
        compact_places(context, latest, ripe, full=False, progress=context.upkeep.check_open)


def _with_runs(
    context: TableContext, latest: Snapshot | None, places: Collection[BucketId], at_least: int
) -> list[BucketId]:
    if latest is None or not places:
        return []
    version = context.versions.load(latest)
    version.preload(places)
    return [p for p in sorted(places, key=place_order) if len(version.runs(p)) >= at_least]


@contextmanager
def _tolerating(context: TableContext, places: Collection[BucketId]) -> Iterator[None]:
    try:
        yield
    except TOLERATED as error:
        context.upkeep.add(places)
        context.counters.add(compactions_left=1)
        # As text: a handler that keeps the record must not keep the files that the traceback refers to.
        reason = str(error)
        logger.warning(
            "%s: an automatic compaction was left for later: %s", context.store.uri, reason
        )
