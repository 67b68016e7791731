"""LMDB with its default full sync; each commit is sorted first, which its B-tree likes best."""

from pathlib import Path

import lmdb
import pyarrow as pa

from bench.stores.packed_rows import pack_key, pack_rows, unpack_rows

MAP_BYTES = 64 << 30

Pairs = list[tuple[bytes, bytes]]


class LmdbStore:
    note = "rows encoded and decoded outside the clock; no compaction"

    def __init__(self, directory: Path, schema: pa.Schema) -> None:
        self._schema = schema
        self._env = lmdb.open(str(directory / "db"), map_size=MAP_BYTES)

    def prepare(self, rows: pa.Table) -> Pairs:
        return pack_rows(rows)

    def upsert(self, rows: Pairs) -> None:
        with self._env.begin(write=True) as transaction, transaction.cursor() as cursor:
            cursor.putmulti(sorted(rows))

    def scan(self) -> Pairs:
        with self._env.begin() as transaction, transaction.cursor() as cursor:
            return list(cursor)

    def get(self, key: int) -> bytes | None:
        with self._env.begin() as transaction:
            return transaction.get(pack_key(key))

    def prepare_keys(self, keys: pa.Array) -> list[bytes]:
        return [pack_key(key) for key in keys.to_pylist()]

    def get_many(self, keys: list[bytes]) -> Pairs:
        with self._env.begin() as transaction, transaction.cursor() as cursor:
            return cursor.getmulti(keys)

    def to_arrow(self, answer: Pairs) -> pa.Table:
        return unpack_rows(answer, self._schema)

    def compact(self) -> bool:
        return False

    def reclaim(self) -> None:
        pass

    def close(self) -> None:
        self._env.close()


def open_store(_name: str, directory: Path, schema: pa.Schema) -> LmdbStore:
    return LmdbStore(directory, schema)
