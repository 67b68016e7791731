"""Where stored rows are the visible rows, so that any reader of Parquet may read them: after a full compaction.

Nothing may be left to do: no merge, no delete marker, no default, no column that was altered since. Whoever reads the
files by themselves also leaves out lsmerge's checksums, and must be done before the snapshot expires.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.engine.defaults import default_values
from lsmerge.engine.merging import needs_no_merge
from lsmerge.engine.sections import split_into_sections
from lsmerge.meta.data_file import DataFile
from lsmerge.meta.version import Version


def plain_files(context: TableContext, version: Version) -> list[DataFile] | str:
    """All files of a version, or why their rows are not the rows of the table."""
    if default_values(context.schema):
        return "columns have defaults, which files do not hold"
    files = [file for place in version.places() for file in version.files(place)]
    return next(_obstacles(context, version, files), files)


def _obstacles(context: TableContext, version: Version, files: Sequence[DataFile]) -> Iterator[str]:
    for file in files:
        if file.run.format != "parquet":
            yield f"{file.name} is not a Parquet file: rows were written after the last full compaction"
        if file.schema_id != context.schema.id:
            yield f"{file.name} was written before the table was altered"
        if file.run.num_retracts:
            yield f"{file.name} holds deletes"
    for place in version.places():
        for section in split_into_sections(version.runs(place)):
            if not needs_no_merge(context, section):
                yield f"bucket {place.bucket} of {list(place.partition)} has rows that must be merged"


def has_foreign_types(schema: pa.Schema) -> bool:
    """Whether a column has a type that other readers of Parquet take for another one, or not at all."""
    return any(_is_foreign(field.type) for field in schema)


def _is_foreign(type_: pa.DataType) -> bool:
    if pa.types.is_time(type_):
        return True
    if pa.types.is_timestamp(type_):
        return bool(type_.unit in ("s", "ns"))
    return any(_is_foreign(type_.field(i).type) for i in range(type_.num_fields))
