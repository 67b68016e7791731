"""Rows drawn as a table, page by page; one column below the other where a terminal is too narrow for that.

Columns get their width from the first page. What is wider is cut on a terminal, and goes on in the next line elsewhere.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa

from lsmerge.cli import json_out
from lsmerge.cli.screen import cell, screen, spelled

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

PAGE_ROWS = 200
COLUMN_GAP = 3
NARROWEST_COLUMN = 6
LIVE_COLUMN = 8
KIND_COLUMN = "_row_kind"
KIND_STYLES = {"+I": "green", "-U": "yellow", "+U": "yellow", "-D": "red"}


class TableView:
    """Draws batches to a stream; a new header where the columns change."""

    def __init__(self, stream: IO[str], *, at_once: bool = False) -> None:
        self._console = screen(stream)
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
        is_new = schema != self._schema
        cells = [[cell(value) for value in row.values()] for row in rows]
        if is_new:
            self._schema = schema
            self._widths = self._measured(schema.names, cells)
        if self._is_too_narrow(len(schema.names)):
            self._draw_records(schema.names, cells)
            return
        table = self._header(schema, show=is_new)
        for row, drawn in zip(rows, cells, strict=True):
            table.add_row(*drawn, style=KIND_STYLES.get(row.get(KIND_COLUMN, "")))
        self._console.print(table)

    def _measured(self, names: Sequence[str], cells: Sequence[Sequence["Text"]]) -> list[int]:
        widths = [len(spelled(name)) for name in names]
        for row in cells:
            widths = [max(pair) for pair in zip(widths, (c.cell_len for c in row), strict=True)]
        # Of what is still to come nothing is known but that it may be wider.
        least = LIVE_COLUMN if self._at_once else 0
        return _fitted([max(least, width) for width in widths], self._room(len(names)))

    def _room(self, columns: int) -> int:
        return self._console.width - COLUMN_GAP * columns

    def _is_too_narrow(self, columns: int) -> bool:
        return self._room(columns) < NARROWEST_COLUMN * columns

    def _header(self, schema: pa.Schema, *, show: bool) -> "Table":
        from rich import box
        from rich.table import Table
        from rich.text import Text

        is_terminal = self._console.is_terminal
        table = Table(box=box.SIMPLE_HEAD, show_header=show, show_edge=False, header_style="bold")
        for field, width in zip(schema, self._widths, strict=True):
            table.add_column(
                Text(spelled(field.name)),
                width=width,
                no_wrap=is_terminal,
                overflow="ellipsis" if is_terminal else "fold",
                justify="right" if _is_number(field.type) else "left",
            )
        return table

    def _draw_records(self, names: Sequence[str], cells: Iterable[Sequence["Text"]]) -> None:
        from rich.table import Table
        from rich.text import Text

        for row in cells:
            grid = Table.grid(padding=(0, 2))
            grid.add_column(style="bold")
            grid.add_column(overflow="fold")
            for name, drawn in zip(names, row, strict=True):
                grid.add_row(Text(spelled(name)), drawn)
            self._console.print(grid)
            self._console.print()


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
