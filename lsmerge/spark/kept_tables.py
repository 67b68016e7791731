"""Tables that a Python process of Spark keeps open from one task to the next.

Such a process serves one task after the other, mostly of the same read. The manifests of the snapshot and the indexes
of its files took each task as long as reading tens of thousands of rows, and in the cloud a connection besides. What is
kept is of one snapshot, of which nothing changes; whether it is still there, every task asks anew.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lsmerge import Table
from lsmerge.spark.heap import is_of_spark
from lsmerge.spark.read_options import ReadOptions

# As many as a join has, for files that are open are not freed by who deletes them.
MOST_TABLES = 4

Place = tuple[str, frozenset[tuple[str, str]]]


class KeptTables:
    """Open tables by where they are, each for the snapshot that was read last. For one thread, as tasks have it."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Place, tuple[Any, Table]] = OrderedDict()

    def table(self, options: ReadOptions, snapshot: Any) -> Table:
        """The table, opened since the snapshot was planned: what it knows of another one might be of another table."""
        place = (options.uri, frozenset(options.storage_options.items()))
        kept_for, table = self._kept.pop(place, (None, None))
        if table is None or kept_for != snapshot:
            if table is not None:
                table.close()
            table = options.open()
        self._kept[place] = (snapshot, table)
        while len(self._kept) > MOST_TABLES:
            _, (_, oldest) = self._kept.popitem(last=False)
            oldest.close()
        return table


_of_this_process = KeptTables()


@contextmanager
def opened(options: ReadOptions, split: Any) -> Iterator[Table]:
    """The table that a part is to be read from. Outside of Spark's processes nothing is kept."""
    snapshot = getattr(split, "snapshot", None)  # parts of a changelog are of several
    if is_of_spark() and snapshot is not None:
        yield _of_this_process.table(options, snapshot)
        return
    with options.open() as table:
        yield table
