"""RocksDB through rocksdict: raw bytes, WriteBatch with a synced log, Bloom filter, LZ4."""

from pathlib import Path

import pyarrow as pa
from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    WriteBatch,
    WriteOptions,
)

from bench.stores.packed_rows import pack_key, pack_rows, unpack_rows

CACHE_BYTES = 256 << 20

Pairs = list[tuple[bytes, bytes]]


def _options() -> Options:
    blocks = BlockBasedOptions()
    blocks.set_block_cache(Cache(CACHE_BYTES))
    blocks.set_bloom_filter(10, False)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.increase_parallelism(2)
    options.set_block_based_table_factory(blocks)
    options.set_compression_type(DBCompressionType.lz4())
    return options


class RocksdictStore:
    note = "rows encoded and decoded outside the clock"

    def __init__(self, directory: Path, schema: pa.Schema) -> None:
        self._schema = schema
        self._db = Rdict(str(directory / "db"), _options())
        self._synced = WriteOptions()
        self._synced.sync = True

    def prepare(self, rows: pa.Table) -> Pairs:
        return pack_rows(rows)

    def upsert(self, rows: Pairs) -> None:
        batch = WriteBatch(raw_mode=True)
        for key, value in rows:
            batch.put(key, value)
        self._db.write(batch, self._synced)

    def scan(self) -> Pairs:
        return list(self._db.items())

    def get(self, key: int) -> bytes | None:
        return self._db.get(pack_key(key))

    def prepare_keys(self, keys: pa.Array) -> list[bytes]:
        return [pack_key(key) for key in keys.to_pylist()]

    def get_many(self, keys: list[bytes]) -> Pairs:
        return list(zip(keys, self._db.get(keys), strict=True))

    def to_arrow(self, answer: Pairs) -> pa.Table:
        return unpack_rows(answer, self._schema)

    def compact(self) -> bool:
        self._db.flush()
        self._db.compact_range(None, None)
        return True

    def reclaim(self) -> None:
        pass

    def close(self) -> None:
        self._db.close()


def open_store(_name: str, directory: Path, schema: pa.Schema) -> RocksdictStore:
    return RocksdictStore(directory, schema)
