"""What the metadata knows of one data file, and the edit that a flush or compaction asks to publish.

A file is immutable. Its identity is its name, unique for ever; its place (partition, bucket, level) and its
sequence base are properties of the manifest entry, not of the bytes.
"""

from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from typing import NamedTuple, TypeAlias

from lsmerge.meta.bucket_index import IndexFile
from lsmerge.storage.run_file import RunSummary


class FileKind(IntEnum):
    """What the rows of a file are for."""

    DATA = 0
    CHANGELOG = 1
    INDEX = 2


class CommitKind(StrEnum):
    """Why a snapshot was made."""

    APPEND = "append"
    COMPACT = "compact"
    OVERWRITE = "overwrite"
    RESCALE = "rescale"
    ROLLBACK = "rollback"
    SORT_COMPACT = "sort-compact"


# The text form of partition values, one for each partition column.
Partition: TypeAlias = tuple[str | None, ...]


class BucketId(NamedTuple):
    """A bucket: the text form of its partition values, and its number."""

    partition: Partition
    bucket: int


@dataclass(frozen=True, slots=True)
class DataFile:
    """One manifest entry.

    `sequence_base` is added to the sequence numbers stored in the file: a level-0 file stores arrival offsets
    and gets its base from the committer, a compacted file stores absolute numbers and has base 0. `num_buckets` is
    how many buckets its partition was split into; 0 if the file is older than this record.
    """

    place: BucketId
    level: int
    run: RunSummary
    schema_id: int
    created_ms: int
    sequence_base: int = 0
    kind: FileKind = FileKind.DATA
    num_buckets: int = 0

    @property
    def name(self) -> str:
        return self.run.name

    @property
    def is_data(self) -> bool:
        """Whether its rows are part of the table; a changelog file tells only what a snapshot changed."""
        return self.kind is FileKind.DATA

    @property
    def sequence_min(self) -> int:
        return self.sequence_base + self.run.sequence_min

    @property
    def sequence_max(self) -> int:
        return self.sequence_base + self.run.sequence_max

    def based_at(self, sequence_base: int) -> "DataFile":
        return replace(self, sequence_base=sequence_base)


@dataclass(frozen=True, slots=True)
class Edit:
    """The difference between two versions.

    Ensures (by the committer): appended level-0 files get ascending sequence bases in the order listed.
    Requires: an index file is removed only by an edit made for the snapshot it lands on, and only if one is added that
    holds its hashes, or if `moves_keys`: hashes change their buckets, so rows placed by an older index must be placed
    anew.

    `layout` is the `layout_since` of the snapshot whose bucket counts or indexes the added rows were placed by, None if
    nobody looked; `num_buckets` is the count of a partition that holds no files, -1 where buckets are dynamic.
    `has_compared` if its changelog was made by reading rows under the schema of the edit.
    """

    kind: CommitKind
    schema_id: int
    add: tuple[DataFile, ...] = ()
    remove: tuple[DataFile, ...] = ()
    add_index: tuple[IndexFile, ...] = ()
    remove_index: tuple[IndexFile, ...] = ()
    layout: int | None = None
    num_buckets: int = 0
    has_compared: bool = False
    moves_keys: bool = False
