"""From what a filter says of columns to blocks that need not be read, by the statistics of the blocks.

A filter may be applied below the merge only where no merge can undo it:
1. Whatever a merge makes of a key, it makes of the rows in one window. If one column excludes every block of a window,
   no row of it has a value that the filter wants.
2. That holds for columns whose visible value is one that was stored, or null, which no comparison lets through: key
   columns, and those that the engine picks. A sum has other values than its parts.
3. One column must exclude all blocks: where columns are combined separately, a row may take one from each block.
4. A default in place of null is a value that no statistics know.
5. Null is excluded where no row has one, as long as merging makes none: some engines do, of a retract or of a row that
   its sequence leaves out. Rows that need no merge are what they were stored as.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from lsmerge.bounds import Intervals, intervals_of
from lsmerge.engine.context import TableContext
from lsmerge.engine.defaults import default_values
from lsmerge.engine.sections import Block
from lsmerge.predicate import Predicate
from lsmerge.storage.run_file import RunReader


@dataclass(frozen=True, slots=True)
class ValueFilter:
    """What a filter says of the columns that may be decided below the merge, by the columns' ids.

    `makes_nulls` is whether merging values may give null.
    """

    bounds: dict[int, Intervals]
    makes_nulls: bool = True

    @classmethod
    def of(cls, context: TableContext, predicate: Predicate | None) -> Self:
        """Keeps the columns that the filter limits and that no merge and no default changes."""
        if predicate is None:
            return cls({})
        names = [name for name in predicate.columns() if _shows_stored(context, name)]
        limits = {context.schema.column(n).id: intervals_of(predicate.condition, n) for n in names}
        bounds = {column: b for column, b in limits.items() if not b.is_everything}
        return cls(bounds, makes_nulls=not context.engine.keeps_not_null)

    def of_unmerged(self) -> Self:
        """The same for rows that are shown as they are stored."""
        return replace(self, makes_nulls=False)

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
        stats, bounds = reader.column_stats(block.number, column), self.bounds[column]
        if stats is None:
            return False
        has_values, has_nulls = stats.null_count < block.num_rows, stats.null_count > 0
        may_be_null = bounds.nulls and (has_nulls or self.makes_nulls)
        may_be_value = has_values and bounds.meets(stats.min, stats.max)
        return not may_be_null and not may_be_value


NO_FILTER = ValueFilter({})


def _shows_stored(context: TableContext, name: str) -> bool:
    if name in context.schema.primary_key:
        return True
    return name not in default_values(context.schema) and context.engine.shows_stored(name)
