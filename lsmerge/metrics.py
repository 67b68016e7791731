"""Counters of one open table, and of the whole process if somebody exports them.

Counting happens per batch, file or commit, never per row. A reading is an immutable value; counters start at zero when
a table is opened and only grow.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import TypeAlias

# Told of every addition: the table's URI, and what was added to which counter.
Listener: TypeAlias = Callable[[str, Mapping[str, int]], None]

_listener: Listener | None = None


@dataclass(frozen=True, slots=True)
class TableMetrics:
    """What an open table has done so far."""

    rows_written: int = 0
    """Rows given to `write`, `upsert`, `delete`, `overwrite` and writers."""
    flushes: int = 0
    """Level-0 files written by this process."""
    rows_flushed: int = 0
    """Rows in these files, merged within each."""
    bytes_flushed: int = 0
    """Bytes of these files."""
    changelog_files: int = 0
    """Changelog files written."""
    changelog_rows: int = 0
    """Changes in these files."""
    changelog_bytes: int = 0
    """Bytes of these files."""
    commits: int = 0
    """Snapshots published, compactions included."""
    commits_repeated: int = 0
    """Commits that were found done already, by their (commit_user, commit_id)."""
    commit_retries: int = 0
    """Attempts to publish that another writer was faster than."""
    commit_conflicts: int = 0
    """Commits given up because others took away what they stood on."""
    compactions: int = 0
    """Compactions published, each of one or more buckets."""
    compactions_left: int = 0
    """Automatic compactions that failed or lost a race, and were left for later."""
    compaction_files_moved: int = 0
    """Files that compactions moved to another level without rewriting them."""
    compaction_rows_read: int = 0
    """Rows that compactions merged."""
    compaction_rows_written: int = 0
    """Rows that were left of them."""
    compaction_bytes_read: int = 0
    """Bytes of the files that compactions replaced."""
    compaction_bytes_written: int = 0
    """Bytes of the files that took their place."""
    rewrites: int = 0
    """`rescale` and `sort_compact` published."""
    rewrite_rows_written: int = 0
    """Rows that these wrote."""
    rewrite_bytes_written: int = 0
    """Bytes that these wrote."""
    scans: int = 0
    """Reads of scans that began."""
    rows_read: int = 0
    """Rows that scans gave."""
    keys_looked_up: int = 0
    """Keys asked for by `get_many`; single gets show in the counters of the cache."""
    rows_found: int = 0
    """Rows that it found."""
    changes_read: int = 0
    """Changes that followers of `changelog` were given."""
    files_opened: int = 0
    """Data and changelog files opened."""
    file_reads: int = 0
    """Reads of parts of these files."""
    file_bytes_read: int = 0
    """Bytes that these reads fetched."""
    corrupt_reads: int = 0
    """Reads that ended with CorruptFileError: a checksum did not fit, or a file was cut short."""
    snapshots_expired: int = 0
    """Snapshots that this process let expire."""
    files_deleted: int = 0
    """Files and manifests that went with them."""
    cache_hits: int = 0
    """Blocks that look-ups found in memory."""
    cache_misses: int = 0
    """Blocks that they did not."""
    cache_disk_hits: int = 0
    """Of these, blocks found on local disk."""
    cache_evictions: int = 0
    """Blocks that had to leave memory."""

    def as_dict(self) -> dict[str, int]:
        """The counters by name."""
        return asdict(self)


NAMES = tuple(field.name for field in fields(TableMetrics))


class Counters:
    """The counters of one open table. Thread-safe."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._lock = threading.Lock()
        self._values = dict.fromkeys(NAMES, 0)

    def add(self, **amounts: int) -> None:
        """Add to some counters, by the names in TableMetrics."""
        with self._lock:
            for name, amount in amounts.items():
                self._values[name] += amount
        listener = _listener
        if listener is not None:
            listener(self._uri, amounts)

    def reading(self, **others: int) -> TableMetrics:
        """The values of this moment, with counters that somebody else keeps."""
        with self._lock:
            return TableMetrics(**{**self._values, **others})


def listen(listener: Listener | None) -> None:
    """Have every addition in this process told from now on; None ends it."""
    global _listener  # noqa: PLW0603 - one exporter a process
    _listener = listener
