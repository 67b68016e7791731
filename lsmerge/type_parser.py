"""Type names: `DECIMAL(10,2)`, `array<row<id int32 not null, tag string>>`, SQL or Arrow spelling.

Invariant: `parse(str(t)) == t` for every logical type. Nesting is limited, so hostile text cannot
exhaust the stack.
"""

import re
from collections.abc import Iterator
from typing import NoReturn

from lsmerge.errors import SchemaMismatchError
from lsmerge.logical_type import (
    LIMITS,
    MAX_NESTING,
    NESTED_KINDS,
    PLAIN_KINDS,
    LogicalType,
    TypeField,
    checked,
)

_SPELLINGS: dict[str, str] = {
    "BOOL": "BOOLEAN",
    "BYTE": "TINYINT",
    "SHORT": "SMALLINT",
    "LONG": "BIGINT",
    "REAL": "FLOAT",
    "TEXT": "STRING",
    "TIMESTAMP_NTZ": "TIMESTAMP",
    "INT8": "TINYINT",
    "INT16": "SMALLINT",
    "INT32": "INT",
    "INTEGER": "INT",
    "INT64": "BIGINT",
    "FLOAT32": "FLOAT",
    "FLOAT64": "DOUBLE",
    "DECIMAL128": "DECIMAL",
    "NUMERIC": "DECIMAL",
    "UTF8": "STRING",
    "DATE32": "DATE",
    "LIST": "ARRAY",
    "STRUCT": "ROW",
}
# What a kind without parentheses means. `binary` follows Arrow (any length), not SQL (one byte).
_WITHOUT_PARAMS: dict[str, LogicalType] = {
    "DECIMAL": LogicalType("DECIMAL", (10, 0)),
    "CHAR": LogicalType("CHAR", (1,)),
    "VARCHAR": LogicalType("STRING"),
    "BINARY": LogicalType("BYTES"),
    "VARBINARY": LogicalType("BYTES"),
    "TIME": LogicalType("TIME", (0,)),
    "TIMESTAMP": LogicalType("TIMESTAMP", (6,)),
    "TIMESTAMP_LTZ": LogicalType("TIMESTAMP_LTZ", (6,)),
}
_TOKEN = re.compile(r"\s*(?:`(?:[^`]|``)*`|\w+|[<>(),:])")


_KNOWN = frozenset((*PLAIN_KINDS, *LIMITS, *NESTED_KINDS))


def _unknown(word: str, kind: str, params: int) -> str:
    """What is wrong with a type's name, or with how many numbers it is given."""
    if kind in _KNOWN:
        return f"{word.lower()} does not take {params} numbers"
    return f"{word.lower()} is not a type; {SchemaMismatchError.hint(word, _KNOWN)}"


def parse(text: str) -> LogicalType:
    """Read a type name, in any case, SQL or Arrow spelling."""
    field = _Parser(text).whole()
    if not field.nullable:
        raise SchemaMismatchError(f"type {text!r}: NOT NULL belongs to the column, not to its type")
    return field.type


def _tokens(text: str) -> Iterator[str]:
    position = 0
    end = len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise SchemaMismatchError(f"type {text!r}: cannot read {text[position:]!r}")
        yield match.group(0).strip()
        position = match.end()


class _Parser:
    """Recursive descent over `kind [(n [, m])] [<field, ...>] [NOT NULL | NULL]`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._next = 0
        self._depth = 0

    def whole(self) -> TypeField:
        field = self._field("")
        if self._next < len(self._tokens):
            self._fail(f"{self._tokens[self._next]!r} is left over")
        return field

    def _field(self, name: str) -> TypeField:
        self._depth += 1
        if self._depth > MAX_NESTING:
            self._fail(f"more than {MAX_NESTING} levels of nesting")
        logical = self._type()
        self._depth -= 1
        nullable = not self._take_word("NOT")
        if not self._take_word("NULL") and not nullable:
            self._fail("NOT must be followed by NULL")
        return TypeField(name, logical, nullable)

    def _type(self) -> LogicalType:
        word = self._take().upper()
        kind = _SPELLINGS.get(word, word)
        if kind in NESTED_KINDS:
            return checked(LogicalType(kind, (), self._children(kind)), self._text)
        params = self._params()
        if not params and kind in _WITHOUT_PARAMS:
            return _WITHOUT_PARAMS[kind]
        if kind == "DECIMAL" and len(params) == 1:
            params = (*params, 0)
        known = kind in LIMITS if params else kind in PLAIN_KINDS
        if not known or len(params) > (2 if kind == "DECIMAL" else 1):
            self._fail(_unknown(word, kind, len(params)))
        return checked(LogicalType(kind, params), self._text)

    def _params(self) -> tuple[int, ...]:
        if not self._take_word("("):
            return ()
        numbers = [self._number()]
        while self._take_word(","):
            numbers.append(self._number())
        self._expect(")")
        return tuple(numbers)

    def _children(self, kind: str) -> tuple[TypeField, ...]:
        self._expect("<")
        if kind == "ARRAY":
            children = [self._field("element")]
        elif kind == "MAP":
            key = self._field("key")
            self._expect(",")
            children = [TypeField("key", key.type, False), self._field("value")]
        else:
            children = [self._row_field()]
            while self._take_word(","):
                children.append(self._row_field())
        self._expect(">")
        return tuple(children)

    def _row_field(self) -> TypeField:
        name = self._take()
        if name[0] == "`":
            name = name[1:-1].replace("``", "`")
        self._take_word(":")
        return self._field(name)

    def _number(self) -> int:
        token = self._take()
        if not (token.isascii() and token.isdigit() and len(token) <= 10):
            self._fail(f"{token!r} is not a number")
        return int(token)

    def _take(self) -> str:
        if self._next == len(self._tokens):
            self._fail("it ends too early")
        self._next += 1
        return self._tokens[self._next - 1]

    def _take_word(self, word: str) -> bool:
        found = self._next < len(self._tokens) and self._tokens[self._next].upper() == word
        self._next += found
        return found

    def _expect(self, token: str) -> None:
        if not self._take_word(token):
            found = self._tokens[self._next] if self._next < len(self._tokens) else "the end"
            self._fail(f"expected {token!r}, found {found!r}")

    def _fail(self, reason: str) -> NoReturn:
        raise SchemaMismatchError(f"type {self._text!r}: {reason}")
