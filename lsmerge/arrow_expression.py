"""A pyarrow expression as a condition of ours, so that it can prune: what readers of datasets push down.

Arrow offers no way to look into an expression but its text, which is not made to be read back. So the text is only a
guess: the same expression is built anew from what was read, and only if Arrow finds the two equal is the condition
used. Whatever cannot be read, or is not equal, gives None, and the expression is evaluated on merged rows instead.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from lsmerge.condition import And, Comparison, Condition, In, IsNull, Not, Or, bind
from lsmerge.errors import InvalidFilterError
from lsmerge.predicate import MAX_TESTS, Predicate
from lsmerge.schema import TableSchema

# Longer texts than this are lists of thousands of values; reading them costs more than it saves.
MAX_TEXT = 100_000
MAX_DEPTH = 100

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<text>"(?:[^"\\]|\\.)*")
  | (?P<symbol>==|!=|<=|>=|[<>(),\[\]{}])
  | (?P<word>[^\s"()<>,\[\]{}=!]+(?:\s(?!and\s|or\s)[^\s"()<>,\[\]{}=!]+)*=?)
    )""",
    re.VERBOSE,
)
_OPERATORS = {"==": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_FUNCTIONS = {
    "==": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
# Arrow's text of these is exact, and so is reading it.
_EXACT = (
    pa.types.is_integer,
    pa.types.is_string,
    pa.types.is_boolean,
    pa.types.is_date32,
    pa.types.is_timestamp,
    pa.types.is_decimal,
)


@dataclass(frozen=True)
class _Read:
    """What a piece of text was read as: the condition, and the expression it would be the text of."""

    condition: Condition
    expression: Any


Literal: TypeAlias = Callable[[pa.DataType, str], pa.Scalar]


class _UnreadableError(ValueError):
    """The text is none that is understood here."""


def predicate_of(expression: Any, schema: TableSchema) -> Predicate | None:
    """The same as a bound predicate, null for null; None if that cannot be made sure."""
    text = str(expression)
    if len(text) > MAX_TEXT or text.count("(") > MAX_TESTS:
        return None
    for literal in (_of_column_type, _of_default_type):
        try:
            read = _Reader(text, schema.row_schema, literal).whole()
            if read.expression.equals(expression):
                return Predicate(_bound(read.condition, schema))
        except (_UnreadableError, InvalidFilterError, pa.ArrowException):
            continue
    return None


def _of_column_type(type_: pa.DataType, text: str) -> pa.Scalar:
    """What DuckDB sends: it gives literals the types of their columns."""
    if not any(is_exact(type_) for is_exact in _EXACT):
        raise _UnreadableError(text)
    value = _unquoted(text) if pa.types.is_string(type_) else text
    return pa.scalar(value, pa.string()).cast(type_)


def _of_default_type(type_: pa.DataType, text: str) -> pa.Scalar:
    """What users write: `field("k") > 5` is a comparison with an int64, whatever the column is."""
    return _of_column_type(pa.int64() if pa.types.is_integer(type_) else type_, text)


def _unquoted(text: str) -> str:
    """A text literal without its quotes; escapes beyond the two common ones are not guessed at."""
    if not text.startswith('"') or re.search(r'\\[^"\\]', text.replace("\\\\", "")):
        raise _UnreadableError(text)
    return re.sub(r"\\(.)", r"\1", text[1:-1])


def _bound(condition: Condition, schema: TableSchema) -> Condition:
    """Literals of the columns' types stay as they are; others are placed among the values of their column."""
    if isinstance(condition, And | Or):
        return type(condition)(tuple(_bound(part, schema) for part in condition.parts))
    if isinstance(condition, Not):
        return Not(_bound(condition.part, schema))
    if isinstance(condition, Comparison):
        own_type = schema.row_schema.field(condition.column).type
        if condition.value.type != own_type:
            return bind(
                Comparison(condition.column, condition.operator, condition.value.as_py()), schema
            )
    return condition


class _Reader:
    """A recursive descent through the text; positions in the text are all it keeps."""

    def __init__(self, text: str, schema: pa.Schema, literal: Literal) -> None:
        self._text = text
        self._schema = schema
        self._literal = literal
        self._position = 0
        self._depth = 0

    def whole(self) -> _Read:
        read = self._node()
        if self._text[self._position :].strip():
            raise _UnreadableError(self._text)
        return read

    def _node(self) -> _Read:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _UnreadableError("nested too deeply")
        token = self._next()
        readers = {
            "(": self._pair,
            "invert": self._invert,
            "is_valid": self._is_valid,
            "is_null": self._is_null,
            "is_in": self._is_in,
            "if_else": self._in_or_null,
        }
        if token not in readers:
            raise _UnreadableError(token)
        read = readers[token]()
        self._depth -= 1
        return read

    def _pair(self) -> _Read:
        """`(a and b)`, `(a or b)` or `(column operator literal)`; the bracket was read."""
        start = self._position
        name, operator = self._next(), self._next()
        if operator in _OPERATORS and name in self._schema.names:
            return self._comparison(name, operator)
        self._position = start
        left, word, right = self._node(), self._next(), self._node()
        self._expect(")")
        if word == "and":
            both = And((left.condition, right.condition))
            return _Read(both, left.expression & right.expression)
        if word == "or":
            either = Or((left.condition, right.condition))
            return _Read(either, left.expression | right.expression)
        raise _UnreadableError(word)

    def _comparison(self, name: str, operator: str) -> _Read:
        import pyarrow.compute as pc

        value = self._value(name, self._next())
        self._expect(")")
        expression = getattr(pc, _FUNCTIONS[operator])(pc.field(name), value)
        return _Read(Comparison(name, _OPERATORS[operator], value), expression)

    def _value(self, name: str, text: str) -> pa.Scalar:
        value = self._literal(self._schema.field(name).type, text)
        if not value.is_valid:
            raise _UnreadableError(text)
        return value

    def _invert(self) -> _Read:
        self._expect("(")
        inner = self._node()
        self._expect(")")
        return _Read(Not(inner.condition), ~inner.expression)

    def _is_valid(self) -> _Read:
        name = self._bracketed_column()
        return _Read(Not(IsNull(name)), _field(name).is_valid())

    def _is_null(self) -> _Read:
        self._expect("(")
        name = self._column()
        for token in (",", "{", "nan_is_null=", "false", "}", ")"):
            self._expect(token)
        return _Read(IsNull(name), _field(name).is_null())

    def _is_in(self) -> _Read:
        """Arrow's own `is_in` is false for null."""
        read = self._membership()
        name = read.condition.column
        return _Read(And((read.condition, Not(IsNull(name)))), read.expression)

    def _in_or_null(self) -> _Read:
        """`if_else(is_valid(c), is_in(c, ...), null)`, as SQL wants it."""
        import pyarrow.compute as pc

        self._expect("(")
        self._expect("is_valid")
        is_valid = self._is_valid()
        for token in (",", "is_in"):
            self._expect(token)
        read = self._membership()
        for token in (",", "null", "[", "bool", "]", ")"):
            self._expect(token)
        unknown = pa.scalar(None, pa.bool_())
        return _Read(read.condition, pc.if_else(is_valid.expression, read.expression, unknown))

    def _membership(self) -> "_Membership":
        self._expect("(")
        name = self._column()
        for token in (",", "{", "value_set="):
            self._expect(token)
        while not self._next().endswith(":"):
            pass  # the type of the values, which equality checks
        self._expect("[")
        values = [self._value(name, self._next())]
        while (mark := self._next()) == ",":
            values.append(self._value(name, self._next()))
        if mark != "]":
            raise _UnreadableError(mark)
        for token in (",", "null_matching_behavior=", "MATCH", "}", ")"):
            self._expect(token)
        array = pa.array(values, values[0].type)
        return _Membership(In(name, array), _field(name).isin(array))

    def _bracketed_column(self) -> str:
        self._expect("(")
        name = self._column()
        self._expect(")")
        return name

    def _column(self) -> str:
        name = self._next()
        if name not in self._schema.names:
            raise _UnreadableError(name)
        return name

    def _next(self) -> str:
        match = _TOKEN.match(self._text, self._position)
        if match is None or match.lastgroup is None:
            raise _UnreadableError(self._text[self._position :][:20])
        self._position = match.end()
        return match[match.lastgroup]

    def _expect(self, token: str) -> None:
        if self._next() != token:
            raise _UnreadableError(token)


@dataclass(frozen=True)
class _Membership:
    condition: In
    expression: Any


def _field(name: str) -> Any:
    import pyarrow.compute as pc

    return pc.field(name)
