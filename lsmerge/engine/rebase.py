"""The placer of a table, and the steps of adapting a commit to the snapshot it lands on."""

from collections.abc import Callable, Sequence

from lsmerge.engine.context import TableContext
from lsmerge.engine.cross_partition import CrossPartitionPlacer
from lsmerge.engine.placement import DynamicPlacer, FixedPlacer, Placer, RebaseStep
from lsmerge.engine.unpublished import UnpublishedRuns
from lsmerge.meta.commit import Rebase
from lsmerge.meta.data_file import BucketId, Edit
from lsmerge.meta.snapshot import Snapshot


def placer_of(
    context: TableContext,
    runs: UnpublishedRuns,
    spill: Callable[[BucketId], None],
    sharers: int = 1,
) -> Placer:
    """What places the rows of one commit; `spill` moves rows of a bucket that are still in memory into `runs`.

    `sharers` is how many writers of one commit place new keys at the same time, each a share of them.
    """
    if not context.options.has_dynamic_buckets:
        return FixedPlacer(context, runs)
    if context.schema.is_cross_partition:
        return CrossPartitionPlacer(context, runs, spill, sharers)
    return DynamicPlacer(context, runs, sharers)


def chained(edit: Edit, steps: Sequence[RebaseStep]) -> Rebase | None:
    """All steps one after the other, places first: each sees the edit that the one before it made."""
    if not steps:
        return None

    def rebase(latest: Snapshot | None) -> Edit:
        rebased = edit
        for step in steps:
            rebased = step(latest, rebased)
        return rebased

    return rebase
