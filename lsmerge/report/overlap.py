"""How many runs hold the same keys, from left to right: pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple, TypeAlias

# As many columns as can be told apart.
CELLS = 200

Span: TypeAlias = tuple[float, float]


class Stretch(NamedTuple):
    """From where to where so many runs have files."""

    start: float
    stop: float
    depth: int


class Overlap(NamedTuple):
    """All stretches in order, and the most runs that hold one key."""

    deepest: int
    stretches: list[Stretch]


def overlap(runs: Iterable[Sequence[Span]]) -> Overlap:
    """The overlap of runs, each given by the spans of its files; both ends belong to a file."""
    starts: Counter[float] = Counter()
    ends: Counter[float] = Counter()
    for run in runs:
        for low, high in _united(run):
            starts[low] += 1
            ends[high] += 1
    depth = deepest = 0
    stretches = []
    cuts = sorted({*starts, *ends})
    for here, there in pairwise([*cuts, *cuts[-1:]]):
        depth += starts[here]
        deepest = max(deepest, depth)
        depth -= ends[here]
        stretches.append(Stretch(here, there, depth))
    return Overlap(deepest, stretches)


def visible(found: Overlap) -> list[Stretch]:
    """The stretches as far as they can be seen: columns of the same depth together."""
    if len(found.stretches) == 1:
        return [Stretch(0.0, 1.0, found.deepest)]
    depths = groupby(enumerate(_sampled(found.stretches)), key=lambda column: column[1])
    groups = [(depth, [number for number, _ in columns]) for depth, columns in depths]
    return [Stretch(group[0] / CELLS, (group[-1] + 1) / CELLS, depth) for depth, group in groups]


def _sampled(stretches: Sequence[Stretch]) -> Iterator[int]:
    """The depth in the middle of each column."""
    position = 0
    for cell in range(CELLS):
        middle = (cell + 0.5) / CELLS
        while position + 1 < len(stretches) and stretches[position].stop <= middle:
            position += 1
        yield stretches[position].depth


def _united(run: Sequence[Span]) -> list[Span]:
    """The files of a run, those that touch in the picture together: they are one run all the same."""
    united: list[Span] = []
    for low, high in sorted(run):
        if united and low <= united[-1][1]:
            united[-1] = (united[-1][0], max(high, united[-1][1]))
        else:
            united.append((low, high))
    return united
