"""Where Arrow takes memory from in Spark's Python processes.

Arrow's own choice on Linux, mimalloc, asks for huge pages, each of which the kernel clears when it is first touched. A
process that lives long pays that once. Those of Spark are young mostly, and a commit works on new threads, each with a
heap of its own: half of Python's time for the first million rows went into clearing pages.
"""

import os
from functools import cache

import pyarrow as pa

from lsmerge.spark.heap import is_of_spark

# How a user says to Arrow which allocator to take.
CHOICE = "ARROW_DEFAULT_MEMORY_POOL"
OF_ARROW, OURS = "mimalloc", "jemalloc"


@cache
def choose_allocator() -> None:
    """Take jemalloc from now on, in Spark's processes where there is one, unless somebody chose for himself."""
    is_chosen = CHOICE in os.environ or pa.default_memory_pool().backend_name != OF_ARROW
    if is_of_spark() and not is_chosen and OURS in pa.supported_memory_backends():
        pa.set_memory_pool(pa.jemalloc_memory_pool())
