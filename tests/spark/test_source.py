"""Finding the source, and what is refused before any work is done."""

import pytest
from pyspark.sql.types import LongType, StructField, StructType

import lsmerge
from lsmerge.spark import LsmergeDataSource

PATHS = [
    (None, "INVALID_OPTION"),
    ("relative/table", "a relative path means another directory"),
    ("memory://x", "each Spark process has a memory of its own"),
]


@pytest.mark.parametrize(("path", "reason"), PATHS)
def test_a_path_that_means_something_else_in_each_process_is_refused(path, reason):
    source = LsmergeDataSource({} if path is None else {"path": path})
    with pytest.raises(lsmerge.InvalidOptionError, match=reason):
        source.writer(StructType([StructField("id", LongType())]), overwrite=False)
    with pytest.raises(lsmerge.InvalidOptionError, match=reason):
        source.schema()
