"""Every path inside a table, and nothing else.

    schema/schema-<id>.json
    snapshot/snapshot-<id>.json   snapshot/LATEST (a hint)
    manifest/manifest-<id>.arrow
    tag/tag-<name>.json
    expired/expired-<id>.json
    changelog/changelog-<id>.json  changelog/expired-<id>.json
    index/index-<id>.arrow        which keys are in which dynamic bucket
    [<column>=<value>/...]bucket-<n>/data-<id>-<k>.arrow|parquet
    [<column>=<value>/...]bucket-<n>/changelog-<id>-<k>.arrow|parquet
    consumer/consumer-<name>/position-<snapshot id>.json
    consumer/consumer-<name>/lease.json

Paths are relative to the table's root and built only from numbers, identifiers checked against a pattern, and
percent-encoded partition values and tag names, so no file content can lead outside the root.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import quote

from lsmerge.errors import CorruptFileError

SCHEMA_DIR = "schema"
SNAPSHOT_DIR = "snapshot"
MANIFEST_DIR = "manifest"
CONSUMER_DIR = "consumer"
TAG_DIR = "tag"
EXPIRED_DIR = "expired"
CHANGELOG_DIR = "changelog"
INDEX_DIR = "index"
LATEST_HINT = f"{SNAPSHOT_DIR}/LATEST"

# A path is asked for several times a file, and has few components that differ.
_MAX_COMPONENTS_KEPT = 4096

_EXPIRED_NAME = re.compile(r"expired-([1-9][0-9]*)\.json")
_CHANGE_RECORD_NAME = re.compile(r"changelog-([1-9][0-9]*)\.json")
_SNAPSHOT_NAME = re.compile(r"snapshot-([1-9][0-9]*)\.json")
_CONSUMER_PLACE = re.compile(r"consumer/consumer-([^/]+)/position-([1-9][0-9]*)\.json")
_MANIFEST_NAME = re.compile(r"manifest-[0-9a-f]{32}\.arrow")
RUN_NAME = r"(data|changelog)-[0-9a-f]{32}-[0-9]+\.(arrow|parquet)"
INDEX_NAME = r"index-[0-9a-f]{32}\.arrow"

_RUN_NAME = re.compile(RUN_NAME)
_INDEX_NAME = re.compile(INDEX_NAME)
_BUCKET_NAME = re.compile(r"bucket-[0-9]+")

_NULL_VALUE = "%00"
_MAX_COMPONENT_BYTES = 200


def schema_path(schema_id: int) -> str:
    return f"{SCHEMA_DIR}/schema-{schema_id}.json"


def snapshot_path(snapshot_id: int) -> str:
    return f"{SNAPSHOT_DIR}/snapshot-{snapshot_id}.json"


def snapshot_id_of(path: str) -> int | None:
    """The snapshot a path names, or None for anything else in the directory."""
    match = _SNAPSHOT_NAME.fullmatch(path.rpartition("/")[2])
    return int(match[1]) if match else None


def tag_path(name: str) -> str:
    return f"{TAG_DIR}/tag-{_text(name)}.json"


def is_tag_path(path: str) -> bool:
    """Whether a path in the directory of tags has the form of a tag's."""
    return path.startswith(f"{TAG_DIR}/tag-") and path.endswith(".json") and path.count("/") == 1


def change_record_path(snapshot_id: int) -> str:
    return f"{CHANGELOG_DIR}/changelog-{snapshot_id}.json"


def change_record_id_of(path: str) -> int | None:
    """The snapshot whose changes a path in the directory records; None for anything else."""
    match = _CHANGE_RECORD_NAME.fullmatch(path.rpartition("/")[2])
    return int(match[1]) if match else None


def expired_path(earliest: int, directory: str = EXPIRED_DIR) -> str:
    return f"{directory}/expired-{earliest}.json"


def earliest_of(path: str) -> int | None:
    """The snapshot below which all have expired, as a mark's path says; None for anything else."""
    match = _EXPIRED_NAME.fullmatch(path.rpartition("/")[2])
    return int(match[1]) if match else None


def manifest_name(unique_id: str) -> str:
    return f"manifest-{unique_id}.arrow"


def manifest_path(name: str) -> str:
    return f"{MANIFEST_DIR}/{name}"


def index_name(unique_id: str) -> str:
    return f"index-{unique_id}.arrow"


def is_index_name(name: str) -> bool:
    return _INDEX_NAME.fullmatch(name) is not None


def index_path(name: str) -> str:
    return f"{INDEX_DIR}/{name}"


def run_name(unique_id: str, number: int, file_format: str) -> str:
    return f"data-{unique_id}-{number}.{file_format}"


def changelog_name(unique_id: str, number: int, file_format: str) -> str:
    return f"changelog-{unique_id}-{number}.{file_format}"


def consumer_dir(name: str) -> str:
    return f"{CONSUMER_DIR}/consumer-{name}"


def consumer_path(name: str, snapshot_id: int) -> str:
    return f"{consumer_dir(name)}/position-{snapshot_id}.json"


def consumer_lease_path(name: str) -> str:
    return f"{consumer_dir(name)}/lease.json"


def consumer_place(path: str) -> tuple[str, int] | None:
    """The consumer and the snapshot that a path names, or None for anything else in the directory."""
    match = _CONSUMER_PLACE.fullmatch(path)
    return (match[1], int(match[2])) if match else None


def is_manifest_name(name: str) -> bool:
    return _MANIFEST_NAME.fullmatch(name) is not None


def is_run_path(path: str, partition_depth: int) -> bool:
    """Whether a run file of a table with so many partition columns may be at this path."""
    *directories, name = path.split("/")
    partition, bucket = directories[:-1], directories[-1:]
    return (
        len(partition) == partition_depth
        and all("=" in part for part in partition)
        and all(map(_BUCKET_NAME.fullmatch, bucket or [""]))
        and _RUN_NAME.fullmatch(name) is not None
    )


def bucket_dir(partition_by: Sequence[str], partition: Sequence[str | None], bucket: int) -> str:
    """The directory of one bucket; `partition` holds the text form of each partition value."""
    if len(partition) != len(partition_by):
        raise CorruptFileError(
            MANIFEST_DIR,
            f"an entry is of partition {list(partition)}, the columns are {list(partition_by)}",
        )
    if not partition:
        return f"bucket-{bucket}"
    parts = [
        _component(column, value) for column, value in zip(partition_by, partition, strict=True)
    ]
    return "/".join([*parts, f"bucket-{bucket}"])


@lru_cache(_MAX_COMPONENTS_KEPT)
def _component(column: str, value: str | None) -> str:
    text = _NULL_VALUE if value is None else _text(value)
    name = f"{_text(column)}={text}"
    if len(name) <= _MAX_COMPONENT_BYTES:
        return name
    import hashlib  # loads OpenSSL, which only values this long are worth

    digest = hashlib.sha256(name.encode()).hexdigest()
    return f"{_text(column)[:64]}=%01{digest}"


def _text(value: str) -> str:
    # '.' is encoded too, so that no component is '.' or '..'. The characters NUL and SOH are doubled, which
    # leaves a single %00 (null) and %01 (hashed) free as markers.
    escaped = "".join(c + c if c in "\x00\x01" else c for c in value)
    return quote(escaped, safe="").replace(".", "%2E")
