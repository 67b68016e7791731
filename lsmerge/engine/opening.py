"""From a location to an open table: the store, the schema, the options, and what all paths share."""

from collections.abc import Mapping, Sequence
from typing import Any

from lsmerge.engine.context import TableContext
from lsmerge.engine.run_cache import RunCache
from lsmerge.env import Env
from lsmerge.errors import TableExistsError
from lsmerge.merge.engine import merge_engine
from lsmerge.meta import schema_store
from lsmerge.meta.commit import Committer
from lsmerge.meta.snapshot import SnapshotStore
from lsmerge.meta.version import VersionReader
from lsmerge.options import TableOptions, resolve
from lsmerge.schema import TableSchema
from lsmerge.storage.object_store import ObjectStore, open_store


def store_at(uri: str, storage_options: Mapping[str, str] | None = None) -> ObjectStore:
    """The store of a location; credentials in `storage_options` are never shown."""
    return open_store(uri, storage_options)


def create(
    store: ObjectStore,
    schema: Any,
    primary_key: str | Sequence[str],
    partition_by: str | Sequence[str],
    options: Mapping[str, object],
    *,
    exist_ok: bool,
    env: Env,
) -> TableContext:
    """Create a table; with `exist_ok` one with the same definition may be there already."""
    wanted = TableSchema.from_arrow(schema, primary_key, partition_by, resolve(options))
    merge_engine(
        wanted, TableOptions.of(wanted)
    )  # refuses what contradicts, before anything is stored
    try:
        schema_store.create_schema(store, wanted)
    except TableExistsError:
        if not exist_ok:
            raise
        return _open_same(store, wanted, env)
    return _context(store, wanted, env)


def open_existing(store: ObjectStore, *, env: Env) -> TableContext:
    """Open the table at `store`."""
    return _context(store, schema_store.latest_schema(store), env)


def _open_same(store: ObjectStore, wanted: TableSchema, env: Env) -> TableContext:
    context = open_existing(store, env=env)
    found = context.schema
    for what in ("columns", "primary_key", "partition_by", "options"):
        there, asked = getattr(found, what), getattr(wanted, what)
        if there != asked:
            raise TableExistsError(
                f"{store.uri} already holds a table with other {what.replace('_', ' ')}: "
                f"{there}, asked for {asked}"
            )
    return context


def _context(store: ObjectStore, schema: TableSchema, env: Env) -> TableContext:
    options = TableOptions.of(schema)
    snapshots = SnapshotStore(store)
    versions = VersionReader(store)
    return TableContext(
        store=store,
        env=env,
        schema=schema,
        options=options,
        engine=merge_engine(schema, options),
        snapshots=snapshots,
        versions=versions,
        committer=Committer(store, snapshots, versions, env),
        runs=RunCache(store, options.lookup_cache_max_memory_size),
    )
