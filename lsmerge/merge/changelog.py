"""From two states of some keys to the changes between them.

    before  after
    -       row     +I row
    row     -       -D row
    row     row'    -U row, +U row'       nothing if they are equal and equal rows are to be left out

Changes come in key order, and -U directly before its +U.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from lsmerge.merge.equality import equal_pairs
from lsmerge.merge.flags import as_flags
from lsmerge.merge.groups import take_viewed
from lsmerge_native.diff import common_rows, diff_rows
from lsmerge_native.keys import Keys
from lsmerge_native.newest import followed
from lsmerge_native.reduce import Selection

# `map`, or the same on several threads.
ForEach: TypeAlias = Callable[
    [Callable[[pa.Field], pa.Array], Iterable[pa.Field]], Iterable[pa.Array]
]


class State(NamedTuple):
    """The visible rows of some keys, in key order: all rows of one source, or selected ones of several.

    `arrays` gives a column by its name, an array or a view of it for each source.
    """

    keys: Keys
    arrays: Callable[[str], Sequence[Any]]
    selection: Selection | None = None

    @classmethod
    def of(cls, keys: Keys, rows: pa.RecordBatch) -> "State":
        """All rows of a batch."""
        return cls(keys, lambda name: [rows.column(name)])


def changes(
    before: State,
    after: State,
    file_schema: pa.Schema,
    unchanged: pa.Buffer | None = None,
    each: ForEach = map,
) -> pa.RecordBatch:
    """What turns one state into the other, as rows of a changelog file.

    `unchanged` flags the keys of both states that are to be left out, as `unchanged_keys` gives them. `each` is what
    copies the columns, one by one or side by side.
    """
    of_states, codes = diff_rows(before.keys, after.keys, unchanged)
    selection = followed(of_states, [before.selection, after.selection])
    count = len(selection)
    # The order of the rows is their order in the file, which needs no number.
    sequence = pa.repeat(pa.scalar(0, pa.int64()), count)
    kinds = pa.Array.from_buffers(pa.int8(), count, [None, pa.py_buffer(codes)])

    def copied(field: pa.Field) -> pa.Array:
        arrays = [*before.arrays(field.name), *after.arrays(field.name)]
        return take_viewed(arrays, field.type, selection)

    values = each(copied, list(file_schema)[2:])
    return pa.RecordBatch.from_arrays([sequence, kinds, *values], schema=file_schema)


def unchanged_keys(
    before: pa.RecordBatch, after: pa.RecordBatch, keys: tuple[Keys, Keys], compared: Sequence[str]
) -> pa.Buffer:
    """For each key in both states, in key order, a byte that says whether the columns are equal."""
    import pyarrow.compute as pc

    old, new = (pa.py_buffer(rows) for rows in common_rows(*keys))
    equal = pa.repeat(pa.scalar(True), old.size // 4)
    for name in compared:
        pairs = equal_pairs(before.column(name), after.column(name), old, new)
        equal = pc.and_(equal, pairs)
    return as_flags(equal)
