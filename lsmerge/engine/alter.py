"""Altering a table: the next schema is checked, then published under the next number if nobody else took that.

No file is rewritten and no snapshot is made. Whoever has the table open sees the new schema at the next use; rows
written meanwhile under the old one count, since files are read by column id.
"""

from lsmerge.engine.context import TableContext
from lsmerge.engine.defaults import default_values
from lsmerge.engine.schema_views import with_schema
from lsmerge.errors import CommitConflictError, InvalidOptionError, SchemaMismatchError
from lsmerge.evolution import SchemaChange, evolve
from lsmerge.meta import schema_store
from lsmerge.options import TableOptions

MAX_ATTEMPTS = 100


def alter(context: TableContext, change: SchemaChange) -> TableContext:
    """The table after the change; one that others changed meanwhile is changed from what they made of it."""
    for _ in range(MAX_ATTEMPTS):
        current = schema_store.latest_schema(context.store)
        wanted = evolve(current, change)
        altered = with_schema(context, wanted)
        _check_top_level(TableOptions.of(current), altered.options)
        if change.drop:
            _refuse_partial_retracts(context, change.drop[0])
        default_values(wanted)
        if wanted == current or schema_store.publish_schema(context.store, wanted):
            return altered
    raise CommitConflictError(
        f"gave up after {MAX_ATTEMPTS} attempts: others altered the table each time; try again"
    )


def _check_top_level(before: TableOptions, after: TableOptions) -> None:
    """What a full compaction has told is what the top level holds, so that level stays the same one."""
    if after.changelog_producer == "full-compaction" and after.num_levels != before.num_levels:
        raise InvalidOptionError(
            f"num-levels would be {after.num_levels} instead of {before.num_levels}, and with changelog-producer = "
            "full-compaction all rows would be told again; it follows num-sorted-run.compaction-trigger: give "
            f"'num-levels' = {before.num_levels} with that"
        )


def _refuse_partial_retracts(context: TableContext, column: str) -> None:
    """Whether a retract of some columns left anything of its row is asked of all the others, a dropped one included."""
    latest = context.snapshots.latest()
    if latest is None:
        return
    version = context.versions.load(latest)
    for place in version.places():
        for file in version.files(place):
            reader = context.reader(file)
            if file.run.num_retracts and reader.is_targeted:
                raise SchemaMismatchError(
                    f"column {column!r} cannot be dropped: {file.name} holds deletes of target columns, and whether a "
                    "row is left depends on the column; call compact(full=True) first, which settles that where rows "
                    "are ordered by arrival"
                )
