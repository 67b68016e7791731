"""K8, the fast part: kernels that get no memory, one allocation after the other, in this process."""

import pytest

import lsmerge
from tests.long import allocations
from tests.long.scripts import ENGINES, SCHEMA, register, rows

register()


@pytest.fixture(scope="module")
def allocator(tmp_path_factory):
    built = allocations.library(tmp_path_factory.mktemp("allocator"))
    assert built is not None, "whoever compiles the kernels can compile this"
    return allocations.loaded(built)


def fails_at(allocator, nth, work):
    """Whether the n-th allocation of `work`, if it makes so many, was told; None if it makes fewer."""
    allocator.watch_allocations(nth)
    try:
        work()
        failed = False
    except MemoryError:
        failed = True
    finally:
        seen = allocator.end_watch()
    return failed if seen >= nth else None


@pytest.mark.parametrize("engine", ["deduplicate", "aggregation", "partial-update"])
def test_no_allocation_that_fails_harms_the_table(allocator, memory_uri, engine):
    table = lsmerge.create_table(memory_uri, SCHEMA, "k", options=ENGINES[engine])
    table.upsert(rows(0, range(20)))
    before = table.scan().to_arrow().to_pylist()

    def write_and_merge():
        table.upsert(rows(1, range(10)))
        table.compact(full=True)
        table.scan().to_arrow()
        table.get_many([1, 2, 30])

    failures = 0
    for nth in range(1, 2000, 17):
        failed = fails_at(allocator, nth, write_and_merge)
        found = table.scan().to_arrow().to_pylist()
        assert len(found) == len(before)
        if failed is None:
            break
        failures += failed
    assert failures > 3
    table.upsert(rows(2, range(20)))
    assert table.verify().ok


def test_allocations_are_counted_for_kernels_alone(allocator):
    assert fails_at(allocator, 1, lambda: bytearray(1 << 20)) is None
