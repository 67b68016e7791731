"""A scan cut into pieces that other processes read: about equal bytes each, together exactly the rows of the scan.

A split is a small value without open files: it names the snapshot, the schema and the buckets to read, so it may be
pickled and sent anywhere the table can be opened. Several small buckets share a split; a large bucket is cut between
keys, at ends of blocks, so that all rows of a key are merged by one reader.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from lsmerge.engine.context import TableContext
from lsmerge.engine.merging import blocks_of
from lsmerge.engine.sections import (
    ALL_KEYS,
    KeyRange,
    KeySpan,
    Section,
    cut_into_windows,
    split_into_sections,
)
from lsmerge.engine.time_travel import by_name
from lsmerge.errors import InvalidOptionError, SnapshotNotFoundError
from lsmerge.meta.data_file import BucketId, DataFile
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.version import SortedRun
from lsmerge.option_types import memory_size
from lsmerge.predicate import Predicate

DEFAULT_TARGET_SIZE = "32 mb"
# A small table is cut further, for all who read at once, but not into parts that start for nothing: in Spark a part
# costs as much as reading a megabyte before it has read any.
SMALL_TARGET_BYTES = 4 << 20
# From here on another cut costs little beside what it divides, whoever is there to take the parts.
CHEAP_CUT_BYTES = 8 << 20
# As many as a small cluster has; each gets several parts, so that who is done early takes another.
FEW_READERS = 4
PARTS_A_READER = 2

_SIZE = memory_size(1)

Item = TypeVar("Item")


class Piece(NamedTuple):
    """Some keys of one bucket."""

    place: BucketId
    span: KeySpan


class Weighed(NamedTuple):
    """A piece, and the rows and bytes of the files that it is read from."""

    piece: Piece
    num_rows: int
    size_bytes: int


class PartSizes(NamedTuple):
    """Bytes of a part: what small buckets are put together to, and what a large one is cut into."""

    packed: int
    cut: int


class PinnedSnapshot(NamedTuple):
    """A snapshot that other processes find again, and recognise should another table be there by then."""

    id: int
    commit_uuid: str
    schema_id: int


@dataclass(frozen=True, slots=True)
class ScanSplit:
    """A part of a scan. `num_rows` counts stored rows: merging and filtering may leave fewer."""

    snapshot: PinnedSnapshot
    columns: tuple[str, ...]
    pieces: tuple[Piece, ...]
    num_rows: int
    size_bytes: int
    predicate: Predicate | None = None
    expression: Any = None


def target_bytes(target_size: Any) -> int:
    """A size as users give it: a number of bytes, or text such as `32 mb`."""
    text = target_size if isinstance(target_size, str) else repr(target_size)
    try:
        size = _SIZE.parse(text)
    except ValueError as error:
        raise InvalidOptionError(f"target_size = {target_size!r}: {error}") from error
    assert isinstance(size, int)
    return size


def default_sizes(total_bytes: int, readers: int | None = None) -> PartSizes:
    """The sizes of parts of a table of so many bytes, if nobody asks for others.

    A bucket is not cut into parts that are small only because each reader could have two; where it is known how
    many `readers` there are, it is cut so far that none of them goes without.
    """
    several = -(-total_bytes // (PARTS_A_READER * (readers or FEW_READERS)))
    size = min(target_bytes(DEFAULT_TARGET_SIZE), max(SMALL_TARGET_BYTES, several))
    one_each = CHEAP_CUT_BYTES if readers is None else -(-total_bytes // readers)
    return PartSizes(size, max(size, min(CHEAP_CUT_BYTES, one_each)))


def weighed_pieces(
    context: TableContext,
    buckets: Iterable[tuple[BucketId, Sequence[SortedRun]]],
    wanted: KeyRange,
    target: int,
) -> Iterator[Weighed]:
    """The buckets that hold wanted keys, in order; those larger than `target` in several pieces."""
    for place, runs in buckets:
        sections = split_into_sections(runs, wanted)
        files = [file for section in sections for file in section.files]
        size = bytes_of(files)
        count = round(size / target)
        spans = _spans(context, sections, wanted, count) if count > 1 else [ALL_KEYS]
        for span in spans if files else ():
            yield Weighed(Piece(place, span), rows_of(files) // len(spans), size // len(spans))


def packed(items: Iterable[Item], sizes: Iterable[int], target: int) -> Iterator[list[Item]]:
    """Neighbours together as long as they stay within `target` bytes; what is larger stays alone."""
    members: list[Item] = []
    taken = 0
    for item, size in zip(items, sizes, strict=True):
        if members and taken + size > target:
            yield members
            members, taken = [], 0
        members.append(item)
        taken += size
    if members:
        yield members


def found_again(context: TableContext, pinned: PinnedSnapshot) -> Snapshot:
    """The snapshot that a plan was made for."""
    return as_planned(context, by_name(context, pinned.id, None), pinned)


def as_planned(context: TableContext, snapshot: Snapshot, pinned: PinnedSnapshot) -> Snapshot:
    """The snapshot itself, if it is the one that was pinned."""
    if snapshot.commit_uuid != pinned.commit_uuid:
        raise SnapshotNotFoundError(
            f"snapshot {pinned.id} of {context.store.uri} is not the one that was planned: the table was replaced "
            "meanwhile; plan the read again, or start a new reader"
        )
    return snapshot


def rows_of(files: Iterable[DataFile]) -> int:
    """Rows stored in some files."""
    return sum(file.run.num_rows for file in files)


def bytes_of(files: Iterable[DataFile]) -> int:
    """Bytes of some files."""
    return sum(file.run.size_bytes for file in files)


def _spans(
    context: TableContext, sections: Sequence[Section], wanted: KeyRange, count: int
) -> list[KeySpan]:
    """About `count` spans with about as many rows each."""
    blocks = [block for section in sections for block in blocks_of(context, section, wanted)]
    rows = sum(block.num_rows for block in blocks)
    windows = cut_into_windows(blocks, max(1, -(-rows // count)))
    return [window.span for window in windows] or [ALL_KEYS]
