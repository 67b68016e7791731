"""The stores that are compared: one small adapter each, behind one protocol.

An adapter is made with an empty directory of its own. `prepare` turns Arrow rows into what the
store's own API takes, and `to_arrow` turns an answer into Arrow; neither is timed for the key-value
stores, which know no columns. Everything else is timed. Every write is one durable commit when it
returns, or the adapter's `note` says that the store cannot promise this.
"""

from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from bench.registry import entry


class Store(Protocol):
    """One table under test; opened on construction, with the key in the schema's first column."""

    note: str

    def prepare(self, rows: pa.Table) -> Any:
        """Rows in the form that `upsert` takes; not timed."""

    def upsert(self, rows: Any) -> None:
        """Inserts or replaces rows by key, in one commit."""

    def scan(self) -> Any:
        """Every visible row, in the store's own best bulk form."""

    def get(self, key: int) -> Any:
        """One row by key, or None."""

    def prepare_keys(self, keys: pa.Array) -> Any:
        """Keys in the form that `get_many` takes; not timed."""

    def get_many(self, keys: Any) -> Any:
        """The rows of the given keys, all of which exist."""

    def to_arrow(self, answer: Any) -> pa.Table:
        """An answer of `scan` or `get_many` as Arrow; not timed."""

    def compact(self) -> bool:
        """Full compaction; False if the store has none, or had nothing to do."""

    def reclaim(self) -> None:
        """Deletes files that only older versions need, before the size is taken; not timed."""

    def close(self) -> None: ...


def open_store(name: str, directory: Path, schema: pa.Schema) -> Store:
    """Imports the adapter and makes an empty table in `directory`."""
    module = import_module(entry(name).adapter)
    return module.open_store(name, directory, schema)
