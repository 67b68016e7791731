"""CREATE TABLE: from words to what `create_table` takes.

    CREATE TABLE [IF NOT EXISTS] name (column type [NOT NULL] [PRIMARY KEY NOT ENFORCED] [COMMENT '...'], ...,
        PRIMARY KEY (...) NOT ENFORCED)
    [USING provider] [COMMENT '...'] [PARTITIONED BY (...)] [DISTRIBUTED BY (...) INTO n BUCKETS]
    [WITH | TBLPROPERTIES | OPTIONS (...)]

Clauses after the columns come in any order. What cannot be kept is refused.
"""

from dataclasses import dataclass, field

import pyarrow as pa

from lsmerge import arrow_field
from lsmerge.statements.properties import PROVIDERS, read_properties, sorted_out
from lsmerge.statements.tokens import Name, Words


@dataclass(frozen=True, slots=True)
class Definition:
    """A table to be made."""

    name: Name
    schema: pa.Schema
    primary_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    options: dict[str, str]
    if_not_exists: bool
    comment: str | None


@dataclass(frozen=True, slots=True)
class ColumnClause:
    """One column as it is declared."""

    name: str
    type: str
    nullable: bool
    comment: str | None
    is_key: bool

    @property
    def field(self) -> pa.Field:
        return arrow_field(self.name, self.type, self.nullable, comment=self.comment)


@dataclass
class _Parts:
    """What the clauses said so far."""

    columns: list[pa.Field] = field(default_factory=list)
    primary_key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)
    comment: str | None = None


def read_create(words: Words) -> Definition:
    """The definition that follows CREATE."""
    if words.take("OR", "REPLACE"):
        words.deny("OR REPLACE is not available: DROP TABLE first")
    kind = words.take_one_of(
        "TEMPORARY", "EXTERNAL", "DATABASE", "SCHEMA", "CATALOG", "VIEW", "FUNCTION"
    )
    if kind is not None:
        words.deny(f"CREATE {kind} is not available; CREATE TABLE makes a table in the warehouse")
    words.expect("TABLE")
    if_not_exists = words.take("IF", "NOT", "EXISTS")
    name = words.name("a table")
    parts = _Parts()
    if words.take("."):
        words.deny("a warehouse has no databases; name the table alone")
    _refuse_select(words)
    words.in_parentheses(lambda: _column_or_key(words, parts))
    while not words.is_over:
        _refuse_select(words)
        _clause(words, parts)
    properties = sorted_out(words, parts.properties)
    if parts.primary_key and properties.primary_key not in ((), parts.primary_key):
        words.deny("the primary key is given twice")
    return Definition(
        name,
        pa.schema(parts.columns),
        parts.primary_key or properties.primary_key,
        parts.partition_by,
        properties.options,
        if_not_exists,
        parts.comment if parts.comment is not None else properties.comment,
    )


def read_column(words: Words) -> ColumnClause:
    """One column: its name, its type, and what follows."""
    name = words.name("a column")
    with words.statement.locating(words.offset):
        written = words.type_text()
        arrow_field(name.text, written)
    nullable, is_key, comment = True, False, None
    while True:
        if words.take("NOT", "NULL"):
            nullable = False
        elif words.take("PRIMARY", "KEY"):
            is_key = True
            _enforcement(words)
        elif words.take("COMMENT"):
            comment = words.text("a comment")
        elif not words.take("NULL"):
            break
    _refuse_other_constraints(words, name)
    return ColumnClause(name.text, written, nullable, comment, is_key)


def _column_or_key(words: Words, parts: _Parts) -> None:
    if words.take("CONSTRAINT"):
        words.name("a constraint")
        words.expect("PRIMARY", "KEY")
        _key_clause(words, parts)
    elif words.take("PRIMARY", "KEY"):
        _key_clause(words, parts)
    elif words.take("WATERMARK"):
        words.deny("WATERMARK is not available: tables have no watermarks; leave it out")
    else:
        column = read_column(words)
        parts.columns.append(column.field)
        if column.is_key:
            _set_key(words, parts, (column.name,))


def _key_clause(words: Words, parts: _Parts) -> None:
    _set_key(words, parts, _names(words))
    _enforcement(words)


def _set_key(words: Words, parts: _Parts, names: tuple[str, ...]) -> None:
    if parts.primary_key:
        words.deny("the primary key is given twice")
    parts.primary_key = names


def _enforcement(words: Words) -> None:
    """Keys are unique because rows are merged; nobody is asked to enforce anything."""
    if not words.take("NOT", "ENFORCED"):
        words.take("ENFORCED")


def _refuse_other_constraints(words: Words, name: Name) -> None:
    if words.take("DEFAULT"):
        words.deny(
            f"DEFAULT is not available; the option 'fields.{name}.default-value' is what is read instead of null"
        )
    word = words.take_one_of("UNIQUE", "CHECK", "REFERENCES", "GENERATED", "METADATA", "AS")
    if word is not None:
        words.deny(f"column {name.text!r}: {word} is not available")


def _refuse_select(words: Words) -> None:
    if words.take("AS"):
        words.deny(
            "CREATE TABLE ... AS is not available: create the table, then INSERT INTO ... SELECT"
        )


def _clause(words: Words, parts: _Parts) -> None:
    if words.take("COMMENT"):
        parts.comment = words.text("a comment")
    elif words.take("PARTITIONED", "BY"):
        parts.partition_by = tuple(words.in_parentheses(lambda: _partition_column(words, parts)))
    elif words.take("DISTRIBUTED", "BY") or words.take("CLUSTERED", "BY"):
        _buckets(words, parts)
    elif words.take_one_of("WITH", "TBLPROPERTIES", "OPTIONS"):
        parts.properties |= read_properties(words)
    elif words.take("USING"):
        provider = words.name("a provider")
        if provider.text.lower() not in PROVIDERS:
            raise words.statement.error(
                provider.offset, f"USING {provider}: known are {', '.join(PROVIDERS)}"
            )
    elif words.take("LOCATION"):
        words.deny("LOCATION is not available: tables lie in the warehouse of the session")
    else:
        words.refuse(
            "expected COMMENT, PARTITIONED BY, DISTRIBUTED BY, USING, WITH or TBLPROPERTIES"
        )


def _partition_column(words: Words, parts: _Parts) -> str:
    """A column of the table; Hive's DDL declares it here."""
    name = words.name("a partition column")
    if words.take(",") or words.take(")"):
        words.back()
        return name.text
    words.back()
    column = read_column(words)
    parts.columns.append(column.field)
    return column.name


def _buckets(words: Words, parts: _Parts) -> None:
    words.take("HASH")
    parts.properties["bucket-key"] = ",".join(_names(words))
    words.expect("INTO")
    parts.properties["bucket"] = words.value("a number of buckets")
    words.expect("BUCKETS")


def _names(words: Words) -> tuple[str, ...]:
    return tuple(words.in_parentheses(lambda: words.name("a column").text))
