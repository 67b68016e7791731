"""Altering a table: the next schema is checked, then published under the next number if nobody else took that.

No file is rewritten and no snapshot is made. Whoever has the table open sees the new schema at the next use; rows
written meanwhile under the old one count, since files are read by column id.
"""

from lsmerge.engine.context import TableContext
from lsmerge.engine.defaults import default_values
from lsmerge.engine.schema_views import with_schema
from lsmerge.errors import CommitConflictError
from lsmerge.evolution import SchemaChange, evolve
from lsmerge.meta import schema_store

MAX_ATTEMPTS = 100


def alter(context: TableContext, change: SchemaChange) -> TableContext:
    """The table after the change; one that others changed meanwhile is changed from what they made of it."""
    for _ in range(MAX_ATTEMPTS):
        current = schema_store.latest_schema(context.store)
        wanted = evolve(current, change)
        altered = with_schema(context, wanted)
        default_values(wanted)
        if wanted == current or schema_store.publish_schema(context.store, wanted):
            return altered
    raise CommitConflictError(
        f"gave up after {MAX_ATTEMPTS} attempts: others altered the table each time; try again"
    )
