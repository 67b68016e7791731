"""Reads every file that a retained snapshot or a tag needs, each once, and reports all damage, not only the first.

Nothing is taken from memory: what an open table has cached says nothing about the bytes in the store.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ParamSpec, TypeVar

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.engine.hash_index import read_hashes
from lsmerge.engine.parallel import ordered_map
from lsmerge.engine.progress import FileHook, counted
from lsmerge.errors import CorruptFileError, LsmergeError
from lsmerge.meta import manifest, schema_store
from lsmerge.meta.bucket_index import IndexFile
from lsmerge.meta.change_records import ChangeRecords
from lsmerge.meta.data_file import DataFile, FileKind
from lsmerge.meta.manifest import ManifestRef
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.tag import TagStore
from lsmerge.storage import layout
from lsmerge.storage.run_file import open_run

P = ParamSpec("P")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What there was to read (`files` and `bytes_read` count data and index files), and what was wrong with it."""

    snapshots: int
    files: int
    bytes_read: int
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is missing or damaged."""
        return not self.problems


@dataclass(slots=True)
class _Findings:
    """Problems noted so far, in the order found."""

    problems: list[str] = field(default_factory=list)

    def attempt(
        self, work: Callable[P, Result], *args: P.args, **kwargs: P.kwargs
    ) -> Result | None:
        """The result of `work`, or None after noting why there is none."""
        try:
            return work(*args, **kwargs)
        except LsmergeError as error:
            self.problems.append(str(error))
            return None


def verify(context: TableContext, progress: FileHook | None = None) -> VerifyReport:
    """Check all retained snapshots, all tags and schemas, and every manifest and data file that these refer to.

    The numbers of snapshots must have no gap; no file may be missing, damaged, a link, or of an unknown format.
    """
    while True:
        earliest = _earliest(context)
        report = _verify(context, progress)
        if report.ok or _earliest(context) == earliest:
            return report  # else what was missing may have expired meanwhile


def _earliest(context: TableContext) -> tuple[int, int]:
    return context.snapshots.earliest_id(), ChangeRecords(context.store).earliest_id()


@dataclass(frozen=True, slots=True)
class Inventory:
    """The files there are to read, and what was found while looking for them."""

    earliest: tuple[int, int]
    snapshots: int
    files: list[DataFile]
    indexes: list[IndexFile]
    problems: tuple[str, ...]


def _verify(context: TableContext, progress: FileHook | None) -> VerifyReport:
    found = inventory(context)
    return _report(found, problems_of(context, found.files, progress))


def reported(context: TableContext, found: Inventory, problems: Sequence[str]) -> VerifyReport:
    """What reading the files of an inventory amounts to. What was missing may have expired meanwhile: then all anew."""
    report = _report(found, problems)
    return report if report.ok or _earliest(context) == found.earliest else verify(context)


def problems_of(
    context: TableContext, files: Sequence[DataFile], progress: FileHook | None = None
) -> tuple[str, ...]:
    """What is wrong with some files, all bytes of which are read."""
    found = ordered_map(lambda file: _problem(context, file), files)
    return tuple(filter(None, counted(progress, found, len(files))))


def inventory(context: TableContext) -> Inventory:
    """Reads all metadata, and the index files."""
    earliest = _earliest(context)
    findings = _Findings()
    noted = context.snapshots.noted_latest()  # before the listing, which then shows what it names
    ids = context.snapshots.ids()
    findings.attempt(_check_newest, noted, ids)
    snapshots = _read_snapshots(context, ids, findings)
    tagged = _read_tags(context, findings)
    recorded = _read_changes(context, findings)
    _check_schemas(context, [*snapshots, *tagged, *recorded], findings)
    tables = _read_manifests(context, [*snapshots, *tagged, *recorded], findings)
    chains = [snapshots, *([snapshot] for snapshot in tagged)]
    referenced = _referenced_entries([chain for chain in chains if chain], recorded, tables)
    indexes = manifest.index_files(manifest.of_kind(referenced, FileKind.INDEX))
    files = manifest.data_files(manifest.runs(referenced))
    for index in indexes:
        findings.attempt(read_hashes, context.store, index)
    return Inventory(earliest, len(ids), files, indexes, tuple(findings.problems))


def _report(found: Inventory, problems: Sequence[str]) -> VerifyReport:
    size = sum(f.run.size_bytes for f in found.files)
    size += sum(f.seal.size_bytes for f in found.indexes)
    count = len(found.files) + len(found.indexes)
    return VerifyReport(found.snapshots, count, size, (*found.problems, *problems))


def _read_snapshots(
    context: TableContext, ids: Sequence[int], findings: _Findings
) -> list[Snapshot]:
    for below, above in pairwise(ids):
        findings.attempt(context.snapshots.check_unbroken, below, above)
    read = (findings.attempt(context.snapshots.read, id_) for id_ in ids)
    return [snapshot for snapshot in read if snapshot is not None]


def _check_newest(noted: int, ids: Sequence[int]) -> None:
    if noted > max(ids, default=0):
        raise CorruptFileError(
            layout.snapshot_path(noted),
            f"missing, although {layout.LATEST_HINT} names it as published; put it back, or commit again",
        )


def _read_tags(context: TableContext, findings: _Findings) -> list[Snapshot]:
    tags = TagStore(context.store, context.snapshots)
    read = (findings.attempt(tags.read, path) for path in tags.paths())
    return [tag.snapshot for tag in read if tag is not None]


def _read_changes(context: TableContext, findings: _Findings) -> list[Snapshot]:
    records = ChangeRecords(context.store)
    read = (findings.attempt(records.read, id_) for id_ in records.ids())
    return [record for record in read if record is not None]


def _check_schemas(
    context: TableContext, snapshots: Sequence[Snapshot], findings: _Findings
) -> None:
    """Schemas are numbered from 0 without a gap, up to the newest that is there or that a snapshot names."""
    there = findings.attempt(schema_store.latest_schema_id, context.store) or 0
    newest = max([there, context.schema.id, *(snapshot.schema_id for snapshot in snapshots)])
    for id_ in range(newest + 1):
        findings.attempt(schema_store.read_schema, context.store, id_)


def _read_manifests(
    context: TableContext, snapshots: Sequence[Snapshot], findings: _Findings
) -> dict[ManifestRef, pa.Table]:
    """Each manifest that a snapshot names; a snapshot shares most of its own with the one before."""
    refs = dict.fromkeys(ref for snapshot in snapshots for ref in snapshot.manifests)
    read = {ref: findings.attempt(manifest.read_manifest, context.store, ref) for ref in refs}
    return {ref: table for ref, table in read.items() if table is not None}


def _referenced_entries(
    chains: Sequence[Sequence[Snapshot]],
    recorded: Sequence[Snapshot],
    tables: Mapping[ManifestRef, pa.Table],
) -> pa.Table:
    """Every file that is live in a snapshot of a chain, once: live in the first one, or added since; and changes."""
    entries = []
    for chain in chains:
        own = [tables[ref] for ref in chain[0].manifests if ref in tables]
        entries.append(manifest.live_entries(own))
        entries += map(manifest.added, _deltas(chain, tables))
    for table in map(manifest.added, _deltas(recorded, tables)):
        entries.append(manifest.of_kind(table, FileKind.CHANGELOG))
    return _each_once(entries)


def _deltas(
    snapshots: Sequence[Snapshot], tables: Mapping[ManifestRef, pa.Table]
) -> list[pa.Table]:
    return [tables[snapshot.delta] for snapshot in snapshots if snapshot.delta in tables]


def _each_once(entries: Sequence[pa.Table]) -> pa.Table:
    seen: set[str] = set()
    found = [manifest.MANIFEST_SCHEMA.empty_table()]
    for table in entries:
        names = table["name"].to_pylist()
        fresh = [row for row, name in enumerate(names) if name not in seen]
        found.append(table.take(pa.array(fresh, pa.int64())))
        seen.update(names)
    return pa.concat_tables(found)


def _problem(context: TableContext, file: DataFile) -> str | None:
    try:
        reader = open_run(context.store, context.file_path(file), file.run)
        try:
            reader.verify()
        finally:
            reader.close()
    except LsmergeError as error:
        return str(error)
    return None
