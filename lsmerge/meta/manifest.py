"""Manifests: lists of added and removed files, as checksummed Arrow IPC files.

An entry is one row. Reading stays columnar: a manifest of a hundred thousand entries is filtered by bucket with
Arrow kernels, and only the entries wanted become DataFile objects.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import pyarrow as pa

from lsmerge.errors import CorruptFileError, UnsupportedFormatError
from lsmerge.meta.bucket_index import IndexFile
from lsmerge.meta.data_file import BucketId, DataFile, FileKind, Partition
from lsmerge.option_registry import MAX_BUCKETS
from lsmerge.storage import layout
from lsmerge.storage.checked_object import Seal, get_sealed, put_sealed
from lsmerge.storage.object_store import ObjectStore
from lsmerge.storage.run_file import RunSummary

MAX_CHUNKS = 8
MANIFEST_VERSION = b"2"
# Version 1 did not say how many buckets a file's partition was split into.
_VERSION_WITHOUT_COUNTS = b"1"
_VERSION_KEY = b"lsmerge.manifest"


class Action(IntEnum):
    """What an entry does to the file it names."""

    ADD = 0
    REMOVE = 1


_ADD, _REMOVE = pa.scalar(int(Action.ADD), pa.int8()), pa.scalar(int(Action.REMOVE), pa.int8())
_PARTITION_VALUE = r'(null|"([ !#-\[\]-~]|\\(["\\bfnrt]|u[0-9a-f]{4}))*")'
_PARTITION_TEXT = rf"^\[({_PARTITION_VALUE}(,{_PARTITION_VALUE})*)?\]$"
# An index file belongs to all buckets of its partition.
_ALL_BUCKETS = -1

MANIFEST_SCHEMA = pa.schema(
    [
        pa.field("action", pa.int8(), nullable=False),
        pa.field("kind", pa.int8(), nullable=False),
        pa.field("partition", pa.string(), nullable=False),
        pa.field("bucket", pa.int32(), nullable=False),
        pa.field("level", pa.int8(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("schema_id", pa.int32(), nullable=False),
        pa.field("created_ms", pa.int64(), nullable=False),
        pa.field("sequence_base", pa.int64(), nullable=False),
        pa.field("sequence_min", pa.int64(), nullable=False),
        pa.field("sequence_max", pa.int64(), nullable=False),
        pa.field("num_rows", pa.int64(), nullable=False),
        pa.field("num_retracts", pa.int64(), nullable=False),
        pa.field("min_key", pa.binary(), nullable=False),
        pa.field("max_key", pa.binary(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("index_offset", pa.int64(), nullable=False),
        pa.field("tail_crc", pa.uint32(), nullable=False),
        pa.field("num_buckets", pa.int32(), nullable=False),
    ],
    metadata={_VERSION_KEY: MANIFEST_VERSION},
)


@dataclass(frozen=True, slots=True)
class ManifestRef:
    """How a snapshot names a manifest: enough to check every byte of it."""

    name: str
    seal: Seal
    num_entries: int

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "size-bytes": self.seal.size_bytes,
            "crc32c": self.seal.crc,
            "entries": self.num_entries,
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "ManifestRef":
        name = str(content["name"])
        if not layout.is_manifest_name(name):
            raise ValueError(f"{name!r} is not a manifest's name")
        seal = Seal(int(content["size-bytes"]), int(content["crc32c"]))
        return cls(name, seal, int(content["entries"]))


def entries(files: Sequence[tuple[Action, DataFile | IndexFile]]) -> pa.Table:
    """The rows of a manifest for these files."""
    columns: dict[str, list[Any]] = {field.name: [] for field in MANIFEST_SCHEMA}
    for action, file in files:
        entry = _index_entry if isinstance(file, IndexFile) else _entry
        for name, value in entry(action, file).items():  # type: ignore[arg-type]
            columns[name].append(value)
    return pa.table(columns, schema=MANIFEST_SCHEMA)


def write_manifest(store: ObjectStore, unique_id: str, table: pa.Table) -> ManifestRef:
    """Store `table` durably under a new name."""
    name = layout.manifest_name(unique_id)
    seal = put_sealed(store, layout.manifest_path(name), _serialise(table))
    return ManifestRef(name, seal, table.num_rows)


def read_manifest(store: ObjectStore, ref: ManifestRef) -> pa.Table:
    """The entries of a manifest, after checking every byte of it."""
    path = layout.manifest_path(ref.name)
    return _parse(path, get_sealed(store, path, ref.seal))


def live_entries(tables: Sequence[pa.Table]) -> pa.Table:
    """Apply manifests oldest first, from the very first one: data and index files that are there, as ADD entries."""
    return added(net_entries(tables))


def runs(table: pa.Table) -> pa.Table:
    """The entries of files that hold rows: all but those of index files."""
    import pyarrow.compute as pc

    return table.filter(pc.not_equal(table["kind"], pa.scalar(int(FileKind.INDEX), pa.int8())))


def of_kind(table: pa.Table, kind: FileKind) -> pa.Table:
    """The entries of files of one kind."""
    import pyarrow.compute as pc

    return table.filter(pc.equal(table["kind"], pa.scalar(int(kind), pa.int8())))


def added(table: pa.Table) -> pa.Table:
    """The entries that add a file."""
    import pyarrow.compute as pc

    return table.filter(pc.equal(table["action"], _ADD))


def removed(table: pa.Table) -> pa.Table:
    """The entries that remove a file."""
    import pyarrow.compute as pc

    return table.filter(pc.equal(table["action"], _REMOVE))


def net_entries(tables: Sequence[pa.Table]) -> pa.Table:
    """The shortest list of data and index entries with the effect of applying `tables` oldest first.

    Only names that were ever removed are looked at one by one; the rest is a columnar filter. Changelog files
    belong to their own snapshot and are left out.
    """
    import pyarrow.compute as pc

    table = in_few_chunks(pa.concat_tables([MANIFEST_SCHEMA.empty_table(), *tables]))
    changelog = pa.scalar(int(FileKind.CHANGELOG), pa.int8())
    table = table.filter(pc.not_equal(table["kind"], changelog))
    gone = removed(table)["name"]
    if len(gone) == 0:
        return table
    touched = pc.is_in(table["name"], value_set=gone.combine_chunks())
    return pa.concat_tables([table.filter(pc.invert(touched)), _net_touched(table.filter(touched))])


def in_few_chunks(entries: pa.Table) -> pa.Table:
    """The same entries: each commit adds a chunk, and Arrow's kernels pay for every chunk of every column."""
    return entries.combine_chunks() if entries["name"].num_chunks > MAX_CHUNKS else entries


