"""What a logical type is, and the limits of each kind.

A logical type says what values mean and which are allowed. How it is spelled lives in
`type_parser`, how it is stored in `types`, which is the module to import from.
"""

import re
from dataclasses import dataclass

from lsmerge.errors import SchemaMismatchError

MAX_DECIMAL_PRECISION = 38
MAX_LENGTH = 2**31 - 1
MAX_NESTING = 64

INTEGER_KINDS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
FLOAT_KINDS = ("FLOAT", "DOUBLE")
TEXT_KINDS = ("CHAR", "VARCHAR", "STRING")
BYTES_KINDS = ("BINARY", "VARBINARY", "BYTES")
TIMESTAMP_KINDS = ("TIMESTAMP", "TIMESTAMP_LTZ")
NESTED_KINDS = ("ARRAY", "MAP", "ROW")
PLAIN_KINDS = ("BOOLEAN", *INTEGER_KINDS, *FLOAT_KINDS, "STRING", "BYTES", "DATE")

_BARE_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True)
class LogicalType:
    """A type such as `INT`, `DECIMAL(10,2)` or `ARRAY<STRING NOT NULL>`.

    `params` are the numbers in parentheses; `children` the element, the key and value, or the row's
    fields. Build one with `parse` or `from_arrow`; both check the limits of each kind.
    """

    kind: str
    params: tuple[int, ...] = ()
    children: tuple["TypeField", ...] = ()

    def __str__(self) -> str:
        if self.params:
            return f"{self.kind}({','.join(map(str, self.params))})"
        if self.kind == "ROW":
            return f"ROW<{', '.join(f'{quoted_name(c.name)} {c}' for c in self.children)}>"
        if self.children:
            return f"{self.kind}<{', '.join(map(str, self.children))}>"
        return self.kind

    @property
    def is_nested(self) -> bool:
        """Whether values contain other values."""
        return self.kind in NESTED_KINDS

    @property
    def depth(self) -> int:
        """How many nested types lie in each other; 0 of a scalar type."""
        return max((1 + child.type.depth for child in self.children), default=0)


@dataclass(frozen=True)
class TypeField:
    """A component of a nested type."""

    name: str
    type: LogicalType
    nullable: bool = True

    def __str__(self) -> str:
        return str(self.type) if self.nullable else f"{self.type} NOT NULL"


def quoted_name(name: str) -> str:
    """A field name as it stands in a type name."""
    return name if _BARE_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def is_key_type(logical: LogicalType) -> bool:
    """Whether values can be ordered and hashed: needed in keys, partitions and sequence fields."""
    return not logical.is_nested


LIMITS: dict[str, tuple[int, int]] = {
    "CHAR": (1, MAX_LENGTH),
    "VARCHAR": (1, MAX_LENGTH),
    "BINARY": (1, MAX_LENGTH),
    "VARBINARY": (1, MAX_LENGTH),
    "TIME": (0, 9),
    "TIMESTAMP": (0, 9),
    "TIMESTAMP_LTZ": (0, 9),
    "DECIMAL": (1, MAX_DECIMAL_PRECISION),
}


def checked(logical: LogicalType, text: str) -> LogicalType:
    """The type itself if it keeps the limits of its kind; `text` is what the user wrote."""
    if logical.kind in LIMITS:
        low, high = LIMITS[logical.kind]
        if not low <= logical.params[0] <= high:
            raise SchemaMismatchError(
                f"type {text}: {logical.kind} takes {low} to {high}, not {logical.params[0]}"
            )
    if logical.kind == "DECIMAL" and not 0 <= logical.params[1] <= logical.params[0]:
        raise SchemaMismatchError(
            f"type {text}: the scale must lie between 0 and the precision {logical.params[0]}, "
            f"not be {logical.params[1]}"
        )
    if logical.kind == "ROW":
        _check_row(logical, text)
    return logical


def _check_row(logical: LogicalType, text: str) -> None:
    names = [child.name for child in logical.children]
    if not names:
        raise SchemaMismatchError(f"type {text}: a ROW needs at least one field")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SchemaMismatchError(f"type {text}: field {twice[0]!r} appears twice in a ROW")
