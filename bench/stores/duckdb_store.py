"""DuckDB: one table with a primary key, its own file format; commits sync its log."""

from pathlib import Path

import duckdb
import pyarrow as pa

TYPES = {"int64": "BIGINT", "double": "DOUBLE", "string": "VARCHAR"}


class DuckdbStore:
    note = ""

    def __init__(self, directory: Path, schema: pa.Schema) -> None:
        self._db = duckdb.connect(str(directory / "db.duckdb"))
        self._key = schema.names[0]
        columns = ", ".join(f"{field.name} {TYPES[str(field.type)]}" for field in schema)
        self._db.execute(f"create table rows ({columns}, primary key ({self._key}))")

    def prepare(self, rows: pa.Table) -> pa.Table:
        return rows

    def upsert(self, rows: pa.Table) -> None:
        self._db.register("incoming", rows)
        self._db.execute("insert or replace into rows select * from incoming")
        self._db.unregister("incoming")

    def scan(self) -> pa.Table:
        return self._db.execute("select * from rows").to_arrow_table()

    def get(self, key: int) -> tuple[object, ...] | None:
        return self._db.execute(f"select * from rows where {self._key} = ?", [key]).fetchone()

    def prepare_keys(self, keys: pa.Array) -> pa.Table:
        return pa.table({self._key: keys})

    def get_many(self, keys: pa.Table) -> pa.Table:
        self._db.register("wanted", keys)
        found = self._db.execute(f"select rows.* from rows join wanted using ({self._key})")
        return found.to_arrow_table()

    def to_arrow(self, answer: pa.Table) -> pa.Table:
        return answer

    def compact(self) -> bool:
        # The nearest thing: folds the log into the file and gives free blocks back.
        self._db.execute("checkpoint")
        return True

    def reclaim(self) -> None:
        pass

    def close(self) -> None:
        self._db.close()


def open_store(_name: str, directory: Path, schema: pa.Schema) -> DuckdbStore:
    return DuckdbStore(directory, schema)
