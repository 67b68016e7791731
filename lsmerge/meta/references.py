"""What snapshots refer to, and what of it nothing else does."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lsmerge.meta import manifest
from lsmerge.meta.bucket_index import IndexFile
from lsmerge.meta.data_file import DataFile, FileKind
from lsmerge.meta.manifest import ManifestRef
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.version import VersionReader


@dataclass(frozen=True, slots=True)
class References:
    """Manifests, and entries of data, changelog and index files, which may repeat."""

    manifests: frozenset[ManifestRef]
    entries: pa.Table

    def with_manifest(self, ref: ManifestRef) -> "References":
        return References(self.manifests | {ref}, self.entries)

    @property
    def names(self) -> pa.Array:
        return self.entries["name"].combine_chunks()


@dataclass(frozen=True, slots=True)
class Garbage:
    """Files that nothing refers to."""

    manifests: tuple[ManifestRef, ...] = ()
    files: tuple[DataFile, ...] = ()
    indexes: tuple[IndexFile, ...] = ()

    @property
    def size_bytes(self) -> int:
        seals = [*(ref.seal for ref in self.manifests), *(index.seal for index in self.indexes)]
        runs = sum(file.run.size_bytes for file in self.files)
        return runs + sum(seal.size_bytes for seal in seals)


def references(versions: VersionReader, chain: Sequence[Snapshot]) -> References:
    """All that one snapshot, or several in a row, refer to.

    What is live in one of them is live in the first, or added by one of the commits since.
    """
    live = manifest.live_entries(versions.tables(chain[0].manifests))
    deltas = pa.concat_tables(versions.tables(snapshot.delta for snapshot in chain))
    added = manifest.added(manifest.in_few_chunks(deltas))
    manifests = frozenset(ref for snapshot in chain for ref in snapshot.manifests)
    return References(manifests, pa.concat_tables([live, added]))


def change_references(versions: VersionReader, record: Snapshot) -> References:
    """What is needed of a snapshot to read its changes."""
    added = pa.concat_tables(map(manifest.added, versions.tables([record.delta])))
    return References(frozenset([record.delta]), manifest.of_kind(added, FileKind.CHANGELOG))


def joined(parts: Iterable[References]) -> References:
    """What any of the parts refers to."""
    found = list(parts)
    manifests = frozenset(ref for part in found for ref in part.manifests)
    empty = manifest.MANIFEST_SCHEMA.empty_table()
    return References(manifests, pa.concat_tables([empty, *(part.entries for part in found)]))


def only_in(released: References, kept: References) -> Garbage:
    """What is referred to by `released` and not by `kept`."""
    import pyarrow.compute as pc

    is_kept = pc.is_in(released.entries["name"], value_set=kept.names)
    entries = released.entries.filter(pc.invert(is_kept))
    files = {file.name: file for file in manifest.data_files(manifest.runs(entries))}
    indexes = manifest.index_files(manifest.of_kind(entries, FileKind.INDEX))
    by_name = {index.name: index for index in indexes}
    manifests = sorted(released.manifests - kept.manifests, key=lambda ref: ref.name)
    return Garbage(tuple(manifests), tuple(files.values()), tuple(by_name.values()))
