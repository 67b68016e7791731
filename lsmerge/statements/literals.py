"""VALUES with the types of the columns they are for.

A literal is read as a value of its column, not as what DuckDB would guess: its text is cast to the column's type, so
0.1 in a DOUBLE column is the float nearest to the text, and a TIMESTAMP literal keeps nine digits if the column does.
Rows of such literals alone are handed over as columns of text, which is what makes many rows bearable; rows with
anything else (ROW, ARRAY and MAP constructors, computed values) stay SQL.
"""

import re
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
from sqlglot import exp

from lsmerge import SchemaMismatchError
from lsmerge.statements.dialect import offset_of
from lsmerge.statements.duckdb_types import duckdb_type
from lsmerge.statements.script import Statement

_FRACTION = re.compile(r":\d\d\.(?P<digits>\d+)", re.ASCII)
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_MOMENTS = ("DATE", "TIME", "TIMESTAMP", "DATETIME", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ")


def check_rows(statement: Statement, values: exp.Values, targets: list[pa.Field]) -> None:
    """Refuse rows of VALUES with too many or too few values, or with times that would be cut."""
    for row in values.expressions:
        cells = cells_of(row)
        if len(cells) != len(targets):
            names = ", ".join(field.name for field in targets)
            message = f"{len(cells)} values for {len(targets)} columns ({names})"
            raise statement.error(offset_of(row), message)
        for cell, field in zip(cells, targets, strict=True):
            if pa.types.is_temporal(field.type):
                _check_moment(statement, cell, field)


def text_table(values: exp.Values, targets: list[pa.Field]) -> pa.Table | None:
    """The rows as columns of text, to be cast to the targets' types; None if there is more than plain literals."""
    columns: list[list[str | None]] = [[] for _ in targets]
    for row in values.expressions:
        for cell, field, column in zip(cells_of(row), targets, columns, strict=True):
            text = _exact_text(cell, field.type)
            if text is None and not _is_null(cell):
                return None
            column.append(text)
    names = [field.name for field in targets]
    return pa.table([pa.array(column, pa.string()) for column in columns], names=names)


def typed_rows(values: exp.Values, targets: list[pa.Field]) -> exp.Values:
    """The rows as SQL, with casts wherever a literal stands."""
    rows = [
        exp.Tuple(
            expressions=[
                _typed(cell, field.type) for cell, field in zip(cells_of(row), targets, strict=True)
            ]
        )
        for row in values.expressions
    ]
    return exp.Values(expressions=rows)


def cells_of(row: exp.Expr) -> list[exp.Expr]:
    """The values of one row; one value needs no parentheses."""
    return row.expressions if isinstance(row, exp.Tuple) else [row]


def _check_moment(statement: Statement, cell: exp.Expr, field: pa.Field) -> None:
    text = _moment(cell) or ""
    fraction = _FRACTION.search(text)
    digits = _DIGITS.get(getattr(field.type, "unit", ""), 0)
    excess = None
    if fraction and len(fraction["digits"].rstrip("0")) > digits:
        excess = f"holds {digits} digits of a second, {text!r} has more"
    elif pa.types.is_date(field.type) and ":" in text:
        excess = f"holds dates, {text!r} has a time"
    if excess is not None:
        message = f"column {field.name!r} {excess}"
        raise SchemaMismatchError(statement.located(offset_of(cell), message))


# ------------------------------------------------------------------------------------ single values


def _exact_text(node: exp.Expr, target: pa.DataType) -> str | None:
    """What DuckDB casts to exactly the value of a literal; None if it is no literal of the type."""
    for is_target, read in _READERS:
        if is_target(target):
            return read(node.unnest(), target)
    return None


def _integer(node: exp.Expr, _target: pa.DataType) -> str | None:
    text = _number(node)
    return text if text is not None and text.lstrip("-").isdigit() else None


def _float(node: exp.Expr, _target: pa.DataType) -> str | None:
    return _number(node)


def _decimal(node: exp.Expr, target: pa.DataType) -> str | None:
    text = _number(node)
    if text is None:
        return None
    exponent = Decimal(text).normalize().as_tuple().exponent
    return f"{Decimal(text):f}" if isinstance(exponent, int) and -exponent <= target.scale else None


def _boolean(node: exp.Expr, _target: pa.DataType) -> str | None:
    return str(node.this).lower() if isinstance(node, exp.Boolean) else None


def _string(node: exp.Expr, _target: pa.DataType) -> str | None:
    return node.name if isinstance(node, exp.Literal) and node.is_string else None


def _bytes(node: exp.Expr, _target: pa.DataType) -> str | None:
    if not isinstance(node, exp.HexString) or len(node.name) % 2:
        return None
    return "".join(f"\\x{byte:02X}" for byte in bytes.fromhex(node.name))


def _moment(node: exp.Expr, _target: pa.DataType | None = None) -> str | None:
    """The text of '...' and of DATE '...', TIME '...', TIMESTAMP '...'."""
    if isinstance(node, exp.Cast) and node.to.this.name in _MOMENTS:
        node = node.this
    return node.name if isinstance(node, exp.Literal) and node.is_string else None


def _number(node: exp.Expr) -> str | None:
    if isinstance(node, exp.Neg):
        inner = _number(node.this)
        return None if inner is None else f"-{inner}"
    return node.name if isinstance(node, exp.Literal) and not node.is_string else None


def _is_binary(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_binary(arrow) or pa.types.is_fixed_size_binary(arrow))


_READERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[..., str | None]], ...] = (
    (pa.types.is_integer, _integer),
    (pa.types.is_floating, _float),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_boolean, _boolean),
    (pa.types.is_string, _string),
    (_is_binary, _bytes),
    (pa.types.is_temporal, _moment),
)


def _is_null(node: exp.Expr) -> bool:
    plain = node.unnest()
    return isinstance(plain, exp.Null) or (
        isinstance(plain, exp.Cast) and isinstance(plain.this, exp.Null)
    )


# --------------------------------------------------------------------------------------------- SQL


def _typed(node: exp.Expr, target: pa.DataType) -> exp.Expr:
    if _is_null(node):
        return _cast(exp.Null(), target)
    text = _exact_text(node, target)
    if text is not None:
        return _cast(exp.Literal.string(text), target)
    return _constructed(node.unnest(), target) if pa.types.is_nested(target) else node


def _constructed(node: exp.Expr, target: pa.DataType) -> exp.Expr:
    """ARRAY[...], MAP[...] and ROW(...) with the types of their parts."""
    if isinstance(node, exp.Array) and pa.types.is_list(target):
        items = [_typed(item, target.value_type) for item in node.expressions]
        return exp.Array(expressions=items)
    if _is_map(node) and pa.types.is_map(target):
        kinds = (target.key_type, target.item_type)
        items = [_typed(item, kinds[number % 2]) for number, item in enumerate(node.expressions)]
        node.set("expressions", items)
        return node
    if _is_row(node) and pa.types.is_struct(target) and len(node.expressions) == target.num_fields:
        items = [
            _typed(item, target.field(number).type) for number, item in enumerate(node.expressions)
        ]
        return exp.Anonymous(this="ROW", expressions=items)
    return node


def _is_map(node: exp.Expr) -> bool:
    return isinstance(node, exp.Bracket) and node.this.sql().upper() == "MAP"


def _is_row(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() == "ROW"


def _cast(node: exp.Expr, target: pa.DataType) -> exp.Expr:
    # sqlglot does not know all of DuckDB's types, and need not: the name is handed on as it is.
    named = exp.DataType(this=exp.DType.USERDEFINED, kind=duckdb_type(target))
    return exp.Cast(this=node, to=named)
