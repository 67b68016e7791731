"""The changes of some snapshots, cut into parts that other processes read.

A part holds pieces: what one snapshot changed in one bucket, or some of its rows as inserts. With whole buckets, all
pieces that may hold a key are in one part, oldest first, so that the changes of a key stay in order. These are the
pieces of a bucket; those of a partition where a key may be told in two of its buckets; and all of them if keys move
between partitions.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from lsmerge.engine.changelog_rows import change_files, changes_of, told_runs, whole_snapshot
from lsmerge.engine.context import TableContext
from lsmerge.engine.follow import changed, changes
from lsmerge.engine.schema_views import reading, with_schema_id
from lsmerge.engine.sections import EVERYTHING
from lsmerge.engine.snapshot_diff import compared_files
from lsmerge.engine.splits import (
    Piece,
    PinnedSnapshot,
    as_planned,
    bytes_of,
    packed,
    rows_of,
    weighed_pieces,
)
from lsmerge.errors import SnapshotNotFoundError
from lsmerge.meta.data_file import BucketId, CommitKind, DataFile, Partition
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.version import place_order


class ChangePiece(NamedTuple):
    """What one snapshot changed in one bucket; or, if `rows` is given, these rows of it as inserts.

    `place` None stands for all buckets: of a rollback nothing is written down, bucket by bucket or otherwise, an
    overwrite takes from other buckets than it brings to, and so does a commit that moves keys between partitions.
    `spread_by` says how the rows were given their buckets: pieces of a partition that say the same agree on the bucket
    of a key.
    """

    snapshot: PinnedSnapshot
    place: BucketId | None
    num_rows: int
    size_bytes: int
    rows: Piece | None = None
    spread_by: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True, slots=True)
class ChangeSplit:
    """A part of the changes. `schema_id` is the schema that they are told in; `num_rows` counts stored rows."""

    schema_id: int
    pieces: tuple[ChangePiece, ...]

    @property
    def num_rows(self) -> int:
        """Rows stored in what is to be read."""
        return sum(piece.num_rows for piece in self.pieces)

    @property
    def size_bytes(self) -> int:
        """Bytes of the files to be read."""
        return sum(piece.size_bytes for piece in self.pieces)


def whole_pieces(context: TableContext, number: int, target: int) -> Iterator[ChangePiece]:
    """All rows of a snapshot, as far as they have been told; large buckets in pieces of about `target` bytes."""
    snapshot = context.snapshots.get(number)
    with reading(context, snapshot):
        version = context.versions.load(snapshot)
        places = version.places()
        version.preload(places)
        buckets = ((place, told_runs(context, version.runs(place))) for place in places)
        for piece, num_rows, size in weighed_pieces(context, buckets, EVERYTHING, target):
            yield ChangePiece(_pinned(snapshot), piece.place, num_rows, size, piece)


def change_pieces(
    context: TableContext, number: int, *, whole_buckets: bool
) -> Iterator[ChangePiece]:
    """What one snapshot changed, bucket by bucket; with `whole_buckets` in one piece if keys move between them."""
    snapshot = changed(context, number)
    if snapshot.kind is CommitKind.ROLLBACK:
        yield _piece(snapshot, None, _rolled_back_files(context, snapshot))
        return
    with reading(context, snapshot):
        removed, added = change_files(context, snapshot)
    moves_keys = whole_buckets and context.schema.is_cross_partition
    if snapshot.kind is CommitKind.OVERWRITE or moves_keys:
        if removed or added:
            yield _piece(snapshot, None, [*removed, *added])
        return
    for place in sorted({file.place for file in added}, key=place_order):
        yield _piece(snapshot, place, [file for file in added if file.place == place])


def _rolled_back_files(context: TableContext, snapshot: Snapshot) -> list[DataFile]:
    """What the changes of a rollback are computed from; if that is gone, whoever reads them is told."""
    try:
        return compared_files(context, snapshot.id - 1, snapshot.id)
    except SnapshotNotFoundError:
        return []


def split_up(
    context: TableContext,
    pieces: Iterable[ChangePiece],
    target: int,
    *,
    whole_buckets: bool = False,
) -> list[ChangeSplit]:
    """The pieces in parts of about `target` bytes."""
    groups = _by_key(context, list(pieces)) if whole_buckets else [[piece] for piece in pieces]
    sizes = [sum(piece.size_bytes for piece in group) for group in groups]
    return [
        ChangeSplit(context.schema.id, tuple(piece for group in members for piece in group))
        for members in packed(groups, sizes, target)
    ]


def read_changes(context: TableContext, split: ChangeSplit) -> Iterator[pa.RecordBatch]:
    """The rows of a part, piece by piece."""
    view = with_schema_id(context, split.schema_id)
    for piece in split.pieces:
        snapshot = as_planned(view, changed(view, piece.snapshot.id), piece.snapshot)
        with reading(view, snapshot):
            yield from _rows(view, snapshot, piece)


def _rows(
    context: TableContext, snapshot: Snapshot, piece: ChangePiece
) -> Iterator[pa.RecordBatch]:
    if piece.rows is not None:
        return whole_snapshot(context, snapshot, [piece.rows])
    if piece.place is None:
        return changes(context, snapshot)
    files = change_files(context, snapshot).of_places([piece.place])
    return changes_of(context, snapshot, files)


def _piece(snapshot: Snapshot, place: BucketId | None, files: list[DataFile]) -> ChangePiece:
    spread_by = frozenset((_layout_told(snapshot), file.num_buckets) for file in files)
    return ChangePiece(
        _pinned(snapshot), place, rows_of(files), bytes_of(files), spread_by=spread_by
    )


def _layout_told(snapshot: Snapshot) -> int:
    """Which layout the changes of a snapshot go by; one that brings a new layout tells them by the one before."""
    return -snapshot.id if snapshot.layout_since == snapshot.id else snapshot.layout_since


def _pinned(snapshot: Snapshot) -> PinnedSnapshot:
    return PinnedSnapshot(snapshot.id, snapshot.commit_uuid, snapshot.schema_id)


def _by_key(context: TableContext, pieces: list[ChangePiece]) -> list[list[ChangePiece]]:
    """The pieces in groups, each with all changes of its keys."""
    placed = [(piece.place, piece) for piece in pieces if piece.place is not None]
    if len(placed) < len(pieces):
        return [pieces]
    joined = _joined_partitions(context, placed)
    groups: defaultdict[BucketId, list[ChangePiece]] = defaultdict(list)
    for place, piece in placed:
        groups[BucketId(place.partition, 0) if place.partition in joined else place].append(piece)
    return list(groups.values())


def _joined_partitions(
    context: TableContext, placed: Iterable[tuple[BucketId, ChangePiece]]
) -> set[Partition]:
    """The partitions where a key may be told in two buckets."""
    found: defaultdict[Partition, set[tuple[int, int]]] = defaultdict(set)
    for place, piece in placed:
        found[place.partition] |= piece.spread_by
    # Input is told where its writer put it, and another writer may have been faster in giving the key a bucket.
    options = context.options
    may_differ = options.has_dynamic_buckets and options.changelog_producer == "input"
    return {partition for partition, spread in found.items() if may_differ or len(spread) > 1}
