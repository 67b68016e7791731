"""Which files of a compaction need no rewriting: a pure function from sections to a division.

A file that overlaps no other input can go to the output level as it is: only its manifest entry changes, and its
sequence base with it stays. Small files are joined with their neighbours instead, so that a level does not end up as
a heap of crumbs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lsmerge.engine.sections import Section
from lsmerge.meta.data_file import DataFile

# Below this share of the target size a file is small.
SMALL_SHARE = 0.7


@dataclass(frozen=True, slots=True)
class MoveRules:
    """What decides about a single file.

    `can_stay_whole` is whether the output level may hold the file's bytes as they are: they are in its format, and
    have no rows that the compaction would forget.
    """

    output_level: int
    target_file_size: int
    can_stay_whole: Callable[[DataFile], bool]

    def is_small(self, file: DataFile) -> bool:
        return file.run.size_bytes < SMALL_SHARE * self.target_file_size


@dataclass(frozen=True, slots=True)
class Division:
    """Files to move, and neighbouring sections to rewrite together; files already in place are in neither.

    Ensures: files written for one group lie between the keys of its neighbours, so that moved and written files
    of the output level are disjoint.
    """

    moves: tuple[DataFile, ...]
    rewrites: tuple[tuple[Section, ...], ...]


def divide(sections: Sequence[Section], rules: MoveRules) -> Division:
    """Divide the sections of a compaction, given in key order."""
    whole: list[DataFile] = []
    groups: list[tuple[Section, ...]] = []
    group: list[Section] = []
    for section in sections:
        file = _whole_file(section, rules)
        if file is None or rules.is_small(file):
            group.append(section)
            continue
        _close(group, whole, groups, rules)
        whole.append(file)
        group = []
    _close(group, whole, groups, rules)
    moves = tuple(file for file in whole if file.level != rules.output_level)
    return Division(moves, tuple(groups))


def _close(
    group: list[Section],
    whole: list[DataFile],
    groups: list[tuple[Section, ...]],
    rules: MoveRules,
) -> None:
    """A small file without a neighbour to join is no better for being rewritten."""
    lonely = _whole_file(group[0], rules) if len(group) == 1 else None
    if lonely is not None:
        whole.append(lonely)
    elif group:
        groups.append(tuple(group))


def _whole_file(section: Section, rules: MoveRules) -> DataFile | None:
    """The one file of a section that may stay as it is."""
    files = section.files
    return files[0] if len(files) == 1 and rules.can_stay_whole(files[0]) else None
