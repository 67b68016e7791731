"""How option values are read: sizes, durations, numbers, choices, lists.

An `OptionType` turns text into a typed value or raises ValueError with what would be accepted; the
option's name is added by the registry, which knows it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_MAX = 2**63 - 1
_AMOUNT = re.compile(r"(\d{1,19})\s*([a-zA-Z]*)", re.ASCII)
_SIZE_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_DURATION_UNITS = {
    "ms": 1,
    "s": 1_000,
    "sec": 1_000,
    "min": 60_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


@dataclass(frozen=True)
class OptionType:
    """`label` says in the documentation what is accepted; `canonical` is the text to store."""

    label: str
    parse: Callable[[str], Any]
    canonical: Callable[[str], str] = str.strip


def boolean() -> OptionType:
    """`true` or `false`, in any case."""
    return choice("true", "false", label="true, false", result=lambda text: text == "true")


def choice(
    *values: str, label: str | None = None, result: Callable[[str], Any] = str
) -> OptionType:
    """One of several words; case does not matter, and `_` is as good as `-`."""
    accepted = label or ", ".join(values)

    def canonical(text: str) -> str:
        return text.strip().lower().replace("_", "-")

    def parse(text: str) -> Any:
        if canonical(text) not in values:
            raise ValueError(f"accepted: {accepted}")
        return result(canonical(text))

    return OptionType(accepted, parse, canonical)


def integer(minimum: int, maximum: int = _MAX, *, except_for: tuple[int, ...] = ()) -> OptionType:
    """A whole number in a range; `except_for` are further numbers with a meaning of their own."""
    bounds = f"{minimum} or more" if maximum == _MAX else f"{minimum} to {maximum}"
    label = "whole number, " + ", ".join([*map(str, except_for), bounds])

    def parse(text: str) -> int:
        if not re.fullmatch(r"\s*[+-]?\d{1,19}\s*", text, re.ASCII):
            raise ValueError(f"accepted: {label}")
        number = int(text)
        if number not in except_for and not minimum <= number <= maximum:
            raise ValueError(f"accepted: {label}")
        return number

    return OptionType(label, parse)


def memory_size(minimum: int = 0) -> OptionType:
    """Bytes, as `256 mb` or `64 kb`; units are powers of 1024, a bare number means bytes."""

    def parse(text: str) -> int:
        match = _AMOUNT.fullmatch(text.strip())
        unit = match and re.sub(r"i?b$", "", match[2].lower())
        if not match or unit not in _SIZE_UNITS:
            raise ValueError("accepted: a number with a unit b, kb, mb, gb or tb, such as 256 mb")
        size = int(match[1]) * _SIZE_UNITS[unit]
        if not minimum <= size <= _MAX:
            raise ValueError(f"accepted: {minimum} to {_MAX} bytes")
        return size

    return OptionType("memory size", parse)


def duration_ms() -> OptionType:
    """Milliseconds, as `7 d` or `500 ms`; the unit is required."""

    def parse(text: str) -> int:
        match = _AMOUNT.fullmatch(text.strip())
        if not match or match[2].lower() not in _DURATION_UNITS:
            raise ValueError("accepted: a number with a unit ms, s, min, h or d, such as 7 d")
        span = int(match[1]) * _DURATION_UNITS[match[2].lower()]
        if span > _MAX:
            raise ValueError(f"accepted: up to {_MAX} ms")
        return span

    return OptionType("duration", parse)


def text() -> OptionType:
    """Any text, kept as it is."""
    return OptionType("text", str, str)


def non_empty_text() -> OptionType:
    """Text of at least one character, blanks included."""

    def parse(value: str) -> str:
        if not value:
            raise ValueError("accepted: text that is not empty")
        return value

    return OptionType("text", parse, str)


def name() -> OptionType:
    """One column name or identifier."""

    def parse(value: str) -> str:
        if not value.strip():
            raise ValueError("accepted: a name")
        return value.strip()

    return OptionType("name", parse)


def name_list() -> OptionType:
    """Names separated by commas."""

    def parse(value: str) -> tuple[str, ...]:
        names = tuple(part.strip() for part in value.split(","))
        if not all(names):
            raise ValueError("accepted: names separated by commas")
        return names

    return OptionType("names separated by commas", parse)


def choice_list(*values: str) -> OptionType:
    """Several of a few words, separated by commas."""
    one = choice(*values)

    def parse(value: str) -> tuple[str, ...]:
        return tuple(one.parse(part) for part in value.split(","))

    return OptionType(f"some of {one.label}", parse)


def per_level(*values: str) -> OptionType:
    """A word per level, as `0:arrow,3:parquet`; gives a tuple of (level, word)."""
    one = choice(*values)

    def parse(value: str) -> tuple[tuple[int, str], ...]:
        pairs = [part.partition(":") for part in value.split(",")]
        if not all(re.fullmatch(r"\s*\d{1,3}\s*", level, re.ASCII) for level, _, _ in pairs):
            raise ValueError(f"accepted: level:word pairs such as 0:{values[0]},1:{values[-1]}")
        chosen = {int(level): one.parse(word) for level, _, word in pairs}
        if len(chosen) < len(pairs):
            raise ValueError("accepted: each level once")
        return tuple(sorted(chosen.items()))

    return OptionType(f"level:word pairs, words {one.label}", parse)
