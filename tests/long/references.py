"""Which files a table needs, found by an independent decoder: snapshots, tags and records of changes, what they name.

Snapshots and records below the mark of expiry are none. Hints, schemas, marks and places of consumers are files of
their own right.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.table_decoder import CHANGELOG, INDEX, REMOVE, checked_json, directory, manifest

OWN_RIGHT = ("schema", "tag", "consumer", "expired")


def files_of(root: Path) -> set[str]:
    """All files below the root."""
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def referred_files(root: Path) -> set[str]:
    """All files that a table without a crash would have."""
    there = files_of(root)
    found = {path for path in there if path.split("/")[0] in OWN_RIGHT or "/expired-" in path}
    found.update(there & {"snapshot/LATEST"})
    for path in (
        *_numbered(root, "snapshot", "expired"),
        *_numbered(root, "changelog", "changelog"),
    ):
        content = checked_json(path)
        found.add(str(path.relative_to(root)))
        if path.parent.name == "snapshot":
            found.update(_named_by(root, content["base"], content["delta"]))
        else:
            found.update(_told_by(root, content["delta"]))
    for path in (root / "tag").glob("*.json"):
        content = checked_json(path)["snapshot"]
        found.update(_named_by(root, content["base"], content["delta"]))
    return {path for path in found if ".tmp-" not in path}


def _numbered(root: Path, kind: str, marks: str) -> Iterator[Path]:
    """Snapshots, or records of changes, that have not expired."""
    earliest = max((_number(path) for path in (root / marks).glob("expired-*.json")), default=1)
    for path in (root / kind).glob(f"{kind}-*.json"):
        if _number(path) >= earliest:
            yield path


def _number(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])


def _named_by(root: Path, base: list[Any], delta: Any) -> Iterator[str]:
    """Manifests and what is live in them; changelog files belong to the commit that adds them."""
    schema = checked_json(root / "schema" / "schema-0.json")
    live: dict[str, Any] = {}
    for ref in (*base, delta):
        yield f"manifest/{ref['name']}"
        for entry in manifest(root / "manifest" / ref["name"], ref):
            live.pop(entry["name"], None)
            if entry["action"] != REMOVE and (entry["kind"] != CHANGELOG or ref is delta):
                live[entry["name"]] = entry
    yield from _paths(schema, live.values())


def _told_by(root: Path, delta: Any) -> Iterator[str]:
    """A record of changes keeps the manifest of its commit, and the changelog files that are named there."""
    yield f"manifest/{delta['name']}"
    entries = manifest(root / "manifest" / delta["name"], delta)
    schema = checked_json(root / "schema" / "schema-0.json")
    yield from _paths(schema, (entry for entry in entries if entry["kind"] == CHANGELOG))


def _paths(schema: Any, entries: Iterable[Any]) -> Iterator[str]:
    for entry in entries:
        place = "index" if entry["kind"] == INDEX else directory(schema["partition_by"], entry)
        yield f"{place}/{entry['name']}"
