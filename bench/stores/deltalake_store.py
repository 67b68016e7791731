"""deltalake: copy-on-write merge; its own query engine reads, pyarrow filters long key lists."""

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder


class DeltalakeStore:
    note = "no fsync; copy-on-write, so always merged"

    def __init__(self, directory: Path, schema: pa.Schema) -> None:
        self._path = str(directory / "table")
        self._key = schema.names[0]
        self._table = DeltaTable.create(self._path, schema)
        self._query = QueryBuilder().register("rows", self._table)

    def prepare(self, rows: pa.Table) -> pa.Table:
        return rows

    def upsert(self, rows: pa.Table) -> None:
        # Without streamed execution the merge may prune by the statistics of the source.
        merge = self._table.merge(
            rows,
            predicate=f"old.{self._key} = new.{self._key}",
            source_alias="new",
            target_alias="old",
            streamed_exec=False,
        )
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
        self._query = QueryBuilder().register("rows", self._table)

    def scan(self) -> pa.Table:
        return pa.table(self._query.execute("select * from rows"))

    def get(self, key: int) -> dict[str, object] | None:
        found = pa.table(self._query.execute(f"select * from rows where {self._key} = {key}"))
        return found.to_pylist()[0] if len(found) else None

    def prepare_keys(self, keys: pa.Array) -> list[int]:
        return keys.to_pylist()

    def get_many(self, keys: list[int]) -> pa.Table:
        return self._table.to_pyarrow_table(filters=[(self._key, "in", keys)])

    def to_arrow(self, answer: pa.Table) -> pa.Table:
        return answer

    def compact(self) -> bool:
        done = self._table.optimize.compact()
        self._query = QueryBuilder().register("rows", self._table)
        # Merges rewrite whole files, which often leaves a single one and nothing to compact.
        return done["numFilesRemoved"] > 0

    def reclaim(self) -> None:
        self._table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)

    def close(self) -> None:
        pass


def open_store(_name: str, directory: Path, schema: pa.Schema) -> DeltalakeStore:
    return DeltalakeStore(directory, schema)
