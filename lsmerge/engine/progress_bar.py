"""A bar on the terminal that shows how far long work is: `progress=True`.

It writes to standard error. Where that is no terminal, a file or a pipe, each tenth of the work gives a line instead.
"""

import sys
from typing import Protocol, TextIO

WIDTH = 30
TENTH = 10


class Reading(Protocol):
    """What is done of how much."""

    @property
    def done(self) -> int: ...
    @property
    def total(self) -> int: ...
    @property
    def unit(self) -> str: ...


class ProgressBar:
    """Shows each reading it is called with, if that changes what can be seen."""

    def __init__(self, work: str, stream: TextIO | None = None) -> None:
        self._work = work
        self._stream = sys.stderr if stream is None else stream
        self._is_terminal = self._stream.isatty()
        self._shown = -1

    def __call__(self, reading: Reading) -> None:
        percent = 100 * reading.done // reading.total if reading.total else 100
        step = 1 if self._is_terminal else TENTH
        if percent // step == self._shown // step and self._shown >= 0:
            return
        self._shown = percent
        line = f"{self._work}: {percent:3d} % of {reading.total:,} {reading.unit}"
        self._show(line, percent)

    def _show(self, line: str, percent: int) -> None:
        if not self._is_terminal:
            self._stream.write(f"{line}\n")
        else:
            filled = WIDTH * percent // 100
            end = "\n" if percent >= 100 else ""
            self._stream.write(f"\r[{'#' * filled}{'.' * (WIDTH - filled)}] {line}{end}")
        self._stream.flush()
