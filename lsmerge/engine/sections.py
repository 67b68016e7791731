"""Where must rows be merged, and in which portions: pure functions from files and blocks to a plan.

A *section* is a set of runs whose files overlap in keys; different sections share no key. A *window* is a key range
of a section small enough to be merged in memory, with the blocks that may hold its rows. Windows of a section
follow each other in key order and share no key, so they can be merged independently and in parallel.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lsmerge.meta.data_file import DataFile
from lsmerge.meta.version import SortedRun


class KeyRange(NamedTuple):
    """Encoded keys from `low` (inclusive) to `high` (exclusive); None is unbounded.

    With `parts`, which ascend and lie apart, only the keys in these.
    """

    low: bytes | None = None
    high: bytes | None = None
    parts: tuple["KeyRange", ...] = ()

    def touches(self, first: bytes, last: bytes) -> bool:
        """Whether [first, last] and this range share a key."""
        is_near = (self.low is None or last >= self.low) and (
            self.high is None or first < self.high
        )
        return is_near and (not self.parts or self._touches_part(first, last))

    def _touches_part(self, first: bytes, last: bytes) -> bool:
        above = bisect_right(self.parts, (False, first), key=_end)
        return above < len(self.parts) and self.parts[above].touches(first, last)


def _end(part: KeyRange) -> tuple[bool, bytes]:
    return (part.high is None, part.high or b"")


EVERYTHING = KeyRange()
NOTHING = KeyRange(b"", b"")


class KeySpan(NamedTuple):
    """Encoded keys above `after` and up to `upto` inclusive; None is unbounded."""

    after: bytes | None = None
    upto: bytes | None = None

    def narrowed(self, wanted: KeyRange) -> KeyRange:
        """A range that holds every key in both; it may hold `after` too."""
        low = max((key for key in (self.after, wanted.low) if key is not None), default=None)
        # The next key after `upto` in the order of bytes.
        above = None if self.upto is None else self.upto + b"\x00"
        high = min((key for key in (above, wanted.high) if key is not None), default=None)
        return KeyRange(low, high, wanted.parts)

    def meets(self, first: bytes, last: bytes) -> bool:
        """Whether [first, last] and this span share a key."""
        return (self.after is None or last > self.after) and (
            self.upto is None or first <= self.upto
        )


ALL_KEYS = KeySpan()


@dataclass(frozen=True, slots=True)
class Section:
    """Runs that overlap, newest first, and the keys wanted of them. One run means that its rows need no merging."""

    runs: tuple[SortedRun, ...]
    span: KeySpan = ALL_KEYS

    @property
    def files(self) -> list[DataFile]:
        return [file for run in self.runs for file in run.files]


class Block(NamedTuple):
    """A block of a file of one run, as its index describes it."""

    run: int
    file: DataFile
    number: int
    first_key: bytes
    last_key: bytes
    num_rows: int
    decoded_bytes: int


@dataclass(frozen=True, slots=True)
class Window:
    """Some keys, and the blocks that may hold them."""

    blocks: tuple[Block, ...]
    span: KeySpan


def split_into_sections(
    runs: Sequence[SortedRun], wanted: KeyRange = EVERYTHING, span: KeySpan = ALL_KEYS
) -> list[Section]:
    """Partition the files that touch `wanted` into sections, in key order, each limited to the keys of `span`."""
    wanted = span.narrowed(wanted)
    placed = [
        (file.run.min_key, file.run.max_key, number, file)
        for number, run in enumerate(runs)
        for file in run.files
        if wanted.touches(file.run.min_key, file.run.max_key)
    ]
    placed.sort(key=lambda item: item[0])
    sections: list[Section] = []
    members: list[tuple[int, DataFile]] = []
    reach = b""
    for first, last, number, file in placed:
        if members and first > reach:
            sections.append(_section(runs, members, span))
            members = []
        reach = max(reach, last) if members else last
        members.append((number, file))
    if members:
        sections.append(_section(runs, members, span))
    return sections


def cut_into_windows(
    blocks: Iterable[Block], target_rows: int, span: KeySpan = ALL_KEYS
) -> list[Window]:
    """Cut the keys of `span` in the blocks of a section into windows of about `target_rows` rows.

    A cut is always the last key of some block, so that at least that block is not shared by two windows. All
    rows of a key fall into one window, however many blocks they span.
    """
    met = (block for block in blocks if span.meets(block.first_key, block.last_key))
    by_first = sorted(met, key=lambda block: block.first_key)
    windows: list[Window] = []
    active: list[Block] = []
    position = 0
    after = span.after
    for cut in _cuts(by_first, target_rows, span.upto):
        while position < len(by_first) and (cut is None or by_first[position].first_key <= cut):
            active.append(by_first[position])
            position += 1
        windows.append(Window(tuple(active), KeySpan(after, cut)))
        active = [block for block in active if cut is not None and block.last_key > cut]
        after = cut
    return windows


def _cuts(blocks: Sequence[Block], target_rows: int, upto: bytes | None) -> list[bytes | None]:
    """Ascending upper bounds of the windows, the last one `upto`."""
    if not blocks:
        return []
    by_last = sorted(blocks, key=lambda block: block.last_key)
    greatest = by_last[-1].last_key if upto is None else min(upto, by_last[-1].last_key)
    cuts: list[bytes | None] = []
    rows = 0
    for block in by_last:
        rows += block.num_rows
        if rows >= target_rows and block.last_key < greatest:
            if not cuts or cuts[-1] != block.last_key:
                cuts.append(block.last_key)
            rows = 0
    return [*cuts, upto]


def _section(
    runs: Sequence[SortedRun], members: Sequence[tuple[int, DataFile]], span: KeySpan
) -> Section:
    numbers = sorted({number for number, _ in members})
    return Section(
        tuple(
            SortedRun(runs[number].level, tuple(file for n, file in members if n == number))
            for number in numbers
        ),
        span,
    )
