"""Numbers, sizes and times for people."""

from datetime import datetime
from typing import Any

MAX_VALUE_TEXT = 40


def size(count: int) -> str:
    """Bytes in the unit that suits them."""
    value, units = float(count), iter(("bytes", "KB", "MB", "GB", "TB"))
    unit = next(units)
    for larger in units:
        if value < 999.95:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"


def number(count: int) -> str:
    """With separators of thousands."""
    return f"{count:,}"


def counted(count: int, thing: str) -> str:
    """So many things."""
    return f"{number(count)} {thing}" if count == 1 else f"{number(count)} {thing}s"


def moment(time: datetime) -> str:
    """A time in UTC, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S")


def key(values: tuple[Any, ...]) -> str:
    """A key as text that stays short."""
    return ", ".join(map(shortened, values))


def shortened(value: Any) -> str:
    """A value as text, cut where it is long."""
    shown = value.hex() if isinstance(value, bytes) else str(value)
    return shown if len(shown) <= MAX_VALUE_TEXT else f"{shown[: MAX_VALUE_TEXT - 1]}…"
