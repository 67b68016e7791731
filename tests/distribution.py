"""Which tests stay together when several processes share the suite (`-n 2 --dist loadgroup`), and which begin.

The tests of a file stay together, so that what a module or a session sets up is set up once. Spark's tests share one
session; its programs, which start sessions of their own, need not wait for them. What takes long begins, so that
no process is left with it when the others are done.
"""

import pytest
from xdist.scheduler import LoadScopeScheduling

# A test belongs to the first of these that its id begins with, else to its file.
FIRST = (
    "tests/spark/test_write_failures.py::test_a_cluster_that_speculates_and_loses_an_executor",
    "tests/spark/test_connect.py",
    "tests/spark/",
    "tests/test_fault_loop.py",
    "tests/test_memory.py",
    "tests/test_syscalls.py",
    "tests/test_report_browser.py",
    "tests/test_conformance.py",
    "tests/test_state_machine.py",
    "tests/test_bit_flips.py",
    "tests/test_placement.py",
)


def unit_of(test_id: str) -> str:
    """What is given to one process as a whole."""
    return next((unit for unit in FIRST if test_id.startswith(unit)), test_id.partition("::")[0])


def begin_with_the_longest(items: list[pytest.Item]) -> None:
    ranks = {unit: rank for rank, unit in enumerate(FIRST)}
    items.sort(key=lambda item: ranks.get(unit_of(item.nodeid), len(ranks)))


class UnitScheduling(LoadScopeScheduling):
    """Gives units to processes in the order of the collection."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)
