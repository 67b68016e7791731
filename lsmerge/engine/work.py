"""Compaction, rescaling and verification in units of work that other processes do.

    plan a job -> units, which can be pickled -> run each anywhere -> finish the job with the results

What each job needs to be whole decides who publishes. Buckets are compacted independently, so each unit publishes its
own snapshot, and one that loses to another compaction reports that instead of failing. A partition gets its new buckets
at one instant, so the parts of a rescale are published together at the end. Verification publishes nothing.
A unit that is run twice does no harm: its files go unreferenced, or it finds nothing left to do.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeAlias, TypeVar

from lsmerge.engine.compact import CompactionReport, compact_places, selected_places
from lsmerge.engine.compaction_jobs import jobs
from lsmerge.engine.context import TableContext
from lsmerge.engine.rescale import (
    RescalePart,
    RescaleReport,
    RescaleUnit,
    plan_rescale,
    rescale_part,
)
from lsmerge.engine.schema_views import reading
from lsmerge.engine.splits import bytes_of, packed, target_bytes
from lsmerge.engine.verify import VerifyReport, inventory, problems_of, reported
from lsmerge.errors import CommitConflictError
from lsmerge.meta.data_file import BucketId, DataFile

# Units take seconds, so that starting one costs little, and losing one is no great loss.
UNIT_BYTES = "256 mb"

Unit = TypeVar("Unit")
Result = TypeVar("Result")
Report = TypeVar("Report")


@dataclass(frozen=True, slots=True)
class CompactionUnit:
    """Some buckets to compact, as they are by then."""

    places: tuple[BucketId, ...]
    full: bool


@dataclass(frozen=True, slots=True)
class VerifyUnit:
    """Some files to read."""

    files: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True)
class Job(Generic[Unit, Result, Report]):
    """Units to be run by `Table.run_unit` in any process and order, and what to do with their results.

    >>> import lsmerge, pyarrow as pa
    >>> t = lsmerge.create_table("memory://job", pa.schema({"k": pa.int64()}), "k", options={"bucket": 2})
    >>> _ = t.upsert({"k": range(9)}), t.upsert({"k": range(9)})
    >>> job = t.compaction_job(full=True)
    >>> job.finish([t.run_unit(unit) for unit in job.units]).rows_written
    9
    """

    units: tuple[Unit, ...]
    finish: Callable[[Sequence[Result]], Report]


AnyUnit: TypeAlias = CompactionUnit | RescaleUnit | VerifyUnit


def run(context: TableContext, unit: AnyUnit) -> Any:
    """Do one unit; its result is for `finish` of the job."""
    if isinstance(unit, CompactionUnit):
        return _compact(context, unit)
    if isinstance(unit, RescaleUnit):
        return rescale_part(context, unit)
    return problems_of(context, unit.files)


def compaction_job(
    context: TableContext, *, full: bool, partition: Any, target_size: Any
) -> Job[CompactionUnit, CompactionReport, CompactionReport]:
    """Compact the buckets that need it, or all of them."""
    latest, places = selected_places(context, partition)
    if latest is None:
        return Job((), total)
    with reading(context, latest):
        work = list(jobs(context, latest, places, full=full))
    sizes = [bytes_of(file for run in job.runs for file in run.files) for job in work]
    groups = packed([job.place for job in work], sizes, target_bytes(target_size))
    return Job(tuple(CompactionUnit(tuple(group), full) for group in groups), total)


def rescale_job(
    context: TableContext, num_buckets: Any, partition: Any
) -> Job[RescaleUnit, RescalePart, RescaleReport]:
    """Split partitions into another number of buckets."""
    plan = plan_rescale(context, num_buckets, partition)
    return Job(tuple(plan.units()), plan.finish)


def verify_job(
    context: TableContext, target_size: Any
) -> Job[VerifyUnit, tuple[str, ...], VerifyReport]:
    """Read every byte that any retained snapshot needs. Metadata is read here, files in the units."""
    found = inventory(context)
    sizes = [file.run.size_bytes for file in found.files]
    groups = packed(found.files, sizes, target_bytes(target_size))

    def finish(results: Sequence[tuple[str, ...]]) -> VerifyReport:
        return reported(context, found, [problem for result in results for problem in result])

    return Job(tuple(VerifyUnit(tuple(group)) for group in groups), finish)


def total(reports: Iterable[CompactionReport]) -> CompactionReport:
    """What several compactions did together; `snapshot_id` is the last one's."""
    sum_ = CompactionReport(None, 0, 0, 0, 0, 0, 0, 0)
    for report in reports:
        ids = [id_ for id_ in (sum_.snapshot_id, report.snapshot_id) if id_ is not None]
        sum_ = CompactionReport(
            max(ids, default=None),
            sum_.buckets + report.buckets,
            sum_.files_removed + report.files_removed,
            sum_.files_added + report.files_added,
            sum_.rows_read + report.rows_read,
            sum_.rows_written + report.rows_written,
            sum_.bytes_read + report.bytes_read,
            sum_.bytes_written + report.bytes_written,
            sum_.files_moved + report.files_moved,
            sum_.buckets_lost + report.buckets_lost,
        )
    return sum_


def _compact(context: TableContext, unit: CompactionUnit) -> CompactionReport:
    latest = context.snapshots.latest()
    if latest is None:
        return total(())
    live = set(context.versions.load(latest).places())
    places = [place for place in unit.places if place in live]
    try:
        return compact_places(context, latest, places, full=unit.full)
    except CommitConflictError:
        return replace(total(()), buckets_lost=len(places))
