"""lsmerge through its public names."""

from pathlib import Path
from typing import Any

import pyarrow as pa

import lsmerge

# Six runs stay apart until `compact`, so that the scan before it measures the merge.
OPTIONS = {"bucket": "1", "num-sorted-run.compaction-trigger": "20"}


class LsmergeStore:
    note = ""

    def __init__(self, directory: Path, schema: pa.Schema) -> None:
        self._table = lsmerge.create_table(
            str(directory / "table"), schema, schema.names[:1], options=OPTIONS
        )

    def prepare(self, rows: pa.Table) -> pa.Table:
        return rows

    def upsert(self, rows: pa.Table) -> None:
        self._table.upsert(rows)

    def scan(self) -> pa.Table:
        return self._table.scan().to_arrow()

    def get(self, key: int) -> dict[str, Any] | None:
        return self._table.get(key)

    def prepare_keys(self, keys: pa.Array) -> pa.Table:
        return pa.table([keys], names=self._table.primary_key)

    def get_many(self, keys: pa.Table) -> pa.Table:
        return self._table.get_many(keys)

    def to_arrow(self, answer: pa.Table) -> pa.Table:
        return answer

    def compact(self) -> bool:
        self._table.compact(full=True)
        return True

    def reclaim(self) -> None:
        self._table.expire_snapshots(retain_max=1)

    def close(self) -> None:
        self._table.close()


def open_store(_name: str, directory: Path, schema: pa.Schema) -> LsmergeStore:
    return LsmergeStore(directory, schema)
