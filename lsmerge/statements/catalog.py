"""The tables of a session: directories side by side in a warehouse.

Names are those of directories. A name that differs from one table's in case alone means that table.
"""

from collections.abc import Mapping
from typing import Any

from lsmerge import (
    InvalidStatementError,
    Table,
    TableExistsError,
    TableNotFoundError,
    create_table,
    drop_table,
    list_tables,
    open_table,
)
from lsmerge.statements.definition import Definition
from lsmerge.statements.script import Statement
from lsmerge.statements.tokens import Name


class Catalog:
    """Opens, makes and drops the tables of one warehouse; tables stay open until the catalog is closed."""

    def __init__(self, warehouse: Any, storage_options: Mapping[str, str] | None) -> None:
        place = warehouse.__fspath__() if hasattr(warehouse, "__fspath__") else warehouse
        self.uri = str(place).rstrip("/")
        self._storage_options = storage_options
        self._open: dict[str, Table] = {}

    def names(self) -> list[str]:
        """The tables there are."""
        return list_tables(self.uri, storage_options=self._storage_options)

    def table(self, statement: Statement, name: Name) -> Table:
        """The table of that name; an unknown one is refused with the nearest."""
        found = self.find(statement, name)
        if found is None:
            known = self.names()
            message = (
                f"no table {name.text!r} in {self.uri}; {TableNotFoundError.hint(name.text, known)}"
            )
            raise TableNotFoundError(statement.located(name.offset, message))
        return found

    def find(self, statement: Statement, name: Name) -> Table | None:
        """The table of that name, if there is one."""
        _check(statement, name)
        if name.text not in self._open:
            found = self._opened(name.text) or self._opened_in_any_case(name.text)
            if found is None:
                return None
            self._open[name.text] = found
        return self._open[name.text]

    def create(self, statement: Statement, definition: Definition) -> None:
        """Make a table."""
        name = definition.name
        if self.find(statement, name) is not None:
            if definition.if_not_exists:
                return
            message = f"table {name.text!r} is there already; DROP TABLE it, or say IF NOT EXISTS"
            raise TableExistsError(statement.located(name.offset, message))
        if not definition.primary_key:
            raise statement.error(
                name.offset, f"table {name.text!r} has no key: add PRIMARY KEY (...) NOT ENFORCED"
            )
        with statement.locating(name.offset):
            create_table(
                self._uri(name.text),
                definition.schema,
                definition.primary_key,
                partition_by=definition.partition_by,
                options=definition.options,
                comment=definition.comment,
                storage_options=self._storage_options,
            ).close()

    def drop(self, statement: Statement, name: Name) -> None:
        """Delete a table and all that it holds."""
        table = self.table(statement, name)
        uri = table.uri
        for spelled in [key for key, opened in self._open.items() if opened.uri == uri]:
            self._open.pop(spelled).close()
        drop_table(uri, storage_options=self._storage_options)

    def clear(self) -> None:
        """Delete all tables. Requires: they are closed, and nobody else's."""
        for name in self.names():
            drop_table(self._uri(name), storage_options=self._storage_options)

    def close(self) -> None:
        """Close the tables that were opened."""
        while self._open:
            self._open.popitem()[1].close()

    def _uri(self, name: str) -> str:
        return f"{self.uri}/{name}"

    def _opened(self, name: str) -> Table | None:
        try:
            return open_table(self._uri(name), storage_options=self._storage_options)
        except TableNotFoundError:
            return None

    def _opened_in_any_case(self, name: str) -> Table | None:
        spelled = [known for known in self.names() if known.lower() == name.lower()]
        return self._opened(spelled[0]) if len(spelled) == 1 else None


def _check(statement: Statement, name: Name) -> None:
    if not name.text or name.text.startswith(".") or set(name.text) & set("/\\$\0"):
        raise InvalidStatementError(
            statement.located(name.offset, f"{name.text!r} cannot be the name of a table")
        )
