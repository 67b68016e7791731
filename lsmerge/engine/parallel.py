"""Ordered work on a few threads. The kernels and Arrow release the GIL, so threads use the cores."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import TypeVar

from lsmerge.env import CORES

Item = TypeVar("Item")
Result = TypeVar("Result")


# One item a core, and as many finished ones waiting to be consumed.
IN_FLIGHT = 2 * CORES


def ordered_map(
    work: Callable[[Item], Result], items: Iterable[Item], in_flight: int = IN_FLIGHT
) -> Iterator[Result]:
    """`map(work, items)` on threads: results in order, at most `in_flight` begun and not consumed.

    A single item runs on the caller's thread. Closing the generator drops what has not started.
    """
    source = iter(items)
    first = list(islice(source, 2))
    if len(first) < 2 or min(CORES, in_flight) == 1:
        yield from map(work, first)
        yield from map(work, source)
        return
    with ThreadPoolExecutor(CORES, thread_name_prefix="lsmerge") as pool:
        waiting: deque[Future[Result]] = deque(pool.submit(work, item) for item in first)
        try:
            while waiting:
                room = in_flight - len(waiting)
                waiting.extend(pool.submit(work, item) for item in islice(source, room))
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def shared_map(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """`map(work, items)` by the caller and by threads that help where there are cores to spare.

    For work that takes about as long as starting a thread: nobody waits for a thread that has not begun.
    """
    todo = list(items)
    helpers = min(CORES, len(todo)) - 1
    if helpers < 1:
        return list(map(work, todo))
    results: dict[int, Result] = {}
    numbers, lock = iter(range(len(todo))), threading.Lock()

    def work_off() -> None:
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            results[number] = work(todo[number])

    pool = ThreadPoolExecutor(helpers, thread_name_prefix="lsmerge")
    begun: list[Future[None]] = []
    try:
        begun.extend(pool.submit(work_off) for _ in range(helpers))
        work_off()
    finally:
        with lock:
            deque(numbers, maxlen=0)  # if that failed, nothing more is begun
        pool.shutdown(wait=False, cancel_futures=True)
        helping = [future for future in begun if not future.cancelled()]
        wait(helping)
    for future in helping:
        future.result()
    return [results[number] for number in range(len(todo))]
