"""Line charts as SVG, drawn without a plotting library; readable on light and on dark pages.

A chart has panels side by side that share the x axis and the y axis. Both are logarithmic.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

PANEL_WIDTH, PANEL_HEIGHT = 380, 240
LEFT, TOP, BETWEEN, LINE = 48, 64, 56, 18
COLORS = ("#2f7ed8", "#d9622b", "#2a9d58", "#a24fc4", "#b58a00", "#d0417e")
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #333; }
.title { font-size: 15px; font-weight: 600; }
.grid { stroke: #8884; stroke-width: 1; }
.ideal { stroke: #888; stroke-width: 1.5; stroke-dasharray: 5 4; }
.line { fill: none; stroke-width: 2; }
@media (prefers-color-scheme: dark) { text { fill: #ddd; } }
"""

Series = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Panel:
    """Lines by name, each with a value for every x."""

    title: str
    lines: Series


def line_chart(title: str, xs: Sequence[tuple[float, str]], panels: Sequence[Panel]) -> str:
    """The panels beside each other; `xs` are positions and their labels, a dashed line is at 1."""
    ticks = _ticks([v for panel in panels for line in panel.lines.values() for v in line])
    width = LEFT + len(panels) * (PANEL_WIDTH + BETWEEN)
    legend = LINE * max(len(panel.lines) for panel in panels)
    height = TOP + PANEL_HEIGHT + 34 + legend
    drawn = [_panel(number, panel, xs, ticks) for number, panel in enumerate(panels)]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
    name = f"<title>{escape(title)}</title><style>{STYLE}</style>"
    return "\n".join([head, name, _text(LEFT, 22, title, "title"), *drawn, "</svg>"]) + "\n"


def _ticks(values: Sequence[float]) -> list[float]:
    """Round numbers around all values and around 1."""
    steps = [base * 10.0**power for power in range(-6, 7) for base in (1, 2, 5)]
    low = max(step for step in steps if step <= min(0.5, *values))
    high = min(step for step in steps if step >= max(2.0, *values))
    return [step for step in steps if low <= step <= high]


def _panel(
    number: int, panel: Panel, xs: Sequence[tuple[float, str]], ticks: Sequence[float]
) -> str:
    left = LEFT + number * (PANEL_WIDTH + BETWEEN)
    floor = TOP + PANEL_HEIGHT
    first, last = math.log(xs[0][0]), math.log(xs[-1][0])

    def x_of(x: float) -> float:
        return left + PANEL_WIDTH * (math.log(x) - first) / ((last - first) or 1)

    def y_of(y: float) -> float:
        share = math.log(y / ticks[0]) / math.log(ticks[-1] / ticks[0])
        return floor - PANEL_HEIGHT * share

    parts = [_text(left, TOP - 16, panel.title)]
    for y in ticks:
        kind = "ideal" if y == 1 else "grid"
        parts += [
            _rule(left, left + PANEL_WIDTH, y_of(y), kind),
            _text(left - 8, y_of(y) + 4, f"{y:g}x", "", "end"),
        ]
    parts += [_text(x_of(x), floor + 18, label, "", "middle") for x, label in xs]
    for place, (name, values) in enumerate(panel.lines.items()):
        color = COLORS[place % len(COLORS)]
        at = [(x_of(x), y_of(y)) for (x, _), y in zip(xs, values, strict=True)]
        key = floor + 40 + LINE * place
        parts += [_line(at, color), *(_dot(x, y, color) for x, y in at)]
        parts += [
            _line([(left, key - 4), (left + 20, key - 4)], color),
            _text(left + 28, key, name),
        ]
    return "\n".join(parts)


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    name = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{name} text-anchor="{anchor}">{escape(text)}</text>'


def _rule(left: float, right: float, y: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{left:.1f}" x2="{right:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'


def _line(points: Sequence[tuple[float, float]], color: str) -> str:
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline class="line" stroke="{color}" points="{places}"/>'


def _dot(x: float, y: float, color: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>'
