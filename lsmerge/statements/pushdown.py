"""What a query lets a scan leave out: columns that it does not name, and rows that its WHERE cannot keep.

DuckDB evaluates every condition once more, so a scan may give too much and never too little. Two rules follow:

- A column is read if its name occurs anywhere in the statement, or if a star, a natural join or the like may mean it.
- A condition is pushed if lsmerge and DuckDB cannot disagree on it: types that compare exactly, and literals of the
  column's own kind. Behind an outer join it must also be false for nulls: a row that is left out may otherwise come
  back as one of nulls.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)?", re.ASCII)
_OPERATORS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.EQ: ("=", "="),
    exp.NEQ: ("!=", "!="),
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
    exp.GT: (">", "<"),
    exp.GTE: (">=", "<="),
}
# What is nested deeper or longer is not pushed: filters of scans have such limits too.
MAX_DEPTH = 20
MAX_TESTS = 500
# Joins whose partners depend on which rows there are.
_DEPENDENT_JOINS = ("ASOF", "POSITIONAL")


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a scan is asked for; None where nothing can be left out."""

    columns: list[str] | None
    filter: str | None


@dataclass(frozen=True, slots=True)
class _Test:
    text: str
    rejects_null: bool
    depth: int = 0  # of brackets
    size: int = 1  # of tests inside


Schemas = Mapping[int, pa.Schema]


def pushed(tree: exp.Expr, node: exp.Table, schemas: Schemas) -> Pushed:
    """What can be left out of the table that `node` stands for in the query `tree`.

    `schemas` holds, by the id of their nodes, the columns of all tables of the query.
    """
    select, schema = _select_of(node), schemas[id(node)]
    if select is None or _is_reshaped(node):
        return Pushed(None, None)
    columns = None if _takes_all(select, node) else _named(tree, schema)
    return Pushed(columns, _filter(select, _own_columns(select, node, schemas)))


def _select_of(node: exp.Table) -> exp.Select | None:
    """The SELECT that has the table in its FROM or in one of its joins."""
    if not isinstance(node.parent, exp.From | exp.Join):
        return None
    above = node.parent.parent
    return above if isinstance(above, exp.Select) else None


def _is_reshaped(node: exp.Table) -> bool:
    alias = node.args.get("alias")
    return bool(node.args.get("pivots") or node.args.get("sample") or (alias and alias.columns))


# ----------------------------------------------------------------------------------------- columns


def _takes_all(select: exp.Select, node: exp.Table) -> bool:
    stars = (star for star in select.find_all(exp.Star) if not isinstance(star.parent, exp.Count))
    return (
        any(star.find_ancestor(exp.Select) is select for star in stars)
        or select.find(exp.Columns) is not None
        or any(join.method == "NATURAL" for join in _joins(select))
        or any(
            not c.table and _same(c.name, node.alias_or_name) for c in select.find_all(exp.Column)
        )
    )


def _named(tree: exp.Expr, schema: pa.Schema) -> list[str]:
    names = {identifier.name.lower() for identifier in tree.find_all(exp.Identifier)}
    # A query that only counts rows names no column.
    return [name for name in schema.names if name.lower() in names] or schema.names[:1]


# ----------------------------------------------------------------------------------------- filters


