"""Finding the source, and what is refused before any work is done."""

import pytest

PATHS = [
    (None, "INVALID_OPTION"),
    ("relative/table", "a relative path means another directory"),
    ("memory://x", "each Spark process has a memory of its own"),
]


@pytest.mark.parametrize(("path", "reason"), PATHS)
def test_a_path_that_means_something_else_in_each_process_is_refused(spark, path, reason):
    with pytest.raises(Exception, match=reason):
        spark.range(3).write.format("lsmerge").mode("append").save(path)
