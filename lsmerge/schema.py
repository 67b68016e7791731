"""Table schema: columns with permanent ids, keys, partitions, options.

A schema is immutable; changing a table makes a new schema with the next id. A column keeps its id
through renames and moves, and an id is never given twice, so files of any age are read by id.

Three Arrow views of one schema:
- `arrow_schema`: what writers give and, where merging keeps to it, readers get; nullability as declared.
- `row_schema`: rows between ingest and the files. Only key columns are not null, because a retract
  may carry nothing but its key.
- `file_schema`: `row_schema` behind the system columns, as every run file has it. Files with rows that
  wrote some columns only end with one more system column: `targeted_file_schema`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import pyarrow as pa

from lsmerge.errors import SchemaMismatchError
from lsmerge.rowkind import KIND_COLUMN, SEQUENCE_COLUMN, SYSTEM_COLUMNS, WRITTEN_COLUMN
from lsmerge.types import LogicalType, from_arrow, is_key_type, parse, to_arrow

FIELD_ID_KEY = b"PARQUET:field_id"
TYPE_KEY = b"lsmerge:type"
COMMENT_KEY = b"comment"

SEQUENCE_FIELD_ID = 2147483646
KIND_FIELD_ID = 2147483645
WRITTEN_FIELD_ID = 2147483644
WRITTEN_FIELD = pa.field(
    WRITTEN_COLUMN, pa.binary(), metadata={FIELD_ID_KEY: str(WRITTEN_FIELD_ID).encode()}
)
FIRST_COLUMN_ID = 1
# Of nested types in each other; Arrow has 64 levels, of which a map takes two, and Parquet fewer.
MAX_DEPTH = 30

# Projections of a schema that are kept at hand.
_MAX_PROJECTIONS = 64
_RESERVED_NAMES = frozenset(name.lower() for name in SYSTEM_COLUMNS)


@dataclass(frozen=True)
class Column:
    """One column; `id` outlives its name and place."""

    id: int
    name: str
    type: LogicalType
    nullable: bool = True
    comment: str | None = None

    def arrow_field(self, *, nullable: bool) -> pa.Field:
        """The column in Arrow normal form; metadata holds its id and what the type cannot say."""
        return arrow_field(self.name, self.type, nullable, comment=self.comment, field_id=self.id)

    def to_json(self) -> dict[str, Any]:
        """The column as plain values."""
        plain = {
            "id": self.id,
            "name": self.name,
            "type": str(self.type),
            "nullable": self.nullable,
        }
        return plain if self.comment is None else {**plain, "comment": self.comment}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        """Inverse of `to_json`."""
        return cls(
            id=plain["id"],
            name=plain["name"],
            type=parse(plain["type"]),
            nullable=plain["nullable"],
            comment=plain.get("comment"),
        )


def arrow_field(
    name: str,
    logical: LogicalType | str,
    nullable: bool = True,
    *,
    comment: str | None = None,
    field_id: int | None = None,
) -> pa.Field:
    """An Arrow field with a logical type, also one Arrow does not know, such as `VARCHAR(5)`."""
    if isinstance(logical, str):
        logical = parse(logical)
    arrow = to_arrow(logical)
    metadata: dict[bytes, bytes] = {}
    if field_id is not None:
        metadata[FIELD_ID_KEY] = str(field_id).encode()
    if from_arrow(arrow) != logical:
        metadata[TYPE_KEY] = str(logical).encode()
    if comment is not None:
        metadata[COMMENT_KEY] = comment.encode()
    return pa.field(name, arrow, nullable, metadata or None)


@dataclass(frozen=True)
class TableSchema:
    """A checked schema: every instance satisfies the rules in `_check_schema`."""

    id: int
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    options: Mapping[str, str]
    next_column_id: int
    comment: str | None = None

    def __post_init__(self) -> None:
        _check_schema(self)

    @classmethod
    def from_arrow(
        cls,
        schema: Any,
        primary_key: str | Sequence[str],
        partition_by: str | Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> Self:
        """The first schema of a new table. Key columns become not null whatever `schema` says."""
        key = _names("primary_key", primary_key)
        columns = tuple(
            column_of(field, field_id, in_key=field.name in key)
            for field_id, field in enumerate(_arrow_schema_of(schema), FIRST_COLUMN_ID)
        )
        next_id = FIRST_COLUMN_ID + len(columns)
        partitions = _names("partition_by", partition_by)
        return cls(0, columns, key, partitions, dict(options or {}), next_id, comment or None)

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The table as it was declared."""
        return pa.schema([c.arrow_field(nullable=c.nullable) for c in self.columns])

    @cached_property
    def row_schema(self) -> pa.Schema:
        """Rows on their way into files: adds and retracts together."""
        return pa.schema(
            [c.arrow_field(nullable=c.name not in self.primary_key) for c in self.columns]
        )

    @cached_property
    def file_schema(self) -> pa.Schema:
        """System columns, then `row_schema`."""
        sequence = _system_field(SEQUENCE_COLUMN, pa.int64(), SEQUENCE_FIELD_ID)
        kind = _system_field(KIND_COLUMN, pa.int8(), KIND_FIELD_ID)
        return pa.schema([sequence, kind, *self.row_schema])

    def stored_fields(self, names: tuple[str, ...]) -> pa.Schema:
        """`targeted_file_schema` restricted to `names`; for the same ones mostly the same object."""
        found = self._stored_fields.get(names)
        if found is None:
            if len(self._stored_fields) >= _MAX_PROJECTIONS:
                self._stored_fields.clear()
            found = pa.schema([self.targeted_file_schema.field(name) for name in names])
            self._stored_fields[names] = found
        return found

    @cached_property
    def _stored_fields(self) -> dict[tuple[str, ...], pa.Schema]:
        return {}

    @cached_property
    def targeted_file_schema(self) -> pa.Schema:
        """`file_schema`, then which columns a row wrote: null for all of them."""
        return self.file_schema.append(WRITTEN_FIELD)

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """Names in table order."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def trimmed_key(self) -> tuple[str, ...]:
        """The primary key without partition columns: what identifies rows inside a partition."""
        return tuple(name for name in self.primary_key if name not in self.partition_by)

    @cached_property
    def fixed_columns(self) -> frozenset[str]:
        """Key and partition columns: equal in all rows of a key inside a partition."""
        return frozenset((*self.primary_key, *self.partition_by))

    @cached_property
    def is_cross_partition(self) -> bool:
        """Whether the key leaves open which partition a row is in, so that an update may move it."""
        return not set(self.partition_by) <= set(self.primary_key)

    @cached_property
    def _index_by_name(self) -> dict[str, int]:
        return {column.name: index for index, column in enumerate(self.columns)}

    def index(self, name: str) -> int:
        """Position of a column; an unknown name is refused with the nearest known one."""
        if name not in self._index_by_name:
            raise SchemaMismatchError(unknown_name("column", name, self.column_names))
        return self._index_by_name[name]

    def column(self, name: str) -> Column:
        """The column of that name; an unknown one is refused with the nearest known one."""
        return self.columns[self.index(name)]

    def __contains__(self, name: object) -> bool:
        return name in self._index_by_name

    def to_json(self) -> dict[str, Any]:
        """The schema as plain values, ready for a JSON file."""
        plain = {
            "id": self.id,
            "columns": [column.to_json() for column in self.columns],
            "primary_key": list(self.primary_key),
            "partition_by": list(self.partition_by),
            "options": dict(self.options),
            "next_column_id": self.next_column_id,
        }
        return plain if self.comment is None else {**plain, "comment": self.comment}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        """Inverse of `to_json`; a value of the wrong shape is refused."""
        try:
            return cls(
                id=plain["id"],
                columns=tuple(Column.from_json(column) for column in plain["columns"]),
                primary_key=tuple(plain["primary_key"]),
                partition_by=tuple(plain["partition_by"]),
                options=dict(plain["options"]),
                next_column_id=plain["next_column_id"],
                comment=plain.get("comment"),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise SchemaMismatchError(f"stored schema is malformed: {error!r}") from error


def unknown_name(
    what: str, name: object, known: Iterable[str], listed_in: str | None = None
) -> str:
    """The message for a name that is not known, with the nearest one that is, or else all, or where they are listed."""
    return f"unknown {what} {name!r}; {SchemaMismatchError.hint(name, known, listed_in)}"


def _system_field(name: str, arrow: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, arrow, False, {FIELD_ID_KEY: str(field_id).encode()})


def _names(what: str, names: str | Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        return (names,)
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise SchemaMismatchError(f"{what} = {names!r}: give a column's name, or a list of names")
    return tuple(names)


def _arrow_schema_of(schema: Any) -> pa.Schema:
    if isinstance(schema, pa.Schema):
        return schema
    if not hasattr(schema, "__arrow_c_schema__"):
        raise SchemaMismatchError(
            f"schema is a {type(schema).__name__}; "
            "pass a pyarrow.Schema or an object with __arrow_c_schema__"
        )
    try:
        return pa.schema(schema)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SchemaMismatchError(f"schema cannot be read as an Arrow schema: {error}") from error


def column_of(field: pa.Field, field_id: int, *, in_key: bool) -> Column:
    """The column that an Arrow field describes."""
    metadata = field.metadata or {}
    comment = metadata[COMMENT_KEY].decode("utf-8", "replace") if COMMENT_KEY in metadata else None
    try:
        logical = _logical_type_of(field.type, metadata.get(TYPE_KEY))
        _check_depth(logical)
    except SchemaMismatchError as error:
        raise SchemaMismatchError(f"column {field.name!r}: {error.args[0]}") from error
    return Column(field_id, field.name, logical, field.nullable and not in_key, comment)


def _logical_type_of(arrow: pa.DataType, named: bytes | None) -> LogicalType:
    """The type named in the metadata; if the field was cast since, what its Arrow type says."""
    inferred = from_arrow(arrow)
    if named is None:
        return inferred
    logical = parse(named.decode("utf-8", "replace"))
    return logical if to_arrow(logical) == to_arrow(inferred) else inferred


# ------------------------------------------------------------------------------------------ rules


def _check_depth(logical: LogicalType) -> None:
    if logical.depth > MAX_DEPTH:
        raise SchemaMismatchError(
            f"its types are nested {logical.depth} deep, and files hold at most {MAX_DEPTH}; "
            "flatten it, or keep it as text or bytes"
        )


def _check_schema(schema: TableSchema) -> None:
    _check_columns(schema)
    _check_name_list(schema, "primary key", schema.primary_key)
    _check_name_list(schema, "partition", schema.partition_by)
    if not isinstance(schema.comment, str | None):
        raise SchemaMismatchError(f"comment = {schema.comment!r}: give text")
    if not schema.primary_key:
        raise SchemaMismatchError("a table needs a primary key: name at least one column")
    if not schema.trimmed_key:
        raise SchemaMismatchError(
            f"primary key {list(schema.primary_key)} consists of partition columns only; "
            "a partition would hold one row: add a key column or partition by fewer columns"
        )
    for name in schema.primary_key:
        if schema.column(name).nullable:
            raise SchemaMismatchError(f"primary key column {name!r} must be NOT NULL")


def _check_columns(schema: TableSchema) -> None:
    seen: dict[str, str] = {}
    for column in schema.columns:
        folded = column.name.lower()
        if not column.name:
            raise SchemaMismatchError("a column name is empty")
        if folded in _RESERVED_NAMES:
            raise SchemaMismatchError(f"column name {column.name!r} is reserved for system columns")
        if folded in seen:
            raise SchemaMismatchError(
                f"column {column.name!r} appears twice (also as {seen[folded]!r}); "
                "names must differ in more than case"
            )
        seen[folded] = column.name
    ids = {column.id for column in schema.columns}
    if len(ids) < len(schema.columns) or any(i >= schema.next_column_id for i in ids):
        raise SchemaMismatchError(
            f"column ids {sorted(ids)} must be distinct and below {schema.next_column_id}"
        )


def _check_name_list(schema: TableSchema, what: str, names: tuple[str, ...]) -> None:
    for position, name in enumerate(names):
        if name not in schema:
            raise SchemaMismatchError(unknown_name(f"{what} column", name, schema.column_names))
        if name in names[:position]:
            raise SchemaMismatchError(f"{what} column {name!r} is listed twice")
        logical = schema.column(name).type
        if not is_key_type(logical):
            raise SchemaMismatchError(
                f"{what} column {name!r} has nested type {logical}; use a scalar type"
            )
