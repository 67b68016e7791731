"""Compaction, rescaling and verification in units of work that other processes do.

    plan a job -> units, which can be pickled -> run each anywhere -> finish the job with what they report

What a unit reports is a short JSON text with a checksum, so that it may travel through any queue.

What each job needs to be whole decides who publishes. Buckets are compacted independently, so each unit publishes its
own snapshot, and one that loses to another compaction reports that instead of failing. A partition gets its new buckets
at one instant, so the parts of a rescale are published together at the end. Verification publishes nothing.
A unit that is run twice does no harm: its files go unreferenced, or it finds nothing left to do.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Generic, TypeAlias, TypeVar

import pyarrow as pa

from lsmerge.engine.compact import CompactionReport, compact_places, selected_places
from lsmerge.engine.compaction_jobs import jobs
from lsmerge.engine.context import TableContext
from lsmerge.engine.partition_rewrite import RewriteReport
from lsmerge.engine.rescale_units import RescalePart, RescalePlan, RescaleUnit, rescale_part
from lsmerge.engine.schema_views import reading
from lsmerge.engine.splits import bytes_of, packed, target_bytes
from lsmerge.engine.task_message import file_content, file_of
from lsmerge.engine.verify import VerifyReport, inventory, problems_of, reported
from lsmerge.errors import CommitConflictError, InvalidOptionError
from lsmerge.meta.data_file import BucketId, DataFile
from lsmerge.storage import checked_json

# Units take seconds, so that starting one costs little, and losing one is no great loss.
UNIT_BYTES = "256 mb"

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


AnyUnit: TypeAlias = CompactionUnit | RescaleUnit | VerifyUnit


@dataclass(frozen=True, slots=True)
class Job(Generic[Report]):
    """Units to be run by `Table.run_unit` in any process and order, and what to do with what that returns.

    >>> import lsmerge, pyarrow as pa
    >>> t = lsmerge.create_table("memory://job", pa.schema({"k": pa.int64()}), "k", options={"bucket": 2})
    >>> _ = t.upsert({"k": range(9)}), t.upsert({"k": range(9)})
    >>> job = t.compaction_job(full=True)
    >>> job.finish([t.run_unit(unit) for unit in job.units]).rows_written
    9
    """

    units: tuple[AnyUnit, ...]
    finish: Callable[[Sequence[bytes]], Report]


def run(context: TableContext, unit: AnyUnit) -> bytes:
    """Do one unit; what it reports is for `finish` of the job."""
    if isinstance(unit, CompactionUnit):
        return checked_json.dump({"compaction": asdict(_compact(context, unit))})
    if isinstance(unit, RescaleUnit):
        part = rescale_part(context, unit)
        return checked_json.dump(
            {
                "unit": part.unit,
                "made": [file_content(file) for file in part.made],
                "changelog": [file_content(file) for file in part.changelog],
            }
        )
    if isinstance(unit, VerifyUnit):
        return checked_json.dump({"problems": problems_of(context, unit.files)})
    raise InvalidOptionError(f"unit = {unit!r}: pass one of the units of a job of this table")


def compaction_job(
    context: TableContext, *, full: bool, partition: Any, target_size: Any
) -> Job[CompactionReport]:
    """Compact the buckets that need it, or all of them."""
    latest, places = selected_places(context, partition)
    if latest is None:
        return Job((), _total_of)
    with reading(context, latest):
        work = list(jobs(context, latest, places, full=full))
    sizes = [bytes_of(file for run in job.runs for file in run.files) for job in work]
    groups = packed([job.place for job in work], sizes, target_bytes(target_size))
    return Job(tuple(CompactionUnit(tuple(group), full) for group in groups), _total_of)


def rescale_job(context: TableContext, num_buckets: Any, partition: Any) -> Job[RewriteReport]:
    """Split partitions into another number of buckets."""
    plan = RescalePlan(context, num_buckets, partition)

    def finish(reports: Sequence[bytes]) -> RewriteReport:
        return plan.finish([_rescaled(report) for report in reports])

    return Job(plan.units, finish)


def verify_job(context: TableContext, target_size: Any) -> Job[VerifyReport]:
    """Read every byte that any retained snapshot needs. Metadata is read here, files in the units."""
    found = inventory(context)
    sizes = [file.run.size_bytes for file in found.files]
    groups = packed(found.files, sizes, target_bytes(target_size))

    def finish(reports: Sequence[bytes]) -> VerifyReport:
        problems = [str(p) for report in reports for p in _content(report)["problems"]]
        return reported(context, found, problems)

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


def _total_of(reports: Sequence[bytes]) -> CompactionReport:
    return total(CompactionReport(**_content(report)["compaction"]) for report in reports)


def _rescaled(report: bytes) -> RescalePart:
    content = _content(report)
    made, changelog = (tuple(map(file_of, content[name])) for name in ("made", "changelog"))
    return RescalePart(content["unit"], made, changelog)


def _content(report: bytes) -> dict[str, Any]:
    return checked_json.load("the report of a unit", pa.py_buffer(report))


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
