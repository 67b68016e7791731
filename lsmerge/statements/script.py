"""A text of several statements, cut at its semicolons; each knows its place in the whole.

Quotes and comments are never cut. A drawn table where a statement would begin is passed over, so that an example can be
pasted together with the output that its document shows.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lsmerge import (
    InvalidOptionError,
    InvalidStatementError,
    SchemaMismatchError,
    SnapshotNotFoundError,
    TableExistsError,
)
from lsmerge.statements.ways_out import for_sql

_PIECE = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<comment>--[^\n]*|/\*.*?\*/)
  | (?P<quoted>'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`)
  | (?P<unclosed>['"`]|/\*)
  | (?P<end>;)
  | (?P<other>[^\s;'"`/+-]+|[/+-])
    """,
    re.VERBOSE | re.DOTALL,
)
EXCERPT_LENGTH = 30
_VERB = re.compile(r"\w+|.", re.DOTALL)
_QUOTED = re.compile(r"'(?P<name>[^']+)'")
# What tables say of names and values that stand in a statement.
_REFUSALS = (InvalidOptionError, SchemaMismatchError, SnapshotNotFoundError, TableExistsError)
_DRAWN = re.compile(r"\+-[-+]*\+[ \t]*(?:\n[ \t]*[|+][^\n]*)*")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of `script`, from `start` to `end`; `is_ended` if a semicolon follows."""

    script: str
    start: int
    end: int
    is_ended: bool
    unclosed: int | None = None

    @property
    def text(self) -> str:
        return self.script[self.start : self.end]

    @property
    def verb(self) -> str:
        """The first word."""
        match = _VERB.match(self.script, self.start)
        assert match is not None, "a statement is not empty"
        return match[0].upper()

    def error(self, offset: int, message: str) -> InvalidStatementError:
        """The refusal of what stands at an offset of the statement."""
        return InvalidStatementError(self.located(offset, message))

    def located(self, offset: int, message: str) -> str:
        """A message with the line and column of an offset of the statement, counted in the whole script, and the text
        there.
        """
        before = self.script[: self.start + offset]
        line = before.count("\n") + 1
        column = len(before) - (before.rfind("\n") + 1) + 1
        return f"line {line}, column {column}: {message} (at: {self._excerpt(offset)})"

    def _excerpt(self, offset: int) -> str:
        """The beginning of what stands at an offset, with the quote before it."""
        offset -= offset > 0 and self.text[offset - 1] in "'\"`"
        rest = " ".join(self.text[offset : offset + 2 * EXCERPT_LENGTH].split())
        if not rest:
            return "the end"
        return rest if len(rest) <= EXCERPT_LENGTH else f"{rest[:EXCERPT_LENGTH]}..."

    @contextmanager
    def locating(self, offset: int) -> Iterator[None]:
        """Refusals that come from inside get the line and column of what they name, else of an offset."""
        try:
            yield
        except _REFUSALS as error:
            message = for_sql(error.args[0])
            about = _QUOTED.search(message)
            place = self.place_of(about["name"], offset) if about else offset
            raise type(error)(self.located(place, message)) from error

    def place_of(self, name: str, default: int = 0) -> int:
        """The offset at which a name or value first stands in the statement."""
        found = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", self.text, re.IGNORECASE)
        return found.start() if found else default

    def hints(self) -> Iterator[tuple[int, str]]:
        """Where each hint begins, and what it holds."""
        position = self.start
        while position < self.end:
            kind, after = _next_piece(self.script, position, is_start=False)
            piece = self.script[position:after]
            if kind == "comment" and piece.startswith("/*+"):
                yield position - self.start, piece[3:-2].strip()
            position = after


def statements(script: str) -> Iterator[Statement]:
    """The statements of a script, without what is empty."""
    start: int | None = None
    position = 0
    while position < len(script):
        kind, after = _next_piece(script, position, is_start=start is None)
        if kind == "unclosed":
            yield Statement(
                script, position if start is None else start, len(script), False, position
            )
            return
        if kind == "end":
            if start is not None:
                yield Statement(script, start, position, True)
            start = None
        elif kind in ("quoted", "other") and start is None:
            start = position
        position = after
    if start is not None:
        yield Statement(script, start, len(script), False)


def is_complete(script: str) -> bool:
    """Whether what was typed so far ends with a whole statement, or with nothing begun."""
    found = list(statements(script))
    return not found or found[-1].is_ended


def _next_piece(script: str, position: int, *, is_start: bool) -> tuple[str, int]:
    if is_start and (drawn := _DRAWN.match(script, position)):
        return "drawn", drawn.end()
    match = _PIECE.match(script, position)
    assert match is not None, "every character begins a piece"
    assert match.lastgroup is not None, "every piece has a name"
    return match.lastgroup, match.end()
