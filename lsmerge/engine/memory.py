"""Budgets speak of the process: what is freed must also leave it."""

import pyarrow as pa


def release_unused() -> None:
    """Give back what Arrow's allocator keeps of freed memory; it would otherwise wait for the next time."""
    pa.default_memory_pool().release_unused()
