"""Random rows of one key, from a few values of every type: what a merger is tried on."""

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from lsmerge.env import Env
from lsmerge.mergers import Record
from lsmerge.rowkind import RowKind
from lsmerge.schema import TableSchema
from lsmerge.types import LogicalType

MAX_ROWS = 5
INSTANT = datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.UTC)

Rows = tuple[Record, ...]


class SampleRows:
    """Random rows of one key, and simpler ones."""

    def __init__(
        self,
        schema: TableSchema,
        values: Mapping[str, Sequence[Any]],
        seed: int,
        *,
        ordering: tuple[str, ...],
        deletes: bool,
    ) -> None:
        self._ordering = ordering
        self._random = Env.seeded(seed).random
        self._kinds = [RowKind.INSERT] * 3 + [RowKind.DELETE] * deletes
        self._values: dict[str, list[Any]] = {}
        for column in schema.columns:
            found = list(values.get(column.name, ())) or _values_of(column.type)
            is_open = column.nullable and column.name not in values
            self._values[column.name] = [*found, None] if is_open else found
            if column.name in schema.primary_key:
                del self._values[column.name][1:]

    def rows(self) -> Rows:
        """Some rows of one key."""
        return tuple(self._row() for _ in range(self._random.randint(2, MAX_ROWS)))

    def simpler(self, rows: Rows) -> Iterator[Rows]:
        """The same with a row less, an insert more, or a simpler value."""
        if len(rows) > 2:
            yield from (rows[:i] + rows[i + 1 :] for i in range(len(rows)))
        for i, row in enumerate(rows):
            for other in self._simpler_rows(row):
                yield (*rows[:i], other, *rows[i + 1 :])

    def _simpler_rows(self, row: Record) -> Iterator[Record]:
        if row.is_delete:
            yield Record(dict(row), RowKind.INSERT, self._ordering)
        for name, values in self._values.items():
            for value in values[: _position(values, row[name])]:
                yield Record({**row, name: value}, row.row_kind, self._ordering)

    def _row(self) -> Record:
        kind = self._random.choice(self._kinds)
        values = {name: self._random.choice(values) for name, values in self._values.items()}
        return Record(values, kind, self._ordering)


def _position(values: Sequence[Any], value: Any) -> int:
    return next(i for i, other in enumerate(values) if repr(other) == repr(value))


def _values_of(logical: LogicalType) -> list[Any]:
    """A few values, simplest first; among them such as round, repeat and are empty."""
    if logical.kind == "ARRAY":
        elements = _values_of(logical.children[0].type)
        return [[], elements[:1], elements[:2], elements[1:3]]
    if logical.kind == "MAP":
        keys, items = (_values_of(child.type) for child in logical.children)
        return [
            [],
            list(zip(keys[:1], items, strict=False)),
            list(zip(keys[:2], items[1:], strict=False)),
        ]
    if logical.kind == "ROW":
        pools = [_values_of(child.type) for child in logical.children]
        names = [child.name for child in logical.children]
        return [{n: p[i % len(p)] for n, p in zip(names, pools, strict=True)} for i in range(3)]
    return _SCALARS[logical.kind](logical)


def _decimals(logical: LogicalType) -> list[Any]:
    _, scale = logical.params
    return [Decimal(number).scaleb(-scale) for number in (0, 1, -1, 5, 9)]


def _texts(logical: LogicalType) -> list[Any]:
    limit = logical.params[0] if logical.params else MAX_ROWS
    return [text for text in ("", "a", "b", "ab", "zoë") if len(text) <= limit]


def _bytes(logical: LogicalType) -> list[Any]:
    if logical.kind == "BINARY":
        return [bytes([byte]) * logical.params[0] for byte in range(3)]
    limit = logical.params[0] if logical.params else MAX_ROWS
    return [some for some in (b"", b"a", b"b", b"ab") if len(some) <= limit]


def _times(logical: LogicalType) -> list[Any]:
    moments = [INSTANT + datetime.timedelta(hours=hours) for hours in (0, 1, 25)]
    if logical.kind == "DATE":
        return [moment.date() for moment in (*moments, INSTANT + datetime.timedelta(days=400))]
    if logical.kind == "TIME":
        return [moment.time() for moment in moments[:2]]
    return moments if logical.kind == "TIMESTAMP_LTZ" else [m.replace(tzinfo=None) for m in moments]


_SCALARS: Mapping[str, Callable[[LogicalType], list[Any]]] = {
    "BOOLEAN": lambda _logical: [False, True],
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), lambda _logical: [0, 1, -1, 2, 3, 7]),
    **dict.fromkeys(("FLOAT", "DOUBLE"), lambda _logical: [0.0, 1.0, -1.0, 0.5, 0.1, 0.2, 3e7]),
    "DECIMAL": _decimals,
    **dict.fromkeys(("CHAR", "VARCHAR", "STRING"), _texts),
    **dict.fromkeys(("BINARY", "VARBINARY", "BYTES"), _bytes),
    **dict.fromkeys(("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"), _times),
}
