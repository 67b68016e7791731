"""Strips and bars as SVG without text: it stretches to any width, and what it says is beside it and in its titles."""

from collections.abc import Sequence
from typing import NamedTuple

from lsmerge.report.markup import Content, Markup, element

# Units from left to right; a file has at least a few of them, so that it can be seen.
WIDTH = 1000
MIN_WIDTH = 4
HEIGHT = 100


class Piece(NamedTuple):
    """A part of a strip from `start` to `stop`, both between 0 and 1."""

    start: float
    stop: float
    style: str
    title: str


class Bar(NamedTuple):
    """One bar of a chart: parts from the bottom up, as (style, amount), and what it is about."""

    parts: tuple[tuple[str, int], ...]
    title: str

    @property
    def total(self) -> int:
        return sum(amount for _, amount in self.parts)


def strip(
    pieces: Sequence[Piece], label: str, kind: str = "strip", min_width: int = MIN_WIDTH
) -> Markup:
    """Pieces on one line."""
    shapes = [_piece(piece, min_width) for piece in pieces]
    return _picture(label, kind, f"0 0 {WIDTH} 10", shapes)


def legend(*entries: tuple[str, str]) -> Markup:
    """What colours stand for, by their styles."""
    return element(
        "ul",
        [
            element("li", element("span", class_=f"key {style}", aria_hidden="true"), meaning)
            for style, meaning in entries
        ],
        class_="legend",
    )


def chart(bars: Sequence[Bar], label: str) -> Markup:
    """Bars side by side, the highest as high as the picture."""
    highest = max((bar.total for bar in bars), default=0) or 1
    step = WIDTH / max(1, len(bars))
    shapes = [_bar(bar, number * step, step, highest) for number, bar in enumerate(bars)]
    return _picture(label, "chart", f"0 0 {WIDTH} {HEIGHT}", shapes)


def _picture(label: str, kind: str, view_box: str, shapes: Content) -> Markup:
    return element(
        "svg",
        element("title", label),
        shapes,
        class_=kind,
        viewBox=view_box,
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )


def _piece(piece: Piece, min_width: int) -> Markup:
    start = min(piece.start * WIDTH, WIDTH - min_width)
    width = max(min_width, piece.stop * WIDTH - start)
    return _rectangle(start, 0, width, 10, piece.style, piece.title)


def _bar(bar: Bar, left: float, step: float, highest: int) -> Markup:
    shapes, top = [], float(HEIGHT)
    for style, amount in bar.parts:
        # What is there at all can be seen.
        height = max(1.0, amount / highest * HEIGHT) if amount else 0.0
        top -= height
        shapes.append(_rectangle(left + step * 0.1, top, step * 0.8, height, style))
    # The whole column shows the title, also where the bar is low.
    whole = element("rect", x=_short(left), y=0, width=_short(step), height=HEIGHT, class_="touch")
    return element("g", element("title", bar.title), shapes, whole)


def _rectangle(
    left: float, top: float, width: float, height: float, style: str, title: str | None = None
) -> Markup:
    return element(
        "rect",
        None if title is None else element("title", title),
        x=_short(left),
        y=_short(top),
        width=_short(width),
        height=_short(height),
        class_=style,
    )


def _short(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")
