"""Cells below each other: how wide columns are in a terminal, and how the texts of a row become a line.

The one place where tables are laid out, those that SQL prints and those of the command line alike. Measured in places
of a terminal: some letters take two, accents none.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from unicodedata import combining, east_asian_width

CUT = "…"


@dataclass(frozen=True, slots=True)
class Grid:
    """Columns of some widths; `right` are those that stand to the right, and `cuts` if what is wider is cut."""

    widths: tuple[int, ...]
    right: tuple[bool, ...]
    gap: str
    cuts: bool = False

    @classmethod
    def measured(
        cls,
        right: Iterable[bool],
        rows: Iterable[Sequence[str]],
        gap: str,
        *,
        least: int = 1,
        room: int | None = None,
    ) -> "Grid":
        """As wide as the widest cell; with `room` together no wider than that, by cutting the widest columns."""
        columns = zip(*rows, strict=True)
        widths = [max(least, *map(text_width, column), 0) for column in columns]
        if room is not None:
            widths = _fitted(widths, room - len(gap) * (len(widths) - 1))
        return cls(tuple(widths), tuple(right), gap, room is not None)

    @property
    def width(self) -> int:
        return sum(self.widths) + len(self.gap) * (len(self.widths) - 1)

    def line(self, texts: Sequence[str]) -> str:
        """One row; a cell that is wider than its column sticks out, unless it is cut."""
        return self.gap.join(map(self._placed, texts, self.widths, self.right))

    def wrapped(self, texts: Sequence[str]) -> Iterator[str]:
        """One row on as many lines as its longest cell needs, broken between words where that is possible."""
        cells = (_broken(text, width) for text, width in zip(texts, self.widths, strict=True))
        for parts in zip_longest(*cells, fillvalue=""):
            yield self.line(parts)

    def _placed(self, text: str, width: int, is_right: bool) -> str:
        room = width - text_width(text)
        if room < 0 and self.cuts:
            text = _cut(text, width)
            room = width - text_width(text)
        return " " * room + text if is_right else text + " " * room


def text_width(text: str) -> int:
    """In places of a terminal; of several lines that of the widest."""
    if text.isascii() and "\n" not in text:
        return len(text)
    return max(map(_line_width, text.split("\n")))


def printable(text: str, *, lines: bool = False) -> str:
    """The text with its control characters spelled, which might steer the terminal; with `lines`, lines stay lines."""
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable() or (lines and character == "\n")
        else character.encode("unicode_escape").decode()
        for character in text
    )


def _line_width(text: str) -> int:
    return sum(map(_places, text))


def _places(character: str) -> int:
    return 0 if combining(character) else 1 + (east_asian_width(character) in "WF")


def _cut(text: str, width: int) -> str:
    """As much as fits, with a sign that there is more."""
    return f"{text[: _fitting(text, width - len(CUT))]}{CUT}"


def _broken(text: str, width: int) -> list[str]:
    """The text in pieces that fit, cut at the last blank of each if it has one."""
    pieces = []
    while text_width(text) > width:
        fitting = max(1, _fitting(text, width))
        blank = text.rfind(" ", 0, fitting + 1)
        end = blank if blank > 0 else fitting
        pieces.append(text[:end])
        text = text[end:].lstrip(" ")
    return [*pieces, text]


def _fitting(text: str, width: int) -> int:
    """How many characters fit."""
    taken = 0
    for number, character in enumerate(text):
        taken += _places(character)
        if taken > width:
            return number
    return len(text)


def _fitted(widths: Sequence[int], room: int) -> list[int]:
    """The widths, the largest of them cut so far that they fit together."""
    cap, rest, left = 0, room, len(widths)
    for width in sorted(widths):
        cap = rest // left
        if width > cap:
            break
        rest, left, cap = rest - width, left - 1, width
    return [max(1, min(width, cap)) for width in widths]
