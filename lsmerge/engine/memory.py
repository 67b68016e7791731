"""Budgets speak of the process: what is freed must also leave it.

Kernels take large buffers from Arrow's allocator, as everything else here does. It keeps pages that were touched for
the next window, where the C library would give them back, and `release_unused` lets them go where that is wanted.
"""

import pyarrow as pa

from lsmerge_native.buffers import use_allocator

use_allocator(pa.allocate_buffer)


def release_unused() -> None:
    """Give back what Arrow's allocator keeps of freed memory; it would otherwise wait for the next time."""
    pa.default_memory_pool().release_unused()
