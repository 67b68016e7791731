"""Noticing that nobody reads any more, also while there is nothing to write.

A closed pipe is otherwise met by the next write, which on a quiet table is far away: `lsmerge tail orders | head -1`
would stay until somebody changes an order. A thread waits for the pipe to close, and then sends the main thread the
signal that is named after it, which ends any wait. What the signal raises is lost if a finaliser happens to run just
then, so it is sent again until the wait has ended.
"""

import select
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

AGAIN_MS = 200


class _ReaderIsGone(BaseException):
    """Comes at any place, as Ctrl-C does: an OSError there would pass for one of the table's storage."""


@contextmanager
def ending_with_its_reader() -> Iterator[None]:
    """BrokenPipeError as soon as the reader of standard output is gone.

    Only the main thread gets signals, and only what the system has a descriptor of can be waited for: elsewhere the
    next write tells.
    """
    output = _descriptor()
    if output is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGPIPE, _raise)
    try:
        with _nothing_said_of_lost_ones(), _watching(output):
            yield
    except _ReaderIsGone:
        raise BrokenPipeError from None
    finally:
        signal.signal(signal.SIGPIPE, before)


@contextmanager
def _nothing_said_of_lost_ones() -> Iterator[None]:
    said = sys.unraisablehook

    def say(lost: "sys.UnraisableHookArgs") -> None:
        if lost.exc_type is not _ReaderIsGone:
            said(lost)

    sys.unraisablehook = say
    try:
        yield
    finally:
        sys.unraisablehook = said


@contextmanager
def _watching(output: int) -> Iterator[None]:
    ours, theirs = socket.socketpair()
    with theirs:
        watcher = threading.Thread(target=_watch, args=(output, theirs.fileno()), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # it was heard
            ours.close()  # the watcher hears of it
            watcher.join()


def _watch(output: int, end: int) -> None:
    """Wait until the reader is gone or nobody cares any more: what closes is told without being asked for."""
    closings = select.poll()
    for descriptor in (output, end):
        closings.register(descriptor, 0)
    closed = closings.poll()
    closings.unregister(output)
    while all(descriptor != end for descriptor, _ in closed):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGPIPE)
        closed = closings.poll(AGAIN_MS)


def _descriptor() -> int | None:
    try:
        return sys.stdout.fileno()
    except (OSError, ValueError):
        return None


def _raise(_number: int, _frame: object) -> NoReturn:
    raise _ReaderIsGone
