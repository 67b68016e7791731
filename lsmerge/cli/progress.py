"""A bar on the terminal for long work; nothing with --json or where standard error is no terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from lsmerge.cli.settings import Settings


class Reading(Protocol):
    """What is done of how much, as `Table.compact` and the like tell it; a total of None is not known."""

    @property
    def done(self) -> int: ...
    @property
    def total(self) -> int | None: ...
    @property
    def unit(self) -> str: ...


@dataclass(frozen=True, slots=True)
class RowsDone:
    """A reading of rows that pass by."""

    done: int
    total: int | None
    unit = "rows"


Hook: TypeAlias = Callable[[Reading], None]


@contextmanager
def bar(settings: Settings, work: str) -> Iterator[Hook | None]:
    """What to call with each reading while the block runs; None if nobody would see it."""
    if not settings.is_watched:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[reached]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as shown:
        task = shown.add_task(work, total=None, reached="")

        def hook(reading: Reading) -> None:
            of = "" if reading.total is None else f" of {reading.total:,}"
            reached = f"{reading.done:,}{of} {reading.unit}"
            shown.update(task, completed=reading.done, total=reading.total, reached=reached)

        yield hook
