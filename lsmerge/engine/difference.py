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
from lsmerge.engine.parallel import ordered_map
from lsmerge.engine.sections import split_into_sections
from lsmerge.merge.changelog import State, changes, unchanged_keys
from lsmerge.merge.groups import Source, adds_only, merge_groups
from lsmerge.merge.written import is_targeted
from lsmerge.meta.data_file import DataFile
from lsmerge.meta.version import SortedRun, sorted_runs
from lsmerge_native.keys import Keys
from lsmerge_native.reduce import pick_first


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
    in_flight = windows_in_flight(context.options)
    for section in split_into_sections([*states.before, *states.after]):
        # Runs of two states must not become one, so only those of one state can be merged in passes.
        place = (context, section) if states.before else narrowed(context, section)
        windows = windows_of(*place, names, share=share, decode=decode)
        yield from (rows for rows in ordered_map(work, windows, in_flight) if rows.num_rows)


def changes_by(
    context: TableContext, files: Sequence[DataFile], rows: Source, compared: Sequence[str] | None
) -> pa.RecordBatch:
    """What `rows`, newer than all in `files`, change in a bucket of these; `compared` as above.

    Requires: they make one window, as `fits_window` says.
    """
    states = BucketStates(files, [], [], adds_newer=True)
    return _WindowDiff(context, states, compared).between([], [rows])


class _WindowDiff:
    """The changes inside one window."""

    def __init__(
        self, context: TableContext, states: BucketStates, compared: Sequence[str] | None
    ) -> None:
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
        common = matching_sources(self._context, self._common, self._distinct_keys([*old, *new]))
        before, after = self._state([*common, *old]), self._state(self._deciding(common, new))
        compared = self._compared
        unchanged = None if compared is None else self._unchanged(before, after, compared)
        return changes(before, after, self._context.schema.file_schema, unchanged)

    def _distinct_keys(self, sources: Sequence[Source]) -> Keys:
        if len(sources) == 1 and self._has_one_row_per_key(sources[0]):
            return sources[0].keys
        groups = merge_groups(sources)
        first = groups.take(pick_first(groups.plan), self._context.schema.trimmed_key)
        return self._context.keys(first)

    def _state(self, sources: Sequence[Source]) -> State:
        rows = self._visible(sources)
        return State(rows, self._context.keys(rows))

    def _visible(self, sources: Sequence[Source]) -> pa.RecordBatch:
        context, names = self._context, self._context.schema.column_names
        if not sources:
            return pa.RecordBatch.from_pylist([], schema=context.schema.row_schema)
        if len(sources) == 1 and self._has_one_row_per_key(sources[0]):
            return adds_only(sources[0].batch).select(list(names))
        return context.engine.resolve(merge_groups(sources), names)

    def _deciding(self, common: Sequence[Source], new: Sequence[Source]) -> Sequence[Source]:
        """The sources that say what is visible once `new` is there."""
        is_whole = not any(is_targeted(source.batch) for source in new)
        return new if self._newest_wins and is_whole else [*common, *new]

    def _has_one_row_per_key(self, source: Source) -> bool:
        return self._context.engine.one_row_per_key and not is_targeted(source.batch)

    def _unchanged(self, before: State, after: State, compared: Sequence[str]) -> pa.Buffer:
        return unchanged_keys(self._seen(before), self._seen(after), compared)

    def _seen(self, state: State) -> State:
        """Rows are compared as readers see them."""
        return State(with_defaults(state.rows, self._defaults), state.keys)
