"""The SQL examples of the documents, cut into statements with the output that each shows.

A file of `documents/` holds the examples of one page, each below a line `-- >>> title`. Output is drawn as a table,
bare or in comments, or told in a comment such as `-- output 1, 2, null`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lsmerge.statements.script import Statement, statements

FOLDER = Path(__file__).parent / "documents"
TITLE = re.compile(r"^-- >>> (.*)\n", re.MULTILINE)
TOLD = re.compile(r"\s*;\s*--\s*(?:output|输出)\s+(?P<values>[^\n]+)")
DRAWN = re.compile(r"(?:\s*;)?\s*(?:-- Output\n)?(?P<lines>(?:(?:-- )?[+|][^\n]*(?:\n|$))+)")


@dataclass(frozen=True)
class Example:
    page: str
    title: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}: {self.title}"


@dataclass(frozen=True)
class Shown:
    """Output as a document shows it: cells as text, without padding; None where no header is shown."""

    header: list[str] | None
    rows: list[list[str]]


def examples() -> Iterator[Example]:
    for path in sorted(FOLDER.glob("*.sql")):
        _, *parts = TITLE.split(path.read_text(encoding="utf-8"))
        for title, text in zip(parts[::2], parts[1::2], strict=True):
            yield Example(path.stem, title, text)


def shown_after(statement: Statement) -> Shown | None:
    """What the document shows behind a statement."""
    told = TOLD.match(statement.script, statement.end)
    if told:
        return Shown(None, [[value.strip() for value in told["values"].split(",")]])
    drawn = DRAWN.match(statement.script, statement.end)
    return from_drawing(drawn["lines"]) if drawn else None


def from_drawing(text: str) -> Shown:
    lines = [line.removeprefix("-- ").strip() for line in text.splitlines()]
    header, *rows = [_cells(line) for line in lines if line.startswith("|")]
    return Shown(header, rows)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


__all__ = ["Example", "Shown", "examples", "from_drawing", "shown_after", "statements"]
