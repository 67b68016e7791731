"""What differs between two states of a bucket, window by window.

A state is a set of files. Only keys with rows in a file that the other state lacks can differ, so these files are
read, and of the files in both states only the rows of these keys. One implementation serves the lookup producer (what a
commit adds), the full-compaction producer (what came since the last one) and the difference of any two snapshots.
Memory is that of the windows in flight, and of a block for each run in one state only: it does not grow with the table.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.engine.defaults import default_values, with_defaults
from lsmerge.engine.matching import matching_sources
from lsmerge.engine.merging import (
    DecodeBlock,
    ReadWindow,
    decode_block,
    joined,
    narrowed,
    windows_in_flight,
    windows_of,
)
from lsmerge.engine.newest import find_newest
from lsmerge.engine.parallel import ordered_map, shared_map
from lsmerge.engine.sections import split_into_sections
from lsmerge.merge.changelog import ForEach, State, changes, unchanged_keys
from lsmerge.merge.groups import Source, adds_only, merge_groups
from lsmerge.merge.written import is_targeted
from lsmerge.meta.data_file import DataFile
from lsmerge.meta.version import SortedRun, sorted_runs
from lsmerge_native.keys import Keys
from lsmerge_native.reduce import pick_first

# So many are worth the threads that copy their columns side by side.
MANY_ROWS = 4096


@dataclass(frozen=True, slots=True)
class BucketStates:
    """Two states of a bucket: the files in both, and the runs in only one.

    `adds_newer` if all rows of `after` arrived after those of `common`.
    """

    common: Sequence[DataFile]
    before: Sequence[SortedRun]
    after: Sequence[SortedRun]
    adds_newer: bool = False


def changed_rows(
    context: TableContext,
    states: BucketStates,
    compared: Sequence[str] | None,
    decode: DecodeBlock = decode_block,
) -> Iterator[pa.RecordBatch]:
    """The changes of the keys that have rows in only one state, in key order, as rows of a changelog file.

    `compared` are the columns whose equality makes an update too little to tell; None tells all updates. `decode`
    reads the blocks of files in only one state.
    """
    work = _WindowDiff(context, states, compared)
    names = context.merge_columns(context.schema.column_names)
    # Each run may hold a row of every key of a window.
    share = 1 + len(sorted_runs(states.common))
    in_flight = windows_in_flight(context)
    for section in split_into_sections([*states.before, *states.after]):
        # Runs of two states must not become one, so only those of one state can be merged in passes.
        place = (context, section) if states.before else narrowed(context, section)
        windows = windows_of(*place, names, share=share, decode=decode)
        yield from (rows for rows in ordered_map(work, windows, in_flight) if rows.num_rows)


def changes_by(
    context: TableContext,
    files: Sequence[DataFile],
    rows: Source,
    compared: Sequence[str] | None,
    *,
    is_alone: bool,
) -> pa.RecordBatch:
    """What `rows`, newer than all in `files`, change in a bucket of these; `compared` as above.

    `is_alone` if no other bucket is compared meanwhile. Requires: they make one window, as `fits_window` says.
    """
    states = BucketStates(files, [], [], adds_newer=True)
    is_divided = is_alone and len(rows.keys) >= MANY_ROWS
    each = shared_map if is_divided else map
    return _WindowDiff(context, states, compared, each).between([], [rows])


class _WindowDiff:
    """The changes inside one window."""

    def __init__(
        self,
        context: TableContext,
        states: BucketStates,
        compared: Sequence[str] | None,
        each: ForEach = map,
    ) -> None:
        """`each` as in `changes`."""
        self._each = each
        self._context = context
        self._common = states.common
        self._compared = compared
        self._defaults = default_values(context.schema)
        self._newest_wins = states.adds_newer and context.engine.newest_row_wins
        self._only_before = {file.name for run in states.before for file in run.files}

    def __call__(self, read: ReadWindow) -> pa.RecordBatch:
        parts = read()
        is_before = [part.file.name in self._only_before for part in parts]
        # Both states and the keys of both are made of them: joined once, a run of one row a key needs no merging.
        runs = [joined(self._context, part.sources) for part in parts]
        old = [run for run, gone in zip(runs, is_before, strict=True) if gone]
        new = [run for run, gone in zip(runs, is_before, strict=True) if not gone]
        return self.between(old, new)

    def between(self, old: Sequence[Source], new: Sequence[Source]) -> pa.RecordBatch:
        """The changes from a state with the rows of `old` to one with those of `new`."""
        before, after = self._states(old, new)
        compared = self._compared
        unchanged = None if compared is None else self._unchanged(before, after, compared)
        return changes(before, after, self._context.schema.file_schema, unchanged, self._each)

    def _states(self, old: Sequence[Source], new: Sequence[Source]) -> tuple[State, State]:
        context, keys = self._context, self._distinct_keys([*old, *new])
        newest = None if old else self._newest(keys, new)
        if newest is not None:
            return newest, self._state(new)
        common = matching_sources(context, self._common, keys)
        deciding = new if self._decides(new) else [*common, *new]
        return self._state([*common, *old]), self._state(deciding)

    def _distinct_keys(self, sources: Sequence[Source]) -> Keys:
        if len(sources) == 1 and self._has_one_row_per_key(sources[0]):
            return sources[0].keys
        groups = merge_groups(sources)
        first = groups.take(pick_first(groups.plan), self._context.schema.trimmed_key)
        return self._context.keys(first)

    def _state(self, sources: Sequence[Source]) -> State:
        rows = self._visible(sources)
        return State.of(self._context.keys(rows), rows)

    def _visible(self, sources: Sequence[Source]) -> pa.RecordBatch:
        context, names = self._context, self._context.schema.column_names
        if not sources:
            return pa.RecordBatch.from_pylist([], schema=context.schema.row_schema)
        if len(sources) == 1 and self._has_one_row_per_key(sources[0]):
            return adds_only(sources[0].batch).select(list(names))
        return context.engine.resolve(merge_groups(sources), names)

    def _newest(self, keys: Keys, new: Sequence[Source]) -> State | None:
        """What was visible of the keys of `new`; None if that takes merging."""
        if not self._decides(new):
            return None
        newest = find_newest(self._context, self._common, keys)
        if newest is None:
            return None
        found = keys.take(newest.keys)
        if self._compared is None:
            return State(found, newest.arrays, newest.selection)
        # Rows that are looked at as well are copied first.
        return State.of(found, newest.take(self._context.schema.row_schema))

    def _decides(self, new: Sequence[Source]) -> bool:
        """Whether `new` alone says what is visible of its keys once it is there."""
        return self._newest_wins and not any(is_targeted(source.batch) for source in new)

    def _has_one_row_per_key(self, source: Source) -> bool:
        return self._context.engine.one_row_per_key and not is_targeted(source.batch)

    def _unchanged(self, before: State, after: State, compared: Sequence[str]) -> pa.Buffer:
        old, new = self._seen(before, compared), self._seen(after, compared)
        return unchanged_keys(old, new, (before.keys, after.keys), compared)

    def _seen(self, state: State, names: Sequence[str]) -> pa.RecordBatch:
        """Some columns as readers see them. Requires: the state is that of one batch."""
        columns = {name: state.arrays(name)[0] for name in names}
        return with_defaults(pa.RecordBatch.from_pydict(columns), self._defaults)
