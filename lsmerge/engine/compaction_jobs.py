"""Which buckets have something to compact, and what: the decisions of a compaction, made before any work.

Everything that must be the same whatever the threads do, names and times of the outputs among it, is settled here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lsmerge.engine.context import TableContext
from lsmerge.engine.pick import PickRules, RunSize, pick, pick_full
from lsmerge.merge.order import FORGET_ALL
from lsmerge.meta.data_file import BucketId, DataFile
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.version import SortedRun
from lsmerge.options import TableOptions
from lsmerge.storage.run_summary import RunSummary


@dataclass(frozen=True, slots=True)
class Job:
    """One bucket's part of a compaction: which runs go to which level, under which names."""

    place: BucketId
    runs: tuple[SortedRun, ...]
    level: int
    forget_before: int
    uid: str
    created_ms: int

    @property
    def num_rows(self) -> int:
        return sum(file.run.num_rows for run in self.runs for file in run.files)

    @property
    def num_buckets(self) -> int:
        """Of the partition; files that are older than this record say 0."""
        return max(file.num_buckets for run in self.runs for file in run.files)


def jobs(
    context: TableContext, latest: Snapshot, places: Sequence[BucketId], *, full: bool
) -> Iterator[Job]:
    """The jobs of those buckets that have one, as `latest` shows them."""
    version = context.versions.load(latest)
    version.preload(places)
    rules, picker = _pick_rules(context.options), pick_full if full else pick
    for place in places:
        runs = version.runs(place)
        forget = forget_before(context, latest)
        plan = picker(_run_sizes(runs, context.options, forget), rules)
        if plan is not None:
            forget = forget if plan.count == len(runs) else 0
            picked, env = tuple(runs[: plan.count]), context.env
            yield Job(place, picked, plan.output_level, forget, env.new_id(), env.now_ms())


def _run_sizes(
    runs: Sequence[SortedRun], options: TableOptions, forget_before: int
) -> list[RunSize]:
    """What the pick compares: sizes as if every run had the format of the top level.

    Level 0 is written to be fast, not small, and would otherwise outweigh a much larger table.
    """
    top = options.format_at(options.num_levels - 1)
    known = [file.run for run in runs for file in run.files if file.run.format == top]

    def size_bytes(file: DataFile) -> int:
        if file.run.format == top or not known:
            return file.run.size_bytes
        return round(file.run.num_rows * _row_bytes(known, file.run.num_rows))

    return [
        RunSize(
            run.level,
            sum(map(size_bytes, run.files)),
            any(can_forget(file, forget_before) for file in run.files),
        )
        for run in runs
    ]


def _row_bytes(known: Sequence[RunSummary], num_rows: int) -> float:
    """Bytes a row of a file of so many rows, told by the newest file that has as many; by all if none has.

    Shorter files take more for each row. Told by one that is much longer, runs that were alike before a compaction
    would seem smaller than what it made of as many others, and never join it.
    """
    like = next((run for run in known if run.num_rows >= num_rows), None)
    told = known if like is None else [like]
    return sum(run.size_bytes for run in told) / sum(run.num_rows for run in told)


def can_forget(file: DataFile, forget_before: int) -> bool:
    """Whether the file may hold retracts that a compaction with the oldest run would drop."""
    return file.run.num_retracts > 0 and file.sequence_min < forget_before


def _pick_rules(options: TableOptions) -> PickRules:
    return PickRules(
        num_levels=options.num_levels,
        trigger=options.num_sorted_run_compaction_trigger,
        max_size_amplification_percent=options.compaction_max_size_amplification_percent,
        size_ratio=options.compaction_size_ratio,
        # Each run above level 0 needs a level of its own.
        most_runs=min(options.num_sorted_run_stop_trigger, options.num_levels - 1),
        # As many as the first compaction of a table takes beside its oldest run; a writer never waits for it.
        gathered=options.num_sorted_run_compaction_trigger - 1,
        most_waiting=options.num_sorted_run_stop_trigger - 1,
    )


def forget_before(context: TableContext, latest: Snapshot) -> int:
    """Retracts below this sequence number may go once the oldest run is part of the compaction.

    1. All older rows of their keys are in this compaction, so they hide nothing outside it.
    2. Rows written later are newer by arrival, so where arrival alone decides no retract could hide them.
    3. Where a column decides a late row may be older than the retract: it is remembered for
       `tombstone.retention` after it was committed, as far as the sequence clock can tell.
    """
    if not context.engine.order.columns:
        return FORGET_ALL
    return latest.sequence_at(context.env.now_ms() - context.options.tombstone_retention_ms)
