"""Rows drawn as a table, page by page; one column below the other where a terminal is too narrow for that.

Columns get their width from the first page. A terminal cuts what is wider; elsewhere it stays whole, and its line gets
longer. A library that draws tables takes some hundred times as long.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

import pyarrow as pa

from lsmerge.cli import json_out
from lsmerge.cli.layout import Layout, Records, layout
from lsmerge.cli.screen import plain, screen
from lsmerge.statements.drawing import is_number
from lsmerge.statements.grid import printable

PAGE_ROWS = 200
LIVE_COLUMN = 8
NULL = "null"
KIND_COLUMN = "_row_kind"
KIND_STYLES = {"+I": "green", "-U": "yellow", "+U": "yellow", "-D": "red"}


class TableView:
    """Draws batches to a stream; a new header where the columns change."""

    def __init__(self, stream: IO[str], *, at_once: bool = False) -> None:
        self._stream = stream
        self._screen = screen(stream)
        self._at_once = at_once
        self._schema: pa.Schema | None = None
        self._layout: Layout = Records(self._screen, ())

    def show(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """Draw all batches; the header alone if there are none."""
        for page in _pages(batches, at_once=self._at_once):
            self._draw(page.schema, json_out.rows(page))
        if self._schema is None:
            self._draw(schema, [])

    def _draw(self, schema: pa.Schema, rows: Sequence[dict[str, Any]]) -> None:
        names = [printable(name) for name in schema.names]
        cells = [[_text(value) for value in row.values()] for row in rows]
        styles = [KIND_STYLES.get(row.get(KIND_COLUMN, "")) for row in rows]
        is_new = schema != self._schema
        if is_new:
            self._schema = schema
            self._layout = self._laid_out(names, cells, list(map(is_number, schema.types)))
        lines = self._layout.lines(names if is_new else None, cells, styles)
        self._stream.write("".join(f"{line}\n" for line in lines))
        self._stream.flush()

    def _laid_out(
        self, names: Sequence[str], cells: Sequence[Sequence[str]], right: Sequence[bool]
    ) -> Layout:
        # Of what is still to come nothing is known but that it may be wider.
        least = LIVE_COLUMN if self._at_once else 1
        return layout(self._screen, names, cells, right, least)


def _text(value: Any) -> str:
    return NULL if value is None else printable(plain(value))


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