def _filter(select: exp.Select, columns: "_Columns") -> str | None:
    where = select.args.get("where")
    joins = _joins(select)
    if where is None or any(join.method in _DEPENDENT_JOINS for join in joins):
        return None
    is_inner = not any(join.side for join in joins)
    tests = [_test(part, columns) for part in _conjuncts(where.this)]
    kept = [test for test in tests if test and (is_inner or test.rejects_null)]
    if not kept or sum(test.size for test in kept) > MAX_TESTS:
        return None
    return " and ".join(test.text for test in kept)


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns that belong to one table, whatever way the query names them."""

    alias: str
    types: Mapping[str, tuple[str, pa.DataType]]
    bare: frozenset[str]

    def find(self, node: exp.Expr) -> tuple[str, pa.DataType] | None:
        """Name and type, if the node is one of the columns for sure."""
        if not isinstance(node, exp.Column) or node.args.get("db"):
            return None
        name = node.name.lower()
        is_own = _same(node.table, self.alias) if node.table else name in self.bare
        return self.types.get(name) if is_own else None


def _own_columns(select: exp.Select, node: exp.Table, schemas: Schemas) -> _Columns:
    types = {field.name.lower(): (field.name, field.type) for field in schemas[id(node)]}
    others = [source for source in _sources(select) if source is not node]
    bare = set(types) if all(id(source) in schemas for source in others) else set()
    for other in others:
        bare -= {name.lower() for name in schemas[id(other)].names} if bare else set()
    return _Columns(node.alias_or_name, types, frozenset(bare))


def _sources(select: exp.Select) -> list[exp.Expr]:
    """All that gives the names in a WHERE their meaning."""
    joined = [join.this for join in _joins(select)]
    return [select.args["from_"].this, *joined, *(select.args.get("laterals") or ())]


def _conjuncts(condition: exp.Expr) -> Iterable[exp.Expr]:
    plain = condition.unnest()
    return plain.flatten() if isinstance(plain, exp.And) else [plain]


def _test(node: exp.Expr, columns: _Columns) -> _Test | None:
    node = node.unnest()
    if isinstance(node, exp.And | exp.Or):
        return _joined(node, columns)
    if isinstance(node, exp.Not):
        return _negated(node.this.unnest(), columns)
    if isinstance(node, exp.Between):
        return _between(node, columns)
    if isinstance(node, exp.In):
        return _in(node, columns, "in")
    if isinstance(node, exp.Is):
        return _is_null(node, columns)
    return _comparison(node, columns)


def _joined(node: exp.And | exp.Or, columns: _Columns) -> _Test | None:
    tests = []
    for part in node.flatten():  # a chain of any length is one level
        test = _test(part, columns)
        if test is None or test.depth == MAX_DEPTH:
            return None
        tests.append(test)
    word, several = ("and", any) if isinstance(node, exp.And) else ("or", all)
    text = f" {word} ".join(test.text for test in tests)
    depth, size = 1 + max(test.depth for test in tests), sum(test.size for test in tests)
    return _Test(f"({text})", several(test.rejects_null for test in tests), depth, size)


def _negated(inner: exp.Expr, columns: _Columns) -> _Test | None:
    """Only negations that stay false for null."""
    if isinstance(inner, exp.Is):
        test = _is_null(inner, columns)
        return _Test(f"not {test.text}", True) if test else None
    return _in(inner, columns, "not in") if isinstance(inner, exp.In) else None


def _comparison(node: exp.Expr, columns: _Columns) -> _Test | None:
    if not isinstance(node, exp.Binary) or type(node) not in _OPERATORS:
        return None
    forward, backward = _OPERATORS[type(node)]
    sides = ((node.left, forward, node.right), (node.right, backward, node.left))
    for side, operator, other in sides:
        column = columns.find(side)
        if column is not None:
            literal = _literal(other, column[1])
            return _Test(f"{_name(column[0])} {operator} {literal}", True) if literal else None
    return None


def _between(node: exp.Between, columns: _Columns) -> _Test | None:
    column = columns.find(node.this)
    if column is None or node.args.get("symmetric"):
        return None
    low, high = (_literal(node.args[end], column[1]) for end in ("low", "high"))
    if low is None or high is None:
        return None
    return _Test(f"{_name(column[0])} between {low} and {high}", True)


def _in(node: exp.In, columns: _Columns, word: str) -> _Test | None:
    column = columns.find(node.this)
    if column is None or node.args.get("query") or not node.expressions:
        return None
    literals = [_literal(item, column[1]) for item in node.expressions]
    if None in literals:
        return None
    return _Test(f"{_name(column[0])} {word} ({', '.join(filter(None, literals))})", True)


def _is_null(node: exp.Is, columns: _Columns) -> _Test | None:
    column = columns.find(node.this)
    if column is None or not isinstance(node.expression, exp.Null):
        return None
    return _Test(f"{_name(column[0])} is null", False)


def _literal(node: exp.Expr, arrow: pa.DataType) -> str | None:
    """A literal as lsmerge's filters spell it, if it is of the column's kind."""
    node = node.unnest()
    if isinstance(node, exp.Boolean) and pa.types.is_boolean(arrow):
        return str(node.this).lower()
    if isinstance(node, exp.HexString) and pa.types.is_binary(arrow):
        return f"X'{node.name}'"
    if pa.types.is_integer(arrow) or pa.types.is_decimal(arrow):
        return _number(node)
    text = _text(node, arrow)
    return None if text is None else "'" + text.replace("'", "''") + "'"


def _number(node: exp.Expr) -> str | None:
    if isinstance(node, exp.Neg):
        inner = _number(node.this)
        return None if inner is None else f"-{inner}"
    # What has an exponent is a float to DuckDB.
    is_plain = isinstance(node, exp.Literal) and re.fullmatch(
        r"[0-9]{1,30}(\.[0-9]{0,8})?", node.name
    )
    return node.name if is_plain and not node.is_string else None


def _text(node: exp.Expr, arrow: pa.DataType) -> str | None:
    if pa.types.is_string(arrow):
        return node.name if _is_text(node) else None
    if pa.types.is_date(arrow):
        return _matching(_uncast(node, ("DATE",)), _DATE)
    if pa.types.is_timestamp(arrow) and arrow.tz is None:
        return _matching(_uncast(node, ("TIMESTAMP", "DATETIME")), _TIMESTAMP)
    return None


def _uncast(node: exp.Expr, kinds: Sequence[str]) -> exp.Expr:
    """The text inside DATE '...' or CAST('...' AS DATE)."""
    is_plain_cast = isinstance(node, exp.Cast) and not node.to.expressions
    inner: exp.Expr = node.this if is_plain_cast and node.args["to"].this.name in kinds else node
    return inner


def _matching(node: exp.Expr, pattern: re.Pattern[str]) -> str | None:
    return node.name if _is_text(node) and pattern.fullmatch(node.name) else None


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and node.is_string


def _joins(select: exp.Select) -> list[exp.Join]:
    return list(select.args.get("joins") or ())


def _name(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"


def _same(one: str, other: str) -> bool:
    return one.lower() == other.lower()
