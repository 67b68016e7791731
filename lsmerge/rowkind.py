"""Row kinds and the names of system columns.

A kind is stored as int8. Bit 0 set means *retract* (the row takes something back), clear means *add*.
"""

from enum import IntEnum


class RowKind(IntEnum):
    """What a row says about its key."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def symbol(self) -> str:
        """The two-character spelling used in `_row_kind` columns."""
        return SYMBOLS[self]


SYMBOLS: dict[RowKind, str] = {
    RowKind.INSERT: "+I",
    RowKind.UPDATE_BEFORE: "-U",
    RowKind.UPDATE_AFTER: "+U",
    RowKind.DELETE: "-D",
}

ROW_KIND_COLUMN = "_row_kind"
SNAPSHOT_ID_COLUMN = "_snapshot_id"
COMMIT_TIMESTAMP_COLUMN = "_commit_timestamp"

SEQUENCE_COLUMN = "_SEQUENCE_NUMBER"
KIND_COLUMN = "_VALUE_KIND"
WRITTEN_COLUMN = "_WRITTEN_FIELDS"

SYSTEM_COLUMNS = frozenset(
    {
        ROW_KIND_COLUMN,
        SNAPSHOT_ID_COLUMN,
        COMMIT_TIMESTAMP_COLUMN,
        SEQUENCE_COLUMN,
        KIND_COLUMN,
        WRITTEN_COLUMN,
    }
)
