"""`lsmerge info`: what a table is, and how large."""

from datetime import datetime
from typing import Any

import click

from lsmerge import Table
from lsmerge.cli import screen
from lsmerge.cli.settings import Command, Settings, on_table


@click.command("info", cls=Command)
@on_table
def command(settings: Settings, table: Table) -> None:
    """What a table is and how large: definition, newest snapshot, files, amplification, tags, consumers."""
    found = _info(table)
    if settings.json:
        screen.document(found)
        return
    if found["comment"] is None:
        del found["comment"]
    screen.fields({name.replace("_", " "): _shown(name, value) for name, value in found.items()})


def _info(table: Table) -> dict[str, Any]:
    stats, latest = table.stats(), table.latest_snapshot()
    snapshots = table.snapshots()
    definition = table.describe()
    return {
        "uri": table.uri,
        "comment": definition.get("comment"),
        "columns": len(definition["columns"]),
        "primary_key": list(table.primary_key),
        "partition_by": list(table.partition_by),
        "schema_id": definition["id"],
        "options": definition["options"],
        "snapshot": None if latest is None else latest.id,
        "earliest_snapshot": snapshots[0].id if snapshots else None,
        "committed": None if latest is None else screen.time_of(latest.timestamp_ms),
        "partitions": len(table.partitions()),
        "buckets": len(stats.buckets),
        "rows_stored": stats.rows,
        "files": stats.files,
        "size_bytes": stats.size_bytes,
        "runs": len(stats.runs),
        "read_amplification": stats.read_amplification,
        "write_amplification": round(stats.write_amplification, 2),
        "space_amplification": round(stats.space_amplification, 2),
        "tags": sorted(table.tags()),
        "consumers": table.consumers(),
    }


def _shown(name: str, value: Any) -> Any:
    if name == "size_bytes":
        return screen.size(value)
    if isinstance(value, list):
        return ", ".join(value) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{key}={inner}" for key, inner in value.items()) or "none"
    if isinstance(value, datetime):
        return screen.moment(value)
    return f"{value:,}" if isinstance(value, int) else value
