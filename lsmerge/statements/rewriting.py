"""What Flink and Spark write and DuckDB says otherwise: constructors, types, and rows inside arrays.

Each function takes one node of a tree and returns what stands in its place; `rewritten` applies them all.
"""

from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp

TypeOf = Callable[[exp.Expr], pa.DataType | None]


def rewritten(tree: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """The tree as DuckDB understands it; `type_of` knows the types of columns."""

    def replace(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Bracket):
            return _map_constructor(node)
        if isinstance(node, exp.DataType):
            return _nullable_fields(node)
        if isinstance(node, exp.Unnest):
            return _expanded(node, type_of)
        return node

    return tree.transform(replace, copy=False)


def _map_constructor(node: exp.Bracket) -> exp.Expr:
    """MAP['a', 1, 'b', 2] as two lists."""
    if not isinstance(node.this, exp.Column) or node.this.sql().upper() != "MAP":
        return node
    entries = node.expressions
    lists = [exp.Array(expressions=entries[start::2]) for start in (0, 1)]
    return exp.Anonymous(this="MAP", expressions=lists)


def _nullable_fields(node: exp.DataType) -> exp.DataType:
    """DuckDB's structs have no NOT NULL."""
    for field in node.expressions:
        if isinstance(field, exp.ColumnDef):
            field.set("constraints", None)
    return node


def _expanded(node: exp.Unnest, type_of: TypeOf) -> exp.Expr:
    """UNNEST of rows gives a column for each field, that of a map one for keys and one for values."""
    alias = node.args.get("alias")
    names = alias.columns if alias else []
    if len(node.expressions) != 1 or node.args.get("offset"):
        return node
    [operand] = node.expressions
    operand_type = type_of(operand)
    if operand_type is not None and pa.types.is_map(operand_type):
        operand = exp.Anonymous(this="MAP_ENTRIES", expressions=[operand])
    elif len(names) < 2 and not _holds_rows(operand_type):
        return node
    depth = exp.PropertyEQ(this=exp.to_identifier("max_depth"), expression=exp.Literal.number(2))
    fields = exp.Anonymous(this="UNNEST", expressions=[operand.copy(), depth])
    return exp.Lateral(this=exp.Subquery(this=exp.Select(expressions=[fields])), alias=alias)


def _holds_rows(operand_type: pa.DataType | None) -> bool:
    return (
        operand_type is not None
        and pa.types.is_list(operand_type)
        and pa.types.is_struct(operand_type.value_type)
    )
