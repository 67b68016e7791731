"""Opening and planning a table of very many files: `python -m bench.plan_many_files`.

The table's metadata is written directly, through the layer that owns it; the data files that it
names do not exist, which planning must not notice. Measured from nothing, as a new process would:
open the table, find the newest snapshot, list the files of one bucket; and the same for the plan of
a scan with a partition filter.
"""

import argparse
import tempfile
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import lsmerge
from lsmerge.env import Env
from lsmerge.meta import manifest
from lsmerge.meta.data_file import BucketId, CommitKind
from lsmerge.meta.manifest import MANIFEST_SCHEMA, ManifestRef
from lsmerge.meta.snapshot import Snapshot, SnapshotStore
from lsmerge.meta.version import VersionReader
from lsmerge.storage.object_store import ObjectStore, open_store

FILES_PER_BUCKET = 10
BUCKETS = 10
ROWS_PER_FILE = 1_000_000
SEED = 7


def create(uri: str, files: int, manifests: int) -> int:
    """A table whose one snapshot names `files` files; returns the number of its partitions."""
    schema = pa.schema({"day": pa.int32(), "id": pa.int64(), "value": pa.string()})
    lsmerge.create_table(
        uri, schema, ["day", "id"], partition_by="day", options={"bucket": BUCKETS}
    ).close()
    store = open_store(uri)
    env = Env.seeded(SEED)
    numbers = np.array_split(np.arange(files), manifests)
    refs = [manifest.write_manifest(store, env.new_id(), _entries(part, env)) for part in numbers]
    _publish(store, refs, files, env)
    return -(-files // (BUCKETS * FILES_PER_BUCKET))


def _entries(numbers: np.ndarray, env: Env) -> pa.Table:
    """Manifest entries of level-1 files with disjoint key ranges within each bucket."""
    count = len(numbers)
    buckets, positions = np.divmod(numbers, FILES_PER_BUCKET)
    partitions = _text(buckets // BUCKETS)
    constants = {
        "action": manifest.Action.ADD,
        "kind": 0,
        "level": 1,
        "schema_id": 0,
        "created_ms": env.now_ms(),
        "sequence_base": 0,
        "num_rows": ROWS_PER_FILE,
        "num_retracts": 0,
        "size_bytes": 100_000_000,
        "index_offset": 99_900_000,
        "tail_crc": 1,
        "num_buckets": BUCKETS,
    }
    columns = {
        "partition": pc.binary_join_element_wise('["', partitions, '"]', ""),
        "bucket": buckets % BUCKETS,
        "name": [f"data-{env.new_id()}-0.parquet" for _ in range(count)],
        "sequence_min": numbers * ROWS_PER_FILE,
        "sequence_max": numbers * ROWS_PER_FILE + ROWS_PER_FILE - 1,
        "min_key": _keys(positions * ROWS_PER_FILE),
        "max_key": _keys(positions * ROWS_PER_FILE + ROWS_PER_FILE - 1),
    }
    columns |= {name: pa.repeat(value, count) for name, value in constants.items()}
    arrays = [pa.array(columns[f.name]).cast(f.type) for f in MANIFEST_SCHEMA]
    return pa.table(arrays, schema=MANIFEST_SCHEMA)


def _publish(store: ObjectStore, refs: list[ManifestRef], files: int, env: Env) -> None:
    snapshots = SnapshotStore(store)
    snapshots.publish(
        Snapshot(
            id=1,
            commit_uuid=env.new_id(),
            kind=CommitKind.APPEND,
            timestamp_ms=env.now_ms(),
            schema_id=0,
            next_sequence=files * ROWS_PER_FILE,
            base=tuple(refs[:-1]),
            delta=refs[-1],
        )
    )
    snapshots.note_latest(1)


def plan_bucket(uri: str, day: int) -> int:
    """Open, and list the files of one bucket; the number found."""
    with lsmerge.open_table(uri):
        store = open_store(uri)
        snapshot = SnapshotStore(store).latest()
        assert snapshot is not None
        runs = VersionReader(store).load(snapshot).runs(BucketId((str(day),), 3))
    return sum(len(run.files) for run in runs)


def plan_scan(uri: str, day: int) -> int:
    """Open, and plan a scan of one partition; the number of files in it."""
    with lsmerge.open_table(uri) as table:
        sections = list(table.scan(filter=f"day = {day}")._sections())
    return sum(len(section.files) for section in sections)


def _text(numbers: np.ndarray) -> pa.Array:
    return pc.cast(pa.array(numbers), pa.string())


def _keys(numbers: np.ndarray) -> list[bytes]:
    """Ordered byte keys of non-negative integers, as the store encodes an int64."""
    return [(int(number) + (1 << 63)).to_bytes(8, "big") for number in numbers]


def _report(what: str, plan: Callable[[], int], expected: int, repeat: int) -> None:
    seconds = []
    for _ in range(repeat):
        started = time.perf_counter()
        found = plan()
        seconds.append(time.perf_counter() - started)
        assert found == expected, f"{what}: {found} files planned, {expected} expected"
    print(f"{what:34} first {seconds[0] * 1e3:7.1f} ms   best {min(seconds) * 1e3:7.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--manifests", type=int, default=20)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="many-files-") as directory:
        uri = f"{directory}/table"
        partitions = create(uri, arguments.files, arguments.manifests)
        day = partitions // 2
        print(f"{arguments.files:,} files in {partitions:,} partitions of {BUCKETS} buckets")
        _report(
            "open, plan one bucket",
            lambda: plan_bucket(uri, day),
            FILES_PER_BUCKET,
            arguments.repeat,
        )
        _report(
            "open, plan one partition's scan",
            lambda: plan_scan(uri, day),
            BUCKETS * FILES_PER_BUCKET,
            arguments.repeat,
        )


if __name__ == "__main__":
    main()
