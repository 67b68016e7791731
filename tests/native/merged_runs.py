"""Runs of random rows, their merge plan, and the groups that plan must have."""

import itertools
import random
from dataclasses import dataclass, field

import pyarrow as pa

from lsmerge_native.keys import encode_keys
from lsmerge_native.plan import MergePlan, merge_runs


@dataclass
class MergedRuns:
    """`groups` are lists of (source, row), oldest first; `lengths` are the rows of each source."""

    plan: MergePlan
    groups: list[list[tuple[int, int]]]
    lengths: list[int]
    sequences: list[tuple[pa.Array, int]] = field(repr=False)

    def entries(self):
        return [entry for group in self.groups for entry in group]

    def sequence(self, source, row):
        array, base = self.sequences[source]
        return base + array[row].as_py()


def merged_runs(rng: random.Random, runs: list[list[int]]) -> MergedRuns:
    """`runs` are the keys of each source, in any order."""
    runs = [sorted(keys) for keys in runs]
    numbers = list(range(sum(map(len, runs))))
    rng.shuffle(numbers)
    sequences, entries = [], []
    for source, keys in enumerate(runs):
        base = rng.randrange(1000)
        own = _sequences_within_keys(keys, [numbers.pop() for _ in keys])
        sequences.append((pa.array([number - base for number in own], pa.int64()), base))
        entries += [(key, own[row], source, row) for row, key in enumerate(keys)]
    entries.sort()
    groups = [
        [(source, row) for _, _, source, row in group]
        for _, group in itertools.groupby(entries, key=lambda entry: entry[0])
    ]
    keys = [encode_keys([pa.array(run, pa.int64())]) for run in runs]
    plan = merge_runs(keys, None, sequences)
    return MergedRuns(plan, groups, [len(run) for run in runs], sequences)


def _sequences_within_keys(keys, numbers):
    """Deal the numbers out so that they ascend among equal keys."""
    dealt = iter(numbers)
    groups = [[next(dealt) for _ in group] for _, group in itertools.groupby(keys)]
    return [number for group in groups for number in sorted(group)]


def random_runs(rng: random.Random) -> MergedRuns:
    """Few or many sources and keys; some sources are empty."""
    num_keys = rng.choice([1, 5, 60])
    sizes = [rng.choice([0, 1, 7, 40]) for _ in range(rng.choice([1, 2, 6]))]
    return merged_runs(rng, [[rng.randrange(num_keys) for _ in range(n)] for n in sizes])


def blocky_runs(rng: random.Random) -> MergedRuns:
    """Distinct keys, of which each source has long stretches."""
    keys = iter(range(10_000))
    runs = [[], [], []]
    for _ in range(12):
        runs[rng.randrange(3)] += itertools.islice(keys, rng.randrange(1, 60))
    return merged_runs(rng, runs)


def sliced_array(rng: random.Random, values: list[object], type_: pa.DataType) -> pa.Array:
    """The values as an array that begins and ends inside its buffers."""
    before, after = rng.randrange(12), rng.randrange(3)
    filler = [values[0] if values else None]
    return pa.array(filler * before + values + filler * after, type_)[before : before + len(values)]
