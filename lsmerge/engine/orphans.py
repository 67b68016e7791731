"""Orphans: files in a table's directories that no snapshot or tag refers to, left by crashes; expired snapshots too.

Only files of the names that lsmerge gives, in the places where it puts them, are looked at; anything else is foreign
and stays. A young file may belong to a commit under way, so it stays too.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from typing import Any

from lsmerge.engine.context import TableContext
from lsmerge.engine.progress import FileHook, counted
from lsmerge.errors import ObjectNotFoundError
from lsmerge.failpoints import failpoint
from lsmerge.meta.change_records import ChangeRecords
from lsmerge.meta.references import References, change_references, joined, references
from lsmerge.meta.tag import TagStore
from lsmerge.moment import cutoff_ms
from lsmerge.storage import layout
from lsmerge.storage.objects import TEMPORARY_PREFIX, ObjectInfo

DEFAULT_AGE = timedelta(days=1)

_TEMPORARY_NAME = re.compile(re.escape(TEMPORARY_PREFIX) + r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class OrphanReport:
    """Files that nothing refers to; deleted, unless it was a dry run."""

    files: tuple[str, ...]
    size_bytes: int
    dry_run: bool


def remove_orphan_files(
    context: TableContext, older_than: Any, *, dry_run: bool, progress: FileHook | None = None
) -> OrphanReport:
    """Find, and delete unless `dry_run`, what nothing refers to and was last written before a time."""
    age = DEFAULT_AGE if older_than is None else older_than
    cutoff = cutoff_ms("older_than", age, context.env.now_ms())
    # Listed before the snapshots are read: what is committed meanwhile is not listed, or is referred to.
    own = chain(_expired(context), _own_files(context))
    listed = [info for info in own if info.modified_ms < cutoff]
    referred = referred_names(context)
    found = [info for info in listed if info.path.rpartition("/")[2] not in referred]
    if not dry_run:
        for info in counted(progress, found, len(found)):
            context.store.delete(info.path)
            failpoint("orphans.after-delete")
    size = sum(info.size_bytes for info in found)
    return OrphanReport(tuple(sorted(info.path for info in found)), size, dry_run)


def _expired(context: TableContext) -> list[ObjectInfo]:
    """Snapshots and records of changes below their marks, oldest first: what an expiry that ended half-way left."""
    snapshot, change = _earliest(context)
    places = (
        (layout.SNAPSHOT_DIR, layout.snapshot_id_of, snapshot),
        (layout.CHANGELOG_DIR, layout.change_record_id_of, change),
    )
    found = [
        (number, info)
        for directory, id_of, earliest in places
        for info in context.store.list(directory)
        if (number := id_of(info.path)) is not None and number < earliest
    ]
    return [info for _, info in sorted(found, key=lambda item: item[0])]


def _own_files(context: TableContext) -> Iterator[ObjectInfo]:
    depth = len(context.schema.partition_by)
    for info in context.store.list(""):
        directory, _, name = info.path.rpartition("/")
        is_manifest = directory == layout.MANIFEST_DIR and layout.is_manifest_name(name)
        is_index = directory == layout.INDEX_DIR and layout.is_index_name(name)
        if is_manifest or is_index or layout.is_run_path(info.path, depth):
            yield info
    for info in context.store.list_unfinished(""):
        if _TEMPORARY_NAME.fullmatch(info.path.rpartition("/")[2]):
            yield info


def referred_names(context: TableContext) -> set[str]:
    """Names of all files that a snapshot, tag or record of changes refers to; each is unique in the table for ever."""
    earliest = _earliest(context)
    try:
        referred = joined(_all_references(context))
    except ObjectNotFoundError:
        if _earliest(context) == earliest:
            raise
        return referred_names(context)  # an expiry went on meanwhile
    names = {ref.name for ref in referred.manifests}
    names.update(referred.names.to_pylist())
    return names


def _earliest(context: TableContext) -> tuple[int, int]:
    return context.snapshots.earliest_id(), ChangeRecords(context.store).earliest_id()


def _all_references(context: TableContext) -> Iterator[References]:
    snapshots = list(context.snapshots.newest_first())[::-1]
    if snapshots:
        yield references(context.versions, snapshots)
    for tag in TagStore(context.store, context.snapshots).all():
        yield references(context.versions, [tag.snapshot])
    # After the snapshots: a snapshot that expires meanwhile has its record before it goes.
    for record in ChangeRecords(context.store).all():
        yield change_references(context.versions, record)
