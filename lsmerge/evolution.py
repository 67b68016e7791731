"""Changes of a schema: from one checked schema and what a user asks for to the next one. Pure.

Columns keep their ids, so no file is rewritten. Refused is what old files could not be read with (keys that sort
otherwise, narrower types), what would change the meaning of stored rows (columns that options name, fixed
options), and names that are taken.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from lsmerge.column_options import (
    columns_named,
    is_about,
    options_of,
    renamed,
    without_column,
)
from lsmerge.errors import InvalidOptionError, SchemaMismatchError
from lsmerge.field_options import (
    FUNCTION_NAMES,
    default_function,
    field_options,
    sequence_groups,
)
from lsmerge.merge_mode import DELETE_FLAG, MODE
from lsmerge.options import find, resolve
from lsmerge.schema import Column, TableSchema, arrow_field, column_of
from lsmerge.type_parser import parse
from lsmerge.types import INTEGER_KINDS, LogicalType, from_arrow
from lsmerge.widening import is_wider, wider_types

_AFTER = "after:"


@dataclass(frozen=True)
class SchemaChange:
    """What to change. `drop`, `rename`, `widen` and `nullable` go by present names, the others by new ones."""

    add: Mapping[str, Any] = field(default_factory=dict)
    drop: Sequence[str] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    widen: Mapping[str, Any] = field(default_factory=dict)
    nullable: Sequence[str] = ()
    move: Mapping[str, str] = field(default_factory=dict)
    comments: Mapping[str, str | None] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    reset: Sequence[str] = ()
    comment: str | None = None  # of the table: None leaves it, empty text takes it away


def evolve(schema: TableSchema, change: SchemaChange) -> TableSchema:
    """The next schema; the same value if the change asks for what is there already."""
    _check_shape(change)
    _check_present(schema, change)
    columns = [_changed(schema, c, change) for c in schema.columns if c.name not in change.drop]
    added = [
        _added(name, wanted, schema.next_column_id + number)
        for number, (name, wanted) in enumerate(change.add.items())
    ]
    columns = _commented(_moved([*columns, *added], change.move), change.comments)
    evolved = replace(
        schema,
        columns=tuple(columns),
        options=_options(schema, change),
        next_column_id=schema.next_column_id + len(added),
        comment=schema.comment if change.comment is None else change.comment or None,
    )
    return evolved if evolved == schema else replace(evolved, id=schema.id + 1)


def _check_shape(change: SchemaChange) -> None:
    for what in ("drop", "nullable", "reset"):
        value = getattr(change, what)
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise SchemaMismatchError(f"{what} = {value!r}: give a list of names")
        for name in value:
            if not isinstance(name, str):
                raise SchemaMismatchError(f"{what}: {name!r}: give names as text")
    for what in ("add", "rename", "widen", "move", "comments"):
        value = getattr(change, what)
        if not isinstance(value, Mapping):
            raise SchemaMismatchError(f"{what} = {value!r}: give a mapping by column name")
        for name in value:
            if not isinstance(name, str):
                raise SchemaMismatchError(f"{what}: column {name!r}: give names as text")


def _check_present(schema: TableSchema, change: SchemaChange) -> None:
    """What is changed is there, once, and may be changed."""
    for verb, names in (
        ("dropped", change.drop),
        ("renamed", change.rename),
        ("widened", change.widen),
    ):
        for name in names:
            schema.column(name)
            _check_free(schema, name, verb)
            _check_flag(schema, name, verb)
    for name in change.drop:
        _check_droppable(schema, change, name)
    for name in change.nullable:
        schema.column(name)
        if name in schema.primary_key:
            raise SchemaMismatchError(f"column {name!r} is part of the key, which is never null")


def _check_free(schema: TableSchema, name: str, verb: str) -> None:
    for what, names in (("partition", schema.partition_by), ("primary key", schema.primary_key)):
        if name in names:
            raise SchemaMismatchError(
                f"column {name!r} cannot be {verb}: it is a {what} column, by which files are placed "
                "and sorted; write the rows to a new table"
            )


def _check_flag(schema: TableSchema, name: str, verb: str) -> None:
    """The column that marks deletes has its meaning by its name."""
    if name == DELETE_FLAG and MODE in schema.options:
        raise SchemaMismatchError(
            f"column {name!r} cannot be {verb}: rows are written as deletes by it; write the rows to a new table"
        )


def _check_droppable(schema: TableSchema, change: SchemaChange, name: str) -> None:
    if name in change.rename or name in change.widen or name in change.nullable:
        raise SchemaMismatchError(f"column {name!r} is dropped and changed at once; choose one")
    naming = options_of(name, schema.options)
    if naming:
        raise SchemaMismatchError(
            f"column {name!r} cannot be dropped: option {naming[0]!r} = "
            f"{schema.options[naming[0]]!r} gives it a meaning for rows that are stored"
        )


def _changed(schema: TableSchema, column: Column, change: SchemaChange) -> Column:
    if column.name in change.widen:
        column = replace(column, type=_widened(column, change.widen[column.name]))
        _check_computed(column, schema)
    if column.name in change.nullable:
        column = replace(column, nullable=True)
    return replace(column, name=_text("rename", change.rename.get(column.name, column.name)))


def _check_computed(column: Column, schema: TableSchema) -> None:
    """A total that was rounded or wrapped in the narrow type would depend on what was compacted before."""
    own = field_options(schema)[column.name]
    takes_default = schema.options.get("merge-engine") == "aggregation" or any(
        column.name in group.members for group in sequence_groups(schema)
    )
    name = own.function or (default_function(schema.options) if takes_default else None)
    is_whole = column.type.kind in INTEGER_KINDS
    is_exact = name in ("sum", "count") and (
        column.type.kind == "DECIMAL" or (is_whole and own.on_overflow != "wrap")
    )
    computes = name in ("sum", "count", "product") or name not in FUNCTION_NAMES
    if name is not None and computes and not is_exact:
        raise SchemaMismatchError(
            f"column {column.name!r} cannot be widened: its function {name!r} has rounded or wrapped stored values "
            "to the present type; write the rows to a new table"
        )


def _widened(column: Column, wanted: Any) -> LogicalType:
    new = _named(column.name, lambda: _logical(wanted))
    if new != column.type and not is_wider(column.type, new):
        raise SchemaMismatchError(
            f"column {column.name!r} cannot be changed from {column.type} to {new}: "
            f"stored values may not fit; {wider_types(column.type)}"
        )
    return new


def _logical(wanted: Any) -> LogicalType:
    if isinstance(wanted, str):
        return parse(wanted)
    if isinstance(wanted, pa.DataType):
        return from_arrow(wanted)
    raise SchemaMismatchError(f"{wanted!r}: give a pyarrow type, or a type's name such as 'BIGINT'")


def _added(name: str, wanted: Any, column_id: int) -> Column:
    if isinstance(wanted, pa.Field):
        column = column_of(wanted.with_name(name), column_id, in_key=False)
    else:
        logical = _named(name, lambda: _logical(wanted))
        column = column_of(arrow_field(name, logical), column_id, in_key=False)
    if not column.nullable:
        raise SchemaMismatchError(
            f"column {name!r} cannot be added as NOT NULL: rows that are there have no value; add it "
            "nullable, with a default through options={'fields." + name + ".default-value': ...}"
        )
    return column


def _named(name: str, logical: Callable[[], LogicalType]) -> LogicalType:
    try:
        return logical()
    except SchemaMismatchError as error:
        raise SchemaMismatchError(f"column {name!r}: {error.args[0]}") from error


def _moved(columns: list[Column], move: Mapping[str, str]) -> list[Column]:
    for name, place in move.items():
        column = columns.pop(_index(columns, name))
        if place == "first":
            columns.insert(0, column)
        elif isinstance(place, str) and place.startswith(_AFTER):
            neighbour = place.removeprefix(_AFTER)
            if neighbour == name:
                raise SchemaMismatchError(f"move {name!r} to {place!r}: name another column")
            columns.insert(_index(columns, neighbour) + 1, column)
        else:
            raise SchemaMismatchError(
                f"move {name!r} to {place!r}: give 'first', or 'after:' and a column's name"
            )
    return columns


def _commented(columns: list[Column], comments: Mapping[str, str | None]) -> list[Column]:
    for name, comment in comments.items():
        position = _index(columns, name)
        text = None if comment is None else _text("comment", comment)
        columns[position] = replace(columns[position], comment=text)
    return columns


def _index(columns: list[Column], name: str) -> int:
    names = [column.name for column in columns]
    if name not in names:
        raise SchemaMismatchError(f"unknown column {name!r}; after this change there are: {names}")
    return names.index(name)


def _text(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise SchemaMismatchError(f"{what} = {value!r}: give text")
    return value


def _options(schema: TableSchema, change: SchemaChange) -> dict[str, str]:
    options = dict(schema.options)
    for name in change.drop:
        options = without_column(name, options)
    options = renamed(options, change.rename)
    for name, value in resolve(change.options).items():
        _check_mutable(name, change)
        _check_members(name, value, schema)
        options[name] = value
    for spelled in change.reset:
        _, name = find(spelled)
        _check_mutable(name, change)
        options.pop(name, None)
    return options


def _check_members(name: str, value: str, schema: TableSchema) -> None:
    """A new sequence group may order new columns only: values that are stored have no place in its order."""
    for column in columns_named(name, value):
        if column in schema and not find(name)[0].mutable:
            raise InvalidOptionError(
                f"option {name!r} = {value!r} names column {column!r}, whose stored values it would hide; "
                "name columns that are added with it"
            )


def _check_mutable(name: str, change: SchemaChange) -> None:
    option, _ = find(name)
    if option.name == "bucket":
        raise InvalidOptionError(
            "option 'bucket' is fixed when the table is created, for partitions to come; rescale() splits those that "
            "are there into another number of buckets, and which kind of buckets a table has cannot be changed"
        )
    if not option.mutable and not is_about(name, change.add):
        raise InvalidOptionError(
            f"option {name!r} is fixed when the table is created: rows that are stored were merged by it; "
            "write the rows to a new table"
        )