def data_files(table: pa.Table) -> list[DataFile]:
    """Entries as DataFile objects: one Python object a file, so filter first."""
    return [_data_file(row) for row in table.to_pylist()]


def index_files(table: pa.Table) -> list[IndexFile]:
    """Entries of index files as objects."""
    return [
        IndexFile(
            partition_values(row["partition"]),
            row["name"],
            Seal(row["size_bytes"], row["tail_crc"]),
            row["num_rows"],
            row["created_ms"],
        )
        for row in table.to_pylist()
    ]


def places(table: pa.Table) -> list[BucketId]:
    """The distinct buckets of some entries."""
    partitions = table["partition"].combine_chunks().dictionary_encode()
    texts = [partition_values(text) for text in partitions.dictionary.to_pylist()]
    return [
        BucketId(texts[code >> 32], code & 0xFFFFFFFF)
        for code in _place_codes(partitions.indices, table["bucket"]).to_pylist()
    ]


def bucket_counts(table: pa.Table) -> dict[Partition, int]:
    """How many buckets each partition was split into; 0 where only files that do not tell are left."""
    columns = ["partition", "num_buckets"]
    distinct = (
        table.select(columns)
        .group_by(columns, use_threads=False)
        .aggregate([])
        .sort_by("num_buckets")
    )
    return {partition_values(row["partition"]): row["num_buckets"] for row in distinct.to_pylist()}


