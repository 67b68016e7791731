"""The picture of a tree: one line for each sorted run, drawn over the keys of the bucket.

    day=mon/bucket-0  2 runs, 3 files, 1.2 MB, 10,120 rows
     L0      ███████                        12.0 KB       120 rows   1 file
     L5  ██████████████▒▒▒▒▒▒▒▒▒▒▒▒▒▒        1.2 MB    10,000 rows   2 files
         1                      99999

Keys that are one number or time are drawn to scale, others by their order among the ends of all files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lsmerge.cli.screen import bucket_name, count, plain, screen, size
from lsmerge.statements.grid import printable

if TYPE_CHECKING:
    from rich.text import Text

DEFAULT_WIDTH = 100
# Below these widths the figures behind a bar go, the least important ones first.
WIDTH_WITH_ROWS = 72
WIDTH_WITH_SIZE = 36
LABEL_WIDTH = 5
SIZE_WIDTH = 10
ROWS_WIDTH = 28
SHADES, ASCII_SHADES = "█▒", "#="
LEVEL_STYLES = ("yellow", "cyan", "blue", "magenta", "green")


@dataclass(frozen=True, slots=True)
class Bucket:
    """The files of a bucket, run by run, the newest first."""

    partition: dict[str, Any]
    number: int
    runs: list[list[Any]]

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for run in self.runs for file in run)


class KeyAxis:
    """Where keys lie between the smallest and the largest one of some files."""

    def __init__(self, ends: Sequence[Mapping[str, Any]]) -> None:
        keys = [tuple(map(_comparable, key.values())) for key in ends]
        self._ranks = {key: rank for rank, key in enumerate(sorted(set(keys)))}
        numbers = [_number(key) for key in keys]
        self._is_to_scale = None not in numbers
        scale = [n for n in numbers if n is not None] if self._is_to_scale else self._ranks.values()
        self._low, self._high = float(min(scale)), float(max(scale))
        self.is_point = self._low == self._high

    def at(self, key: Mapping[str, Any]) -> float:
        """Between 0, the smallest key, and 1, the largest; 0 if there is only one."""
        values = tuple(map(_comparable, key.values()))
        number = _number(values) if self._is_to_scale else self._ranks[values]
        distance = float(number or 0) - self._low
        return 0.0 if self.is_point else distance / (self._high - self._low)


def _comparable(value: Any) -> Any:
    """A value that can be compared with its like; a time in nanoseconds by its number."""
    return getattr(value, "value", value)


def _number(key: tuple[Any, ...]) -> float | None:
    """A key that is one number or time, as a number."""
    if len(key) != 1:
        return None
    [value] = key
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, date):
        return float(value.toordinal())
    return float(value) if isinstance(value, int | float | Decimal) else None


def cells(run: Sequence[Any], axis: KeyAxis, width: int) -> list[int | None]:
    """Which file of a run is in each cell of its line, None where there is none; each file is in one at least."""
    if axis.is_point:
        return [0] * width
    line: list[int | None] = [None] * width
    for number, file in enumerate(run):
        start = min(int(axis.at(file.min_key) * width), width - 1)
        end = max(start + 1, round(axis.at(file.max_key) * width))
        line[start:end] = [number] * (end - start)
    return line


class TreeView:
    """Draws buckets below each other."""

    def __init__(self, width: int | None, *, with_files: bool) -> None:
        self._console = screen()
        is_terminal = self._console.is_terminal
        self._width = width or (self._console.width if is_terminal else DEFAULT_WIDTH)
        self._shades = SHADES if self._console.encoding.startswith("utf") else ASCII_SHADES
        self._with_files = with_files

    def draw(self, buckets: Sequence[Bucket]) -> None:
        for position, bucket in enumerate(buckets):
            if position:
                self._console.print()
            self._draw_bucket(bucket)

    def _draw_bucket(self, bucket: Bucket) -> None:
        files = [file for run in bucket.runs for file in run]
        axis = KeyAxis([key for file in files for key in (file.min_key, file.max_key)])
        self._print(self._title(bucket, files))
        for run in bucket.runs:
            self._print(self._run_line(run, axis))
            if self._with_files:
                for file in run:
                    self._print(self._file_line(file))
        ends = (
            min(files, key=lambda f: axis.at(f.min_key)),
            max(files, key=lambda f: axis.at(f.max_key)),
        )
        self._print(self._axis_line(ends[0].min_key, ends[1].max_key))

    def _print(self, line: "Text") -> None:
        self._console.print(line, no_wrap=True, crop=False, overflow="ignore")

    def _title(self, bucket: Bucket, files: Sequence[Any]) -> "Text":
        from rich.text import Text

        figures = (
            count(len(bucket.runs), "run"),
            count(len(files), "file"),
            size(bucket.size_bytes),
            count(sum(file.rows for file in files), "row"),
        )
        name = printable(bucket_name(bucket.partition, bucket.number))
        return Text.assemble((name, "bold"), "  ", (", ".join(figures), "dim"))

    def _run_line(self, run: Sequence[Any], axis: KeyAxis) -> "Text":
        from rich.text import Text

        level = run[0].level
        label = f" L{level}".ljust(LABEL_WIDTH)
        style = LEVEL_STYLES[min(level, len(LEVEL_STYLES) - 1)]
        drawn = "".join(
            " " if number is None else self._shades[number % len(self._shades)]
            for number in cells(run, axis, self._bar_width)
        )
        return Text.assemble((label, "bold"), (drawn, style), self._figures(run))

    @property
    def _bar_width(self) -> int:
        figures = (SIZE_WIDTH if self._width >= WIDTH_WITH_SIZE else 0) + (
            ROWS_WIDTH if self._width >= WIDTH_WITH_ROWS else 0
        )
        return self._width - LABEL_WIDTH - figures

    def _figures(self, run: Sequence[Any]) -> str:
        text = ""
        if self._width >= WIDTH_WITH_SIZE:
            text += size(sum(file.size_bytes for file in run)).rjust(SIZE_WIDTH)
        if self._width >= WIDTH_WITH_ROWS:
            text += count(sum(file.rows for file in run), "row").rjust(16)
            text += count(len(run), "file").rjust(12)
        return text

    def _file_line(self, file: Any) -> "Text":
        from rich.text import Text

        name = file.path.rpartition("/")[2]
        keys = f"{_key_text(file.min_key)} … {_key_text(file.max_key)}"
        figures = f"{size(file.size_bytes)}, {count(file.rows, 'row')}, keys {keys}"
        return Text.assemble(" " * LABEL_WIDTH, (f"{name}  {figures}", "dim"))

    def _axis_line(self, low: Mapping[str, Any], high: Mapping[str, Any]) -> "Text":
        """The smallest key on the left, the largest on the right, each cut to half of the room."""
        from rich.text import Text

        room = self._bar_width // 2 - 1
        left, right = (_cut(_key_text(key), room) for key in (low, high))
        gap = " " * (self._bar_width - len(left) - len(right))
        return Text.assemble(" " * LABEL_WIDTH, (f"{left}{gap}{right}", "dim"))


def _key_text(key: Mapping[str, Any]) -> str:
    return printable(",".join(plain(value) for value in key.values()))


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"
