"""pypaimon, as installed (`pypaimon`) and with its optional Rust paths on (`pypaimon-rust`)."""

from pathlib import Path

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

NATIVE_OPTIONS = (
    "read.native.enabled",
    "scan.native-plan.enabled",
    "write.native.enabled",
    "commit.native.enabled",
)


class PypaimonStore:
    def __init__(self, directory: Path, schema: pa.Schema, *, native: bool) -> None:
        # Seen with strace: the Python paths sync nothing, the Rust ones the data files alone.
        synced = "syncs data files, not metadata" if native else "no fsync"
        self.note = f"{synced}; no compaction in Python"
        catalog = CatalogFactory.create({"warehouse": str(directory)})
        catalog.create_database("bench", False)
        options = {"bucket": "1"} | {name: str(native).lower() for name in NATIVE_OPTIONS}
        paimon_schema = Schema.from_pyarrow_schema(
            schema, primary_keys=schema.names[:1], options=options
        )
        catalog.create_table("bench.rows", paimon_schema, False)
        self._table = catalog.get_table("bench.rows")
        self._key = schema.names[0]
        self._predicates = self._table.new_read_builder().new_predicate_builder()

    def prepare(self, rows: pa.Table) -> pa.Table:
        return rows

    def upsert(self, rows: pa.Table) -> None:
        builder = self._table.new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        write.write_arrow(rows)
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()

    def scan(self) -> pa.Table:
        return self._read(self._table.new_read_builder())

    def get(self, key: int) -> dict[str, object] | None:
        found = self._filtered(self._predicates.equal(self._key, key)).to_pylist()
        return found[0] if found else None

    def prepare_keys(self, keys: pa.Array) -> list[int]:
        return keys.to_pylist()

    def get_many(self, keys: list[int]) -> pa.Table:
        return self._filtered(self._predicates.is_in(self._key, keys))

    def to_arrow(self, answer: pa.Table) -> pa.Table:
        return answer

    def compact(self) -> bool:
        return False

    def reclaim(self) -> None:
        pass

    def close(self) -> None:
        pass

    def _filtered(self, predicate: object) -> pa.Table:
        return self._read(self._table.new_read_builder().with_filter(predicate))

    def _read(self, builder: object) -> pa.Table:
        return builder.new_read().to_arrow(builder.new_scan().plan().splits())


def open_store(name: str, directory: Path, schema: pa.Schema) -> PypaimonStore:
    native = name == "pypaimon-rust"
    if native:
        # Without the module pypaimon falls back silently, and would be measured twice.
        import pypaimon_rust  # noqa: F401
    return PypaimonStore(directory, schema, native=native)