def of_partitions(table: pa.Table, partitions: Collection[Partition]) -> pa.Table:
    """The entries of the given partitions."""
    import pyarrow.compute as pc

    texts = pa.array(sorted(map(partition_text, partitions)), pa.string())
    return table.filter(pc.is_in(table["partition"], value_set=texts))


def of_buckets(table: pa.Table, places: Collection[BucketId]) -> pa.Table:
    """The entries of the given buckets."""
    import pyarrow.compute as pc

    by_bucket = pc.is_in(
        table["bucket"], value_set=pa.array(sorted({p.bucket for p in places}), pa.int32())
    )
    partitions = sorted({partition_text(p.partition) for p in places})
    by_partition = pc.is_in(table["partition"], value_set=pa.array(partitions, pa.string()))
    return table.filter(pc.and_(by_bucket, by_partition))


def partition_text(partition: tuple[str | None, ...]) -> str:
    """The canonical text of partition values in a manifest."""
    return json.dumps(partition, separators=(",", ":"))


def partition_values(text: str) -> tuple[str | None, ...]:
    """Inverse of `partition_text`."""
    return tuple(json.loads(text))


def _place_codes(partitions: pa.Array, buckets: pa.ChunkedArray) -> pa.Array:
    """Distinct (partition, bucket) pairs as the two halves of an int64."""
    import pyarrow.compute as pc

    high = pc.shift_left(partitions.cast(pa.int64()), pa.scalar(32, pa.int64()))
    return pc.add(high, buckets.combine_chunks().cast(pa.int64())).unique()


def _entry(action: Action, file: DataFile) -> dict[str, Any]:
    run = file.run
    return {
        "action": action,
        "kind": file.kind,
        "partition": partition_text(file.place.partition),
        "bucket": file.place.bucket,
        "level": file.level,
        "name": run.name,
        "schema_id": file.schema_id,
        "created_ms": file.created_ms,
        "sequence_base": file.sequence_base,
        "sequence_min": run.sequence_min,
        "sequence_max": run.sequence_max,
        "num_rows": run.num_rows,
        "num_retracts": run.num_retracts,
        "min_key": run.min_key,
        "max_key": run.max_key,
        "size_bytes": run.size_bytes,
        "index_offset": run.index_offset,
        "tail_crc": run.tail_crc,
        "num_buckets": file.num_buckets,
    }


def _index_entry(action: Action, file: IndexFile) -> dict[str, Any]:
    """Columns that say something of rows are 0 or empty; the checksum is that of the whole file."""
    return {
        **{field.name: b"" if field.type == pa.binary() else 0 for field in MANIFEST_SCHEMA},
        "action": action,
        "kind": FileKind.INDEX,
        "partition": partition_text(file.partition),
        "bucket": _ALL_BUCKETS,
        "name": file.name,
        "created_ms": file.created_ms,
        "num_rows": file.num_hashes,
        "size_bytes": file.seal.size_bytes,
        "tail_crc": file.seal.crc,
    }


def _data_file(row: dict[str, Any]) -> DataFile:
    run = RunSummary(
        name=row["name"],
        format=row["name"].rpartition(".")[2],
        size_bytes=row["size_bytes"],
        index_offset=row["index_offset"],
        tail_crc=row["tail_crc"],
        num_rows=row["num_rows"],
        num_retracts=row["num_retracts"],
        min_key=row["min_key"],
        max_key=row["max_key"],
        sequence_min=row["sequence_min"],
        sequence_max=row["sequence_max"],
    )
    return DataFile(
        place=BucketId(partition_values(row["partition"]), row["bucket"]),
        level=row["level"],
        run=run,
        schema_id=row["schema_id"],
        created_ms=row["created_ms"],
        sequence_base=row["sequence_base"],
        kind=FileKind(row["kind"]),
        num_buckets=row["num_buckets"],
    )


