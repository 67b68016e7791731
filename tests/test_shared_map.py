"""Work that its caller shares with threads: every result in order, also if no thread ever helps."""

import threading

import pytest

from lsmerge.engine import parallel
from lsmerge.engine.parallel import shared_map

# For a caller that does not wait to be found out; one that waits is given as much.
LONG_ENOUGH_S = 0.1


@pytest.mark.parametrize("count", [0, 1, 2, 7, 100])
def test_results_come_in_order(count):
    assert shared_map(lambda n: n * n, range(count)) == [n * n for n in range(count)]


def test_another_thread_helps(monkeypatch):
    monkeypatch.setattr(parallel, "CORES", 2)
    both_are_here = threading.Barrier(2, timeout=60)
    workers = shared_map(lambda _: (both_are_here.wait(), threading.get_ident())[1], range(2))
    assert len(set(workers)) == 2


def test_the_caller_waits_for_no_thread_that_has_not_begun(monkeypatch):
    class Unwilling(parallel.ThreadPoolExecutor):
        def _adjust_thread_count(self):
            """No thread is started."""

    monkeypatch.setattr(parallel, "ThreadPoolExecutor", Unwilling)
    here = threading.get_ident()
    assert shared_map(lambda _: threading.get_ident(), range(5)) == [here] * 5


def test_what_another_thread_has_begun_ends_before_an_error_is_told(monkeypatch):
    monkeypatch.setattr(parallel, "CORES", 2)
    here, both_are_here = threading.get_ident(), threading.Barrier(2, timeout=60)
    is_told, ended = threading.Event(), []

    def work(number):
        both_are_here.wait()
        if threading.get_ident() == here:
            raise KeyboardInterrupt
        is_told.wait(LONG_ENOUGH_S)
        ended.append(number)

    with pytest.raises(KeyboardInterrupt):
        shared_map(work, range(2))
    found = list(ended)
    is_told.set()
    assert len(found) == 1


@pytest.mark.parametrize("cores", [1, 2, 8])
def test_what_goes_wrong_is_told(monkeypatch, cores):
    monkeypatch.setattr(parallel, "CORES", cores)
    with pytest.raises(ZeroDivisionError):
        shared_map(lambda n: 1 // (n - 3), range(8))
