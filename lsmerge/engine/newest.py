"""The newest row of each of some keys: where it is, for engines in which it alone decides.

Rows are found as in matching.py, but neither copied nor merged: runs are looked through from the newest on, and the
first row of a key is the one. Who wants the rows copies each of them once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.engine.matching import (
    MAX_BLOCKS,
    Wanted,
    column_view,
    decoded,
    room_for_held,
    wanted_blocks,
)
from lsmerge.merge.groups import take_viewed
from lsmerge.meta.data_file import DataFile
from lsmerge.meta.version import is_by_age, sorted_runs
from lsmerge.rowkind import KIND_COLUMN
from lsmerge_native.keys import Keys
from lsmerge_native.newest import newest_rows
from lsmerge_native.point_rows import PointBlock
from lsmerge_native.reduce import Selection


@dataclass(frozen=True, slots=True)
class NewestRows:
    """The visible rows of some keys, in key order: `selection` of those in `blocks`, and which of the keys they have.

    `keys` are their numbers (uint32).
    """

    blocks: list[PointBlock]
    selection: Selection
    keys: pa.Buffer

    def arrays(self, name: str) -> list[Any]:
        """A column of each block, for `take_viewed`."""
        if not self.blocks:
            return []
        # All were decoded with the same columns.
        position = self.blocks[0].source.batch.schema.get_field_index(name)
        return [column_view(block, position) for block in self.blocks]

    def take(self, schema: pa.Schema) -> pa.RecordBatch:
        """The columns of a schema."""
        if not self.blocks:
            return pa.RecordBatch.from_pylist([], schema=schema)
        arrays = [take_viewed(self.arrays(f.name), f.type, self.selection) for f in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def find_newest(
    context: TableContext, files: Sequence[DataFile], probes: Keys
) -> NewestRows | None:
    """The visible rows of the probes; None if that takes merging, or more memory than may be held at once.

    Requires: `probes` sorted and distinct.
    """
    runs = sorted_runs(files)
    engine = context.engine
    if not (engine.newest_row_wins and engine.one_row_per_key and runs and is_by_age(runs)):
        return None
    ordered = [file for run in runs for file in run.files]
    wanted = list(wanted_blocks(context, ordered, probes))
    if len(wanted) >= MAX_BLOCKS or any(one.reader.is_targeted for one in wanted):
        return None
    held = [(one, context.runs.find(one.block)) for one in wanted]
    lacking = sum(one.reader.block_bytes[one.block.number] for one, known in held if known is None)
    if lacking > room_for_held(context):
        return None
    blocks = [block for _, block in decoded(context, held)]
    selection, keys = newest_rows(
        [block.source.keys for block in blocks],
        [_kinds(*pair) for pair in zip(wanted, blocks, strict=True)],
        [one.probes for one in wanted],
        [(one.start, one.rows) for one in wanted],
        len(probes),
    )
    return NewestRows(blocks, selection, pa.py_buffer(keys))


def _kinds(one: Wanted, block: PointBlock) -> Any:
    return block.source.batch.column(KIND_COLUMN) if one.file.run.num_retracts else None
