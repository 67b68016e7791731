"""From two states of some keys to the changes between them.

    before  after
    -       row     +I row
    row     -       -D row
    row     row'    -U row, +U row'       nothing if they are equal and equal rows are to be left out

Changes come in key order, and -U directly before its +U.
"""

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from lsmerge.merge.equality import equal_pairs
from lsmerge.merge.flags import as_flags
from lsmerge.merge.groups import take_rows
from lsmerge_native.diff import common_rows, diff_rows
from lsmerge_native.keys import Keys


class State(NamedTuple):
    """The visible rows of some keys, in key order, and their keys."""

    rows: pa.RecordBatch
    keys: Keys


def changes(
    before: State, after: State, file_schema: pa.Schema, unchanged: pa.Buffer | None = None
) -> pa.RecordBatch:
    """What turns one state into the other, as rows of a changelog file.

    `unchanged` flags the keys of both states that are to be left out, as `unchanged_keys` gives them.
    """
    selection, codes = diff_rows(before.keys, after.keys, unchanged)
    count = len(selection)
    # The order of the rows is their order in the file, which needs no number.
    sequence = pa.repeat(pa.scalar(0, pa.int64()), count)
    kinds = pa.Array.from_buffers(pa.int8(), count, [None, pa.py_buffer(codes)])
    values = [
        take_rows([before.rows.column(name), after.rows.column(name)], selection)
        for name in file_schema.names[2:]
    ]
    return pa.RecordBatch.from_arrays([sequence, kinds, *values], schema=file_schema)


def unchanged_keys(before: State, after: State, compared: Sequence[str]) -> pa.Buffer:
    """For each key in both states, in key order, a byte that says whether the columns are equal."""
    import pyarrow.compute as pc

    old, new = (pa.py_buffer(rows) for rows in common_rows(before.keys, after.keys))
    equal = pa.repeat(pa.scalar(True), old.size // 4)
    for name in compared:
        pairs = equal_pairs(before.rows.column(name), after.rows.column(name), old, new)
        equal = pc.and_(equal, pairs)
    return as_flags(equal)
