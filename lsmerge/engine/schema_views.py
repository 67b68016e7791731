"""One open table under several schemas: the newest, and those that older snapshots were made with."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from lsmerge.engine.context import TableContext
from lsmerge.engine.ingest import normalise
from lsmerge.errors import CorruptFileError, ObjectNotFoundError, SnapshotExpiredError
from lsmerge.merge.engine import merge_engine
from lsmerge.meta import schema_store
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.tag import TagStore
from lsmerge.options import TableOptions
from lsmerge.schema import TableSchema


def with_schema(context: TableContext, schema: TableSchema) -> TableContext:
    """The same table with the columns and options of another of its schemas."""
    options = TableOptions.of(schema)
    return replace(
        context, schema=schema, options=options, engine=merge_engine(schema, options, normalise)
    )


def refreshed(context: TableContext) -> TableContext:
    """The table with its newest schema; the same value if that is the one it has."""
    if not schema_store.has_schema(context.store, context.schema.id + 1):
        return context
    return with_schema(context, schema_store.latest_schema(context.store))


def at_snapshot(context: TableContext, snapshot: Snapshot) -> TableContext:
    """The table as it was defined when `snapshot` was made."""
    return with_schema_id(context, snapshot.schema_id)


def with_schema_id(context: TableContext, schema_id: int) -> TableContext:
    """The table with one of its schemas, by number."""
    if schema_id == context.schema.id:
        return context
    return with_schema(context, schema_store.read_schema(context.store, schema_id))


@contextmanager
def reading(context: TableContext, snapshot: Snapshot | None) -> Iterator[None]:
    """Tell a file that expiry deleted from one that is missing: the reader of an expired snapshot is told so."""
    try:
        yield
    except CorruptFileError:
        context.counters.add(corrupt_reads=1)
        raise
    except ObjectNotFoundError as error:
        if snapshot is None or _is_kept(context, snapshot):
            raise
        raise SnapshotExpiredError(
            f"snapshot {snapshot.id} expired while it was read ({error.path} is gone); the earliest left "
            f"is {context.snapshots.earliest_id()}: read again, or tag a snapshot before a long read"
        ) from error


def _is_kept(context: TableContext, snapshot: Snapshot) -> bool:
    if context.snapshots.is_retained(snapshot):
        return True
    return TagStore(context.store, context.snapshots).holds(snapshot)
