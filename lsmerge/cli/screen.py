"""The terminal: where rich is set up, and how names, numbers and values are written for people."""

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime
from typing import IO, TYPE_CHECKING, Any

from lsmerge.cli import json_out
from lsmerge.cli.layout import field_lines, layout
from lsmerge.statements.grid import printable

if TYPE_CHECKING:
    from rich.console import Console

# Where output is no terminal nothing is cut: no line of ours is as long.
UNLIMITED_WIDTH = 1_000_000


def screen(file: IO[str] | None = None) -> "Console":
    """A console that shows text as it is given; colours only on a terminal."""
    from rich.console import Console

    class Screen(Console):
        def on_broken_pipe(self) -> None:
            """Leave it to the program what becomes of a reader that had enough."""
            raise  # noqa: PLE0704 - called while the error is handled

    stream = sys.stdout if file is None else file
    width = None if stream.isatty() else UNLIMITED_WIDTH
    return Screen(file=stream, width=width, highlight=False, markup=False, emoji=False)


def document(content: Any) -> None:
    """One JSON document on standard output, in UTF-8 whatever the terminal speaks."""
    sys.stdout.flush()
    sys.stdout.buffer.write(f"{json_out.text(content, indent=2)}\n".encode())


def values_of(report: Any) -> dict[str, Any]:
    """The fields of a report of the table."""
    return asdict(report)


def fields(values: Mapping[str, object]) -> None:
    """Names and values below each other."""
    texts = {printable(name): _text(value) for name, value in values.items()}
    _write(field_lines(screen(), texts))


def listing(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A small table: columns of numbers to the right."""
    listed = [list(row) for row in rows]
    right = [
        bool(listed) and all(isinstance(row[position], int | float) for row in listed)
        for position in range(len(header))
    ]
    cells = [[_text(value) for value in row] for row in listed]
    found = layout(screen(), header, cells, right, wraps=True)
    _write(found.lines(header, cells, [None] * len(cells)))


def _write(lines: Iterable[str]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)


def _text(value: Any) -> str:
    """A value on one line."""
    return "null" if value is None else printable(plain(value))


def plain(value: Any) -> str:
    """A value as people write it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, date):
        return value.isoformat()
    text = json_out.text(value)
    return str(json.loads(text)) if text.startswith('"') else text


def size(count: int) -> str:
    """Bytes in the unit that gives three digits."""
    units = ("bytes", "KB", "MB", "GB", "TB", "PB")
    power = min(int(math.log(count, 1000)), len(units) - 1) if count else 0
    return f"{count} bytes" if power == 0 else f"{count / 1000**power:.1f} {units[power]}"


def time_of(milliseconds: int) -> datetime:
    """A time given in milliseconds since 1970."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def moment(time: datetime) -> str:
    """A time, to the second, in UTC."""
    return f"{time:%Y-%m-%d %H:%M:%S}Z"


def count(number: int, what: str) -> str:
    """`1 file`, `2,000 files`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def bucket_name(partition: Mapping[str, object], bucket: int) -> str:
    """A bucket as its directory is called."""
    return (
        "".join(f"{name}={plain(value)}/" for name, value in partition.items()) + f"bucket-{bucket}"
    )
