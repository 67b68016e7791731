"""The difference between any two snapshots, with or without a producer."""

from collections.abc import Iterable, Iterator, Sequence
from math import gcd

import pyarrow as pa

from lsmerge.engine.bucket_counts import BucketCounts
from lsmerge.engine.changelog_rows import as_changes
from lsmerge.engine.context import TableContext
from lsmerge.engine.deletes_first import deletes_first
from lsmerge.engine.difference import BucketStates, changed_rows
from lsmerge.engine.run_cache import MAX_OPEN_RUNS
from lsmerge.engine.schema_views import reading
from lsmerge.engine.time_travel import by_name
from lsmerge.meta.data_file import BucketId, DataFile
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.version import SortedRun, Version, place_order, sorted_runs
from lsmerge.storage.run_file import RunReader


def diff(context: TableContext, before: int, after: int) -> Iterator[pa.RecordBatch]:
    """What turns the table at `before` into the table at `after`; a snapshot that is not there is refused at once."""
    old, new = by_name(context, before, None), by_name(context, after, None)
    return _read(context, old, new)


def _read(context: TableContext, old: Snapshot, new: Snapshot) -> Iterator[pa.RecordBatch]:
    """The changes. Who has begun to read them comes to the end, as with a scan, whatever expires meanwhile."""
    with reading(context, old), reading(context, new):
        held = _held(context, context.versions.load(old), context.versions.load(new))
        yield from _changes(context, old, new)
        del held  # the files may go now


def compared_files(context: TableContext, before: int, after: int) -> list[DataFile]:
    """The files that `diff` reads."""
    old, new = by_name(context, before, None), by_name(context, after, None)
    with reading(context, old), reading(context, new):
        return _differing(context.versions.load(old), context.versions.load(new))


def _held(context: TableContext, before: Version, after: Version) -> list[RunReader]:
    """The files to be read, opened now unless they are too many: local disks keep what is held."""
    files = _differing(before, after)
    return [] if len(files) > MAX_OPEN_RUNS else [context.reader(file) for file in files]


def _differing(before: Version, after: Version) -> list[DataFile]:
    """The files of buckets that differ."""
    places = {*before.places(), *after.places()}
    before.preload(places)
    after.preload(places)
    pairs = ((before.files(place), after.files(place)) for place in places)
    files = {file.name: file for old, new in pairs if old != new for file in (*old, *new)}
    return list(files.values())


def _changes(context: TableContext, old: Snapshot, new: Snapshot) -> Iterator[pa.RecordBatch]:
    rows = _rows(context, old, new)
    if context.schema.is_cross_partition:
        rows = deletes_first(context, _rows(context, old, new), rows)
    return as_changes(context, rows, new)


def _rows(context: TableContext, old: Snapshot, new: Snapshot) -> Iterator[pa.RecordBatch]:
    before, after = context.versions.load(old), context.versions.load(new)
    key = context.schema.primary_key
    compared = [name for name in context.schema.column_names if name not in key]
    for places in _units(context, before, after):
        states = _states(*([version.files(p) for p in places] for version in (before, after)))
        yield from changed_rows(context, states, compared)


def _units(context: TableContext, before: Version, after: Version) -> list[list[BucketId]]:
    """Buckets in groups that keep their keys; more than one where the partition was rescaled or clustered between."""
    places = sorted({*before.places(), *after.places()}, key=place_order)
    before.preload(places)
    after.preload(places)
    old, new = (BucketCounts(context, version.snapshot) for version in (before, after))
    has_moved = context.options.has_dynamic_buckets and old.layout != new.layout
    units: dict[BucketId, list[BucketId]] = {}
    for place in places:
        counts = old.of(place.partition), new.of(place.partition)
        number = place.bucket if counts[0] == counts[1] else place.bucket % gcd(*counts)
        number = 0 if has_moved else number
        units.setdefault(BucketId(place.partition, number), []).append(place)
    return list(units.values())


def _states(old: Sequence[Sequence[DataFile]], new: Sequence[Sequence[DataFile]]) -> BucketStates:
    """Two states of some buckets, each given as its files."""
    shared = {file.name for files in old for file in files}
    shared &= {file.name for files in new for file in files}
    return BucketStates(
        common=[file for files in new for file in files if file.name in shared],
        before=list(_other_runs(old, shared)),
        after=list(_other_runs(new, shared)),
    )


def _other_runs(buckets: Iterable[Sequence[DataFile]], shared: set[str]) -> Iterator[SortedRun]:
    for files in buckets:
        yield from sorted_runs([file for file in files if file.name not in shared])
