"""Rows drawn as a table, page by page; one column below the other where a terminal is too narrow for that.

Columns get their width from the first page. A terminal cuts what is wider; elsewhere it stays whole, and its line gets
longer. Lines are put together here, as a library that draws tables takes some hundred times as long.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

import pyarrow as pa

from lsmerge.cli import json_out
from lsmerge.cli.screen import plain, screen
from lsmerge.cli.spelling import spelled

PAGE_ROWS = 200
GAP = "   "
NARROWEST_COLUMN = 6
LIVE_COLUMN = 8
NULL = "null"
HEADER_STYLE = "bold"
KIND_COLUMN = "_row_kind"
KIND_STYLES = {"+I": "green", "-U": "yellow", "+U": "yellow", "-D": "red"}


class TableView:
    """Draws batches to a stream; a new header where the columns change."""

    def __init__(self, stream: IO[str], *, at_once: bool = False) -> None:
        self._stream = stream
        self._screen = screen(stream)
        self._at_once = at_once
        self._schema: pa.Schema | None = None
        self._widths: list[int] = []

    def show(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """Draw all batches; the header alone if there are none."""
        for page in _pages(batches, at_once=self._at_once):
            self._draw(page.schema, json_out.rows(page))
        if self._schema is None:
            self._draw(schema, [])

    def _draw(self, schema: pa.Schema, rows: Sequence[dict[str, Any]]) -> None:
        names = [spelled(name) for name in schema.names]
        cells = [[_text(value) for value in row.values()] for row in rows]
        is_new = schema != self._schema
        if is_new:
            self._schema = schema
            self._widths = self._measured([names, *cells])
        if self._room(len(names)) < NARROWEST_COLUMN * len(names):
            lines = self._records(names, cells)
        else:
            lines = self._lines(schema, names if is_new else None, rows, cells)
        self._stream.write("".join(f"{line}\n" for line in lines))
        self._stream.flush()

    def _lines(
        self,
        schema: pa.Schema,
        header: Sequence[str] | None,
        rows: Iterable[dict[str, Any]],
        cells: Iterable[Sequence[str]],
    ) -> Iterator[str]:
        to_right = [_is_number(field.type) for field in schema]
        if header is not None:
            yield self._styled(self._line(header, to_right), HEADER_STYLE)
            yield "─" * (sum(self._widths) + len(GAP) * (len(self._widths) - 1) + 2)
        for row, texts in zip(rows, cells, strict=True):
            style = KIND_STYLES.get(row.get(KIND_COLUMN, ""))
            yield self._styled(self._line(texts, to_right), style)

    def _line(self, texts: Sequence[str], to_right: Sequence[bool]) -> str:
        placed = zip(texts, self._widths, to_right, strict=True)
        return f" {GAP.join(self._placed(*cell) for cell in placed)}".rstrip()

    def _placed(self, text: str, width: int, is_right: bool) -> str:
        from rich.cells import cell_len, set_cell_size

        room = width - cell_len(text)
        if room < 0:
            return f"{set_cell_size(text, width - 1)}…" if self._screen.is_terminal else text
        return " " * room + text if is_right else text + " " * room

    def _records(self, names: Sequence[str], cells: Iterable[Sequence[str]]) -> Iterator[str]:
        """Rows below each other, and so are their columns."""
        width = max(map(len, names), default=0)
        for texts in cells:
            for name, text in zip(names, texts, strict=True):
                yield f"{self._styled(name.ljust(width), HEADER_STYLE)}  {text}"
            yield ""

    def _measured(self, lines: Iterable[Sequence[str]]) -> list[int]:
        from rich.cells import cell_len

        # Of what is still to come nothing is known but that it may be wider.
        least = LIVE_COLUMN if self._at_once else 1
        columns = zip(*lines, strict=True)
        widths = [max(least, *map(cell_len, column), 0) for column in columns]
        return _fitted(widths, self._room(len(widths)))

    def _room(self, columns: int) -> int:
        return self._screen.width - len(GAP) * columns

    def _styled(self, text: str, style: str | None) -> str:
        from rich.style import Style

        if style is None or self._screen.color_system is None or self._screen.no_color:
            return text
        return Style.parse(style).render(text)


def _text(value: Any) -> str:
    return NULL if value is None else spelled(plain(value))


def _pages(batches: Iterable[pa.RecordBatch], *, at_once: bool) -> Iterator[pa.RecordBatch]:
    """Rows that are drawn together: so many, or those of one batch if they must not wait."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        for start in range(0, batch.num_rows, PAGE_ROWS):
            piece = batch.slice(start, PAGE_ROWS)
            rows = sum(other.num_rows for other in held)
            if held and (rows + piece.num_rows > PAGE_ROWS or held[0].schema != piece.schema):
                yield pa.concat_batches(held)
                held = []
            held.append(piece)
        if at_once and held:
            yield pa.concat_batches(held)
            held = []
    if held:
        yield pa.concat_batches(held)


def _fitted(widths: Sequence[int], room: int) -> list[int]:
    """The widths, the largest of them cut so far that they fit together."""
    cap, rest, left = 0, room, len(widths)
    for width in sorted(widths):
        cap = rest // left
        if width > cap:
            break
        rest, left, cap = rest - width, left - 1, width
    return [max(1, min(width, cap)) for width in widths]


def _is_number(arrow: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(test(arrow) for test in tests)
