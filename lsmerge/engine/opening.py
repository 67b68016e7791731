"""From a location to an open table: the store, the schema, the options, and what all paths share."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Protocol

from lsmerge.engine.block_spill import BlockSpill
from lsmerge.engine.context import TableContext, parquet_block_bytes
from lsmerge.engine.defaults import default_values
from lsmerge.engine.hash_index import HashIndexCache
from lsmerge.engine.ingest import normalise
from lsmerge.engine.key_map import KeyMap
from lsmerge.engine.layer_files import LayerFiles
from lsmerge.engine.padding import check_padding
from lsmerge.engine.point_cache import PointCache
from lsmerge.engine.run_cache import RunCache
from lsmerge.engine.upkeep import Upkeep
from lsmerge.engine_options import check_engine_options
from lsmerge.env import Env
from lsmerge.errors import InvalidOptionError, TableExistsError
from lsmerge.merge.columnar import ColumnarEngine
from lsmerge.merge.engine import merge_engine
from lsmerge.meta import schema_store
from lsmerge.meta.commit import Committer
from lsmerge.meta.snapshot import SnapshotStore
from lsmerge.meta.version import VersionReader
from lsmerge.metrics import Counters
from lsmerge.options import TableOptions, check_dialect, differences, resolve
from lsmerge.schema import TableSchema
from lsmerge.storage import layout
from lsmerge.storage.object_store import ObjectStore, open_store
from lsmerge.storage.unnamed_files import UnnamedFiles
from lsmerge.storage.watching import Watcher

# Part of the memory for look-ups that the map of where keys live may take beside them.
SHARE_FOR_KEY_MAP = 2


class PathLike(Protocol):
    """A path object, such as `pathlib.Path`."""

    def __fspath__(self) -> str: ...


Location = str | PathLike


def store_at(uri: Location, storage_options: Mapping[str, str] | None = None) -> ObjectStore:
    """The store of a location; credentials in `storage_options` are never shown."""
    if not isinstance(storage_options, Mapping | None):
        raise InvalidOptionError(
            f"storage_options is a {type(storage_options).__name__}; "
            "pass a mapping from names to values"
        )
    return open_store(location_text(uri), storage_options)


def location_text(uri: Location) -> str:
    """A location as text."""
    text = uri.__fspath__() if hasattr(uri, "__fspath__") else uri
    if not isinstance(text, str):
        raise InvalidOptionError(f"uri = {uri!r}: pass text or a pathlib.Path")
    return text


def create(
    store: ObjectStore,
    schema: Any,
    primary_key: str | Sequence[str],
    partition_by: str | Sequence[str],
    options: Mapping[str, object],
    *,
    comment: str | None = None,
    exist_ok: bool,
    env: Env,
) -> TableContext:
    """Create a table; with `exist_ok` one with the same definition may be there already."""
    wanted = TableSchema.from_arrow(schema, primary_key, partition_by, resolve(options), comment)
    # Contradictions are refused before anything is stored.
    check_dialect(options, wanted)
    check_engine_options(wanted)
    wanted_options = TableOptions.of(wanted)
    engine = merge_engine(wanted, wanted_options, normalise)
    if isinstance(engine, ColumnarEngine):
        engine.refuse_unknown_functions()
    check_padding(wanted, wanted_options)
    default_values(wanted)
    if schema_store.create_schema(store, wanted):
        return _context(store, wanted, env)
    if not exist_ok:
        raise TableExistsError(
            f"{store.uri} already holds a table; open it with open_table, or pass exist_ok=True"
        )
    return _open_same(store, wanted, env)


def open_existing(store: ObjectStore, *, env: Env) -> TableContext:
    """Open the table at `store`."""
    return _context(store, schema_store.latest_schema(store), env)


def check_definition(
    context: TableContext,
    primary_key: str | Sequence[str] | None,
    partition_by: str | Sequence[str] | None,
    options: Mapping[str, object],
) -> None:
    """The table has this key, these partition columns and, among others, these options."""
    asked = {"primary_key": _names(primary_key), "partition_by": _names(partition_by)}
    _check_same(context, **{what: names for what, names in asked.items() if names is not None})
    _check_options(context, {**context.schema.options, **resolve(options)})


def _open_same(store: ObjectStore, wanted: TableSchema, env: Env) -> TableContext:
    context = open_existing(store, env=env)
    _check_same(
        context,
        columns=_described(wanted),
        primary_key=wanted.primary_key,
        partition_by=wanted.partition_by,
    )
    _check_options(context, wanted.options)
    return context


def _check_same(context: TableContext, **asked: Sequence[str]) -> None:
    schema = context.schema
    there = {
        "columns": _described(schema),
        "primary_key": schema.primary_key,
        "partition_by": schema.partition_by,
    }
    for what, wanted in asked.items():
        if list(there[what]) != list(wanted):
            raise TableExistsError(
                f"{context.store.uri} already holds a table with other {what.replace('_', ' ')}: "
                f"{', '.join(there[what]) or 'none'}; asked for: {', '.join(wanted) or 'none'}"
            )


def _check_options(context: TableContext, wanted: Mapping[str, str]) -> None:
    other_options = differences(context.schema.options, wanted)
    if other_options:
        raise TableExistsError(
            f"{context.store.uri} already holds a table with other options: {other_options}; "
            "ask for the same, or open it with open_table"
        )


def _names(given: str | Sequence[str] | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    return (given,) if isinstance(given, str) else tuple(given)


def _described(schema: TableSchema) -> list[str]:
    return [
        f"{column.name} {column.type}{'' if column.nullable else ' NOT NULL'}"
        for column in schema.columns
    ]


def _spill(options: TableOptions, env: Env) -> BlockSpill | None:
    max_bytes = options.lookup_cache_max_disk_size
    if not max_bytes:
        return None
    return BlockSpill(env, UnnamedFiles(), max_bytes, options.lookup_cache_file_retention_ms)


def _layer_files(store: ObjectStore, options: TableOptions, env: Env) -> LayerFiles:
    directory = options.cross_partition_upsert_index_directory
    if directory is not None:
        # Tables may share it.
        directory = f"{directory}/{sha256(store.uri.encode()).hexdigest()[:16]}"
    return LayerFiles(
        env,
        options.lookup_cache_max_memory_size // SHARE_FOR_KEY_MAP,
        options.lookup_cache_file_retention_ms,
        directory,
    )


def _context(store: ObjectStore, schema: TableSchema, env: Env) -> TableContext:
    options = TableOptions.of(schema)
    snapshots = SnapshotStore(store)
    versions = VersionReader(store)
    counters = Counters(store.uri)
    block_bytes = options.lookup_cache_max_memory_size
    indexes = HashIndexCache(store, block_bytes)
    return TableContext(
        store=store,
        env=env,
        schema=schema,
        options=options,
        engine=merge_engine(schema, options, normalise),
        snapshots=snapshots,
        versions=versions,
        committer=Committer(store, snapshots, versions, env, counters),
        runs=RunCache(store, block_bytes, _spill(options, env), counters),
        points=PointCache(Watcher(store, (layout.SNAPSHOT_DIR, layout.SCHEMA_DIR))),
        upkeep=Upkeep(),
        indexes=indexes,
        key_map=KeyMap(indexes, _layer_files(store, options, env)),
        counters=counters,
        parquet_block_bytes=parquet_block_bytes(schema, options),
    )
