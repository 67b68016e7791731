"""A statement word by word, for definitions: sqlglot's tokens, read from left to right.

Every refusal names the line and column of the word that was met.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NoReturn, TypeVar

from sqlglot.tokenizer_core import TokenType

from lsmerge.statements.dialect import tokens_of
from lsmerge.statements.script import Statement

T = TypeVar("T")

_CLOSING = {"(": ")", "<": ">"}


@dataclass(frozen=True, slots=True)
class Word:
    """One word or sign, and where it begins and ends in the statement."""

    text: str
    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Name:
    """A name as the user spelled it."""

    text: str
    offset: int

    def __str__(self) -> str:
        return self.text


class Words:
    """The words of a statement, taken one after the other."""

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        self._words = _words(statement)
        self._next = 0

    @property
    def offset(self) -> int:
        """Where the next word begins."""
        return self._peek().start

    def take(self, *words: str) -> bool:
        """Whether these words come next; they are passed if so."""
        following = self._words[self._next : self._next + len(words)]
        found = [word.text.upper() for word in following if word.kind == "word"] == list(words)
        self._next += len(words) if found else 0
        return found

    def expect(self, *words: str) -> None:
        """Pass these words, which must come next."""
        if not self.take(*words):
            self.refuse(f"expected {' '.join(words)}")

    def back(self) -> None:
        """Return to the word before."""
        self._next -= 1

    def take_one_of(self, *choices: str) -> str | None:
        """The first of these words if it comes next."""
        return next((choice for choice in choices if self.take(choice)), None)

    def name(self, what: str) -> Name:
        """A name, bare or quoted."""
        word = self._peek()
        if word.kind not in ("word", "name") or not (word.kind == "name" or _is_bare(word.text)):
            self.refuse(f"expected the name of {what}")
        self._next += 1
        return Name(word.text, word.start)

    def text(self, what: str) -> str:
        """What stands in single quotes."""
        word = self._peek()
        if word.kind != "text":
            self.refuse(f"expected {what} in 'quotes'")
        self._next += 1
        return word.text

    def value(self, what: str) -> str:
        """Quoted text, a number or a single word, as text."""
        sign = "-" if self.take("-") else ""
        word = self._peek()
        if word.kind not in ("text", "word", "name"):
            self.refuse(f"expected {what}")
        self._next += 1
        return sign + word.text

    def in_parentheses(self, read: Callable[[], T]) -> list[T]:
        """One or more things between parentheses, separated by commas."""
        self.expect("(")
        found = [read()]
        while self.take(","):
            found.append(read())
        self.expect(")")
        return found

    def type_text(self) -> str:
        """A type name with all that belongs to it, as it was written."""
        first = self._peek()
        if first.kind != "word" or not _is_bare(first.text):
            self.refuse("expected a type")
        self._next += 1
        for opening in _CLOSING:
            if self.take(opening):
                self._skip_to_closing(opening)
        written = self.statement.text[first.start : self._words[self._next - 1].end]
        return self._zoned(written)

    def remaining(self) -> Statement:
        """What has not been read, as a statement of its own."""
        whole = self.statement
        return replace(whole, start=whole.start + self.offset)

    @property
    def is_over(self) -> bool:
        return self._peek().kind == "end"

    def expect_end(self) -> None:
        """Nothing may be left over."""
        if not self.is_over:
            self.refuse("expected the end of the statement")

    def refuse(self, reason: str) -> NoReturn:
        """Raise what is wrong with the next word."""
        word = self._peek()
        met = "the statement ends" if word.kind == "end" else f"found {word.text!r}"
        raise self.statement.error(word.start, f"{reason}, {met}")

    def deny(self, reason: str) -> NoReturn:
        """Raise what is wrong with the word that was taken last."""
        raise self.statement.error(self._words[self._next - 1].start, reason)

    def _peek(self) -> Word:
        return self._words[self._next]

    def _zoned(self, written: str) -> str:
        """TIMESTAMP(3) WITH LOCAL TIME ZONE in one word."""
        if self.take("WITH", "LOCAL", "TIME", "ZONE"):
            return written.upper().replace("TIMESTAMP", "TIMESTAMP_LTZ", 1)
        self.take("WITHOUT", "TIME", "ZONE")
        return written

    def _skip_to_closing(self, opening: str) -> None:
        depth = 1
        while depth:
            word = self._peek()
            if word.kind == "end":
                self.refuse(f"expected {_CLOSING[opening]}")
            depth += (word.text == opening) - (word.text == _CLOSING[opening])
            self._next += 1


def _words(statement: Statement) -> list[Word]:
    """Single words; sqlglot joins some that often stand together."""
    found: list[Word] = []
    for token in tokens_of(statement):
        written = statement.text[token.start : token.end + 1]
        if token.token_type is TokenType.STRING:
            found.append(Word(token.text, "text", token.start, token.end + 1))
        elif token.token_type is TokenType.IDENTIFIER:
            found.append(Word(token.text, "name", token.start, token.end + 1))
        else:
            found += _split(written, token.start)
    found.append(Word("", "end", len(statement.text.rstrip()), len(statement.text)))
    return found


def _split(written: str, start: int) -> list[Word]:
    found: list[Word] = []
    for part in written.split():
        at = written.index(part, found[-1].end - start if found else 0) + start
        found.append(Word(part, "word", at, at + len(part)))
    return found


def _is_bare(text: str) -> bool:
    return text.replace("$", "_").isidentifier()
