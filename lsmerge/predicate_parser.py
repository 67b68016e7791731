"""Filters as text: `k >= 5 and (v = 'a' or v is null) and name in ('x', 'y') and not b`.

    or      := and ("or" and)*
    and     := not ("and" not)*
    not     := "not" not | test
    test    := "(" or ")" | operand [operator operand | [not] in (...) | [not] between ... | is ...]
    operand := column | literal

Columns are words, or anything in "double quotes" or `backquotes`. Literals are numbers, 'text',
X'hex', true, false and null. Nesting is limited, so hostile text cannot exhaust the stack.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from lsmerge.condition import FLIPPED, And, Comparison, Condition, In, IsNull, Not, Or
from lsmerge.errors import InvalidFilterError

MAX_DEPTH = 100

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,6})?(?!\w))
  | (?P<hex>[xX]'[0-9a-fA-F]*')
  | (?P<text>'(?:[^']|'')*')
  | (?P<quoted>"(?:[^"]|"")+"|`(?:[^`]|``)+`)
  | (?P<word>[^\W\d]\w*(?:\.[^\W\d]\w*)*)
  | (?P<symbol><=|>=|<>|!=|==|[=<>(),])
    )""",
    re.VERBOSE,
)
_KEYWORDS = frozenset({"and", "or", "not", "in", "is", "null", "between", "true", "false"})
_OPERATORS = {
    "==": "=",
    "<>": "!=",
    **{symbol: symbol for symbol in ("=", "!=", "<", "<=", ">", ">=")},
}
_WORD_VALUES: dict[str, object] = {"true": True, "false": False, "null": None}


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    position: int


@dataclass(frozen=True)
class _Column:
    name: str


@dataclass(frozen=True)
class _Literal:
    value: Any


def parse_text(text: str) -> Condition:
    """The condition that a text stands for, not yet bound."""
    return _Parser(text).whole()


def _tokens(text: str) -> list[_Token]:
    tokens, position = [], 0
    end = len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise InvalidFilterError(
                f"filter {text[:200]!r}: cannot read {text[position:][:20]!r} at {position}"
            )
        kind, found = match.lastgroup, match.group(match.lastgroup)
        if kind == "word" and found.lower() in _KEYWORDS:
            kind, found = "keyword", found.lower()
        tokens.append(_Token(kind, found, match.start(match.lastgroup)))
        position = match.end()
    tokens.append(_Token("end", "the end", end))
    return tokens


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._next = 0
        self._depth = 0

    def whole(self) -> Condition:
        condition = self._or()
        if self._peek.kind != "end":
            raise self._error("expected AND, OR or the end")
        return condition

    def _or(self) -> Condition:
        parts = self._list(self._and, "or")
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _and(self) -> Condition:
        parts = self._list(self._not, "and")
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _list(self, part: Callable[[], Condition], separator: str) -> list[Condition]:
        parts = [part()]
        while self._take(separator):
            parts.append(part())
        return parts

    def _not(self) -> Condition:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(f"more than {MAX_DEPTH} levels of nesting")
        condition = Not(self._not()) if self._take("not") else self._test()
        self._depth -= 1
        return condition

    def _test(self) -> Condition:
        if self._take("("):
            condition = self._or()
            self._expect(")")
            return condition
        left = self._operand()
        if self._peek.text in _OPERATORS and self._peek.kind == "symbol":
            return self._comparison(left, _OPERATORS[self._advance().text])
        if isinstance(left, _Literal):
            raise self._error("expected a comparison after a literal")
        return self._column_test(left.name)

    def _comparison(self, left: _Column | _Literal, operator: str) -> Condition:
        right = self._operand()
        if isinstance(left, _Column) and isinstance(right, _Literal):
            return Comparison(left.name, operator, right.value)
        if isinstance(left, _Literal) and isinstance(right, _Column):
            return Comparison(right.name, FLIPPED[operator], left.value)
        raise self._error("a comparison needs a column on one side and a literal on the other")

    def _column_test(self, column: str) -> Condition:
        if self._take("is"):
            negated = self._take("not")
            self._expect("null")
            return Not(IsNull(column)) if negated else IsNull(column)
        negated = self._take("not")
        if self._take("in"):
            test: Condition = In(column, self._values())
        elif self._take("between"):
            low = self._literal()
            self._expect("and")
            parts = (Comparison(column, ">=", low), Comparison(column, "<=", self._literal()))
            test = And(parts)
        elif negated:
            raise self._error("expected IN or BETWEEN after NOT")
        else:
            test = Comparison(column, "=", True)
        return Not(test) if negated else test

    def _values(self) -> tuple[Any, ...]:
        self._expect("(")
        values = [self._literal()]
        while self._take(","):
            values.append(self._literal())
        self._expect(")")
        return tuple(values)

    def _literal(self) -> Any:
        operand = self._operand()
        if isinstance(operand, _Column):
            raise self._error(
                f"expected a literal, found column {operand.name!r}; put text in 'quotes'"
            )
        return operand.value

    def _operand(self) -> _Column | _Literal:
        token = self._advance()
        if token.kind == "word":
            return _Column(token.text)
        if token.kind == "quoted":
            quote = token.text[0]
            return _Column(token.text[1:-1].replace(quote * 2, quote))
        if token.kind == "number":
            return _Literal(_number(token.text))
        if token.kind == "text":
            return _Literal(token.text[1:-1].replace("''", "'"))
        if token.kind == "hex":
            return _Literal(self._bytes(token.text[2:-1]))
        if token.text in _WORD_VALUES and token.kind == "keyword":
            return _Literal(_WORD_VALUES[token.text])
        self._next -= 1
        raise self._error("expected a column or a literal")

    def _bytes(self, digits: str) -> bytes:
        if len(digits) % 2:
            raise self._error(f"X'{digits}' needs two digits per byte")
        return bytes.fromhex(digits)

    @property
    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _advance(self) -> _Token:
        token = self._peek
        self._next += token.kind != "end"
        if token.kind == "end":
            raise self._error("it ends too early")
        return token

    def _take(self, text: str) -> bool:
        found = self._peek.text == text and self._peek.kind in ("keyword", "symbol")
        self._next += found
        return found

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise self._error(f"expected {text.upper()!r}")

    def _error(self, reason: str) -> InvalidFilterError:
        token = self._peek
        return InvalidFilterError(
            f"filter {self._text[:200]!r}: {reason}; at {token.position}: {token.text[:20]!r}"
        )


def _number(text: str) -> int | Decimal:
    # Python refuses to convert thousands of digits to int; Decimal takes them.
    return int(text) if re.fullmatch(r"[+-]?\d{1,40}", text) else Decimal(text)
