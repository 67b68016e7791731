"""A scan as data frames of other libraries, which are imported only here and only when asked for."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from lsmerge.engine.polars_predicate import predicate_of
from lsmerge.packages import needed
from lsmerge.predicate import Predicate
from lsmerge.schema import TableSchema

# Reads some columns (all if None) of the rows that may pass a predicate, at most so many of them.
Read: TypeAlias = Callable[
    [Sequence[str] | None, Predicate | None, int | None], Iterator[pa.RecordBatch]
]


def pandas_frame(rows: pa.Table) -> Any:
    """The rows as a pandas DataFrame."""
    with needed("pandas", "Scan.to_pandas"):
        import pandas  # noqa: F401 - pyarrow would fail with an error of its own
    return rows.to_pandas()


def polars_frame(rows: pa.Table) -> Any:
    """The rows as a polars DataFrame."""
    with needed("polars", "Scan.to_polars"):
        import polars
    return polars.from_arrow(rows)


def polars_lazy_frame(schema: TableSchema, columns: pa.Schema, read: Read) -> Any:
    """A polars LazyFrame of the columns, which reads what a query needs of them each time it is collected."""
    with needed("polars", "Scan.to_polars_lazy"):
        import polars
        from polars.io.plugins import register_io_source

    def source(
        names: list[str] | None, predicate: Any, limit: int | None, _batch_size: int | None
    ) -> Iterator[Any]:
        useful = None if predicate is None else predicate_of(predicate, schema)
        # How many rows polars' own predicate leaves is not known before it was evaluated.
        batches = read(names or None, useful, limit if predicate is None else None)
        for batch in batches:
            frame = polars.from_arrow(batch)
            yield frame if predicate is None else frame.filter(predicate)

    return register_io_source(
        source, schema=polars.from_arrow(columns.empty_table()).schema, is_pure=True
    )
