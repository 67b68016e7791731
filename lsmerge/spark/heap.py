"""What Spark's Python processes need not look at after every task.

They are forks of a daemon, serve one task after the other, and collect garbage after each: all of it, which with what
pyspark, Arrow and lsmerge have in memory takes as long as reading a million rows. None of that is garbage, ever.
"""

import gc
import sys
from functools import cache

DAEMON = "pyspark.daemon"


@cache  # asking how many objects are out already walks through all of them, 8 ms, which each task would pay
def keep_for_good() -> None:
    """Take all objects of this process out of later collections, once; nothing outside of Spark's processes.

    To be called when a task is done: modules are imported then, and its own objects are gone.
    """
    if is_of_spark() and gc.get_freeze_count() == 0:
        gc.collect()
        gc.freeze()


def is_of_spark() -> bool:
    """Whether this is a process that Spark forked for tasks, or for planning."""
    specification = getattr(sys.modules["__main__"], "__spec__", None)
    return specification is not None and specification.name == DAEMON