def _net_touched(table: pa.Table) -> pa.Table:
    # Per name: an add that is taken back leaves nothing; a remove whose add is older stays; a move to another
    # level (remove, then add) keeps both.
    actions = table["action"].to_pylist()
    by_name: dict[str, list[int]] = {}
    for position, name in enumerate(table["name"].to_pylist()):
        by_name.setdefault(name, []).append(position)
    kept: list[int] = []
    for positions in by_name.values():
        if actions[positions[0]] == Action.REMOVE:
            kept.append(positions[0])
        if actions[positions[-1]] == Action.ADD:
            kept.append(positions[-1])
    return table.take(pa.array(sorted(kept), pa.int64()))


def _serialise(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, MANIFEST_SCHEMA) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _parse(path: str, data: pa.Buffer) -> pa.Table:
    try:
        reader = pa.ipc.open_file(pa.BufferReader(data))
        version = (reader.schema.metadata or {}).get(_VERSION_KEY)
        if version not in (MANIFEST_VERSION, _VERSION_WITHOUT_COUNTS):
            raise UnsupportedFormatError(path, version, "1 and 2")
        table = reader.read_all()
        table.validate(full=True)
        if version == _VERSION_WITHOUT_COUNTS:
            table = _with_unknown_counts(table)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptFileError(path, f"not a manifest: {error}") from error
    if table.schema != MANIFEST_SCHEMA:
        raise CorruptFileError(path, f"has other columns than a manifest: {table.schema.names}")
    _check_filled(path, table)
    _check_names(path, table["name"])
    _check_partitions(path, table["partition"])
    _check_codes(path, table)
    return table


def _check_filled(path: str, table: pa.Table) -> None:
    """Arrow takes a schema's word for it that a column has no nulls."""
    for field in table.schema:
        if not field.nullable and table[field.name].null_count:
            raise CorruptFileError(path, f"an entry has no {field.name}")


def _with_unknown_counts(table: pa.Table) -> pa.Table:
    unknown = pa.repeat(pa.scalar(0, pa.int32()), table.num_rows)
    added = table.append_column(MANIFEST_SCHEMA.field("num_buckets"), unknown)
    return added.replace_schema_metadata(MANIFEST_SCHEMA.metadata)


def _check_partitions(path: str, partitions: pa.ChunkedArray) -> None:
    """Texts are parsed as JSON when they are looked at, so each must be what `partition_text` gives."""
    import pyarrow.compute as pc

    if pc.all(pc.match_substring_regex(pc.unique(partitions), _PARTITION_TEXT)).as_py() is False:
        raise CorruptFileError(path, "an entry's partition is not a list of texts and nulls")


def _check_codes(path: str, table: pa.Table) -> None:
    """Actions and kinds become members of their enumerations; files with rows have buckets that there may be."""
    _check_range(path, table, "action", len(Action) - 1)
    _check_range(path, table, "kind", len(FileKind) - 1)
    with_rows = runs(table)
    _check_range(path, with_rows, "bucket", MAX_BUCKETS - 1)
    _check_range(path, with_rows, "num_buckets", MAX_BUCKETS)


def _check_range(path: str, entries: pa.Table, name: str, last: int) -> None:
    import pyarrow.compute as pc

    least, most = pc.min_max(entries[name]).as_py().values()
    if entries.num_rows and not 0 <= least <= most <= last:
        raise CorruptFileError(path, f"an entry has {name} {least if least < 0 else most}")


def _check_names(path: str, names: pa.ChunkedArray) -> None:
    """Names lead to paths, so each must have the form that lsmerge itself gives."""
    import pyarrow.compute as pc

    known = f"^({layout.RUN_NAME}|{layout.INDEX_NAME})$"
    if pc.all(pc.match_substring_regex(names, known)).as_py() is False:
        raise CorruptFileError(path, "an entry names a file that lsmerge would not have written")
