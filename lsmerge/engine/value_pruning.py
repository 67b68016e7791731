"""From what a filter says of columns to blocks that need not be read, by the statistics of the blocks.

A filter may be applied below the merge only where no merge can undo it:
1. Whatever a merge makes of a key, it makes of the rows in one window. If one column excludes every block of a window,
   no row of it has a value that the filter wants.
2. That holds for columns whose visible value is one that was stored, or null, which no comparison lets through: key
   columns, and those that the engine picks. A sum has other values than its parts.
3. One column must exclude all blocks: where columns are combined separately, a row may take one from each block.
4. A default in place of null is a value that no statistics know.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from lsmerge.bounds import Intervals, intervals_of
from lsmerge.engine.context import TableContext
from lsmerge.engine.defaults import default_values
from lsmerge.engine.sections import Block
from lsmerge.predicate import Predicate
from lsmerge.storage.run_file import RunReader


@dataclass(frozen=True, slots=True)
class ValueFilter:
    """What a filter says of the columns that may be decided below the merge, by the columns' ids."""

    bounds: dict[int, Intervals]

    @classmethod
    def of(cls, context: TableContext, predicate: Predicate | None) -> Self:
        """Keeps the columns that the filter limits and that no merge and no default changes."""
        if predicate is None:
            return cls({})
        names = [name for name in predicate.columns() if _shows_stored(context, name)]
        limits = {context.schema.column(n).id: intervals_of(predicate.condition, n) for n in names}
        return cls({column: b for column, b in limits.items() if not b.is_everything})

    def excludes(self, context: TableContext, blocks: Iterable[Block]) -> bool:
        """Whether no row merged from these blocks, which hold all rows of their keys, can pass the filter."""
        remaining = set(self.bounds)
        for block in blocks:
            if not remaining:
                return False
            reader = context.reader(block.file)
            remaining = {column for column in remaining if self._excludes(reader, block, column)}
        return bool(remaining)

    def _excludes(self, reader: RunReader, block: Block, column: int) -> bool:
        stats = reader.column_stats(block.number, column)
        if stats is None:
            return False
        is_null = stats.null_count == block.num_rows
        return is_null or not self.bounds[column].meets(stats.min, stats.max)


NO_FILTER = ValueFilter({})


def _shows_stored(context: TableContext, name: str) -> bool:
    if name in context.schema.primary_key:
        return True
    return name not in default_values(context.schema) and context.engine.shows_stored(name)
