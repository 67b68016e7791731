"""Rows on lines of a terminal or file: columns beside each other, or below each other where there is no room."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lsmerge.statements.grid import Grid, text_width

if TYPE_CHECKING:
    from rich.console import Console

GAP = "   "
# A column that must be cut to less than this shows nothing; neither does a value with less room beside its name.
NARROWEST_COLUMN = 6
LEAST_VALUE = 12
HEADER_STYLE = "bold"


class Layout(Protocol):
    """How rows are put on lines."""

    def lines(
        self,
        header: Sequence[str] | None,
        cells: Sequence[Sequence[str]],
        styles: Sequence[str | None],
    ) -> Iterator[str]: ...


def layout(
    console: "Console",
    names: Sequence[str],
    cells: Sequence[Sequence[str]],
    right: Sequence[bool],
    least: int = 1,
    *,
    wraps: bool = False,
) -> Layout:
    """Columns beside each other, or, where a terminal is too narrow for that, below each other.

    A value that is wider than its column is cut, or goes on in the next line if the layout `wraps`.
    """
    width = console.width - 2 if console.is_terminal else None
    grid = Grid.measured(right, [names, *cells], GAP, least=least, room=width)
    natural = (max(map(text_width, column)) for column in zip(names, *cells, strict=True))
    is_squeezed = any(
        width < min(NARROWEST_COLUMN, needed)
        for width, needed in zip(grid.widths, natural, strict=True)
    )
    return Records(console, names) if is_squeezed else _Beside(console, grid, wraps)


@dataclass(frozen=True, slots=True)
class _Beside:
    """A line for each row, below a header."""

    console: "Console"
    grid: Grid
    wraps: bool

    def lines(
        self,
        header: Sequence[str] | None,
        cells: Sequence[Sequence[str]],
        styles: Sequence[str | None],
    ) -> Iterator[str]:
        if header is not None:
            yield styled(self.console, self._line(header), HEADER_STYLE)
            rule = "─" if self.console.encoding.startswith("utf") else "-"
            yield rule * (self.grid.width + 2)
        for texts, style in zip(cells, styles, strict=True):
            if self.wraps and self.grid.cuts:
                yield from (f" {line}".rstrip() for line in self.grid.wrapped(texts))
            else:
                yield styled(self.console, self._line(texts), style)

    def _line(self, texts: Sequence[str]) -> str:
        return f" {self.grid.line(texts)}".rstrip()


@dataclass(frozen=True, slots=True)
class Records:
    """A line for each value; where even that is too wide, the value below its name."""

    console: "Console"
    names: Sequence[str]

    def lines(
        self,
        header: Sequence[str] | None,  # noqa: ARG002 - every record has the names
        cells: Sequence[Sequence[str]],
        styles: Sequence[str | None],  # noqa: ARG002 - names are what is styled
    ) -> Iterator[str]:
        for texts in cells:
            yield from field_lines(self.console, dict(zip(self.names, texts, strict=True)))
            yield ""


def field_lines(console: "Console", texts: Mapping[str, str]) -> Iterator[str]:
    """Names and values below each other; a value that has no room beside its name goes below it."""
    names = max(map(text_width, texts), default=0)
    is_narrow = console.is_terminal and console.width < names + 2 + LEAST_VALUE
    for name, text in texts.items():
        shown = styled(console, name, HEADER_STYLE)
        if is_narrow:
            yield shown
            yield f"  {text}"
        else:
            yield f"{shown}{' ' * (names - text_width(name))}  {text}".rstrip()


def styled(console: "Console", text: str, style: str | None) -> str:
    """The text with a style, where the terminal has any."""
    from rich.style import Style

    if style is None or console.color_system is None or console.no_color:
        return text
    return Style.parse(style).render(text)
