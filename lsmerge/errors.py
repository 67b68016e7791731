"""The error family: few, typed, located.

Every message stands alone in one line: a stable code, what was wrong and where (file and offset, column and
value, option and nearest name), and the way out. The code survives layers that lose the exception class.
"""

from collections.abc import Iterable
from typing import ClassVar


class LsmergeError(Exception):
    """Base of all errors raised on purpose by lsmerge."""

    code: ClassVar[str] = "LSMERGE"

    @staticmethod
    def hint(name: object, known: Iterable[str], listed_in: str | None = None) -> str:
        """What to say of a name that is not known: the nearest one that is, or else all, or where they are listed.

        >>> from lsmerge import LsmergeError
        >>> LsmergeError.hint("stauts", ["id", "status"])
        "did you mean 'status'?"
        """
        import difflib  # only on the way to an error

        choices = {choice.lower(): choice for choice in sorted(known)}
        near = difflib.get_close_matches(str(name).lower(), choices, n=1, cutoff=0.5)
        if near:
            return f"did you mean {choices[near[0]]!r}?"
        if listed_in is not None:
            return listed_in
        return f"known: {', '.join(choices.values())}" if choices else "there are none yet"

    def __str__(self) -> str:
        return f"[{self.code}] {super().__str__()}"


class CorruptFileError(LsmergeError):
    """Bytes of a table file are not what was written."""

    code = "CORRUPT_FILE"

    def __init__(self, path: str, reason: str, offset: int | None = None) -> None:
        self.path = path
        self.offset = offset
        self.was_counted = False  # once, however many levels of a read it passes
        where = path if offset is None else f"{path} at byte {offset}"
        super().__init__(f"{where}: {reason}")


class UnsupportedFormatError(LsmergeError):
    """A file or table was written by a version this one does not know."""

    code = "UNSUPPORTED_FORMAT"

    def __init__(self, path: str, found: object, supported: object) -> None:
        self.path = path
        super().__init__(
            f"{path}: format version {found!r} is not supported (this lsmerge reads {supported}); "
            "upgrade lsmerge to open the table"
        )


class StorageError(LsmergeError, OSError):
    """The store refused or failed an operation; nothing about the table's content is implied."""

    code = "STORAGE"

    def __init__(self, path: str, operation: str, reason: object) -> None:
        self.path = path
        self.operation = operation
        super().__init__(f"{operation} {path}: {reason}")

    @property
    def is_sync(self) -> bool:
        """Whether making bytes or names durable failed: what was written may be visible and yet not last."""
        return self.operation.startswith("sync")


class ObjectExistsError(StorageError, FileExistsError):
    """An object that must be new is already there."""

    code = "OBJECT_EXISTS"

    def __init__(self, path: str) -> None:
        super().__init__(path, "create", "already exists")


class ObjectNotFoundError(StorageError, FileNotFoundError):
    """An object that must be there is not."""

    code = "OBJECT_NOT_FOUND"

    def __init__(self, path: str) -> None:
        super().__init__(path, "read", "no such object")


class TableNotFoundError(LsmergeError, FileNotFoundError):
    """The location holds no lsmerge table."""

    code = "TABLE_NOT_FOUND"


class TableExistsError(LsmergeError, FileExistsError):
    """The location already holds a table, or something that is not one."""

    code = "TABLE_EXISTS"


class TableClosedError(LsmergeError):
    """The table or writer was closed, or an earlier failure made it unusable."""

    code = "TABLE_CLOSED"


class SchemaMismatchError(LsmergeError, ValueError):
    """Schema or data do not fit: the column, the value and what would be accepted are named.

    `row` is the number of the first row that does not fit, from 0 over all data of the call; None if no single row is
    to blame.
    """

    code = "SCHEMA_MISMATCH"

    def __init__(self, message: str, row: int | None = None) -> None:
        self.row = row
        super().__init__(message)


class MergeValueError(LsmergeError, ArithmeticError):
    """The values of a key cannot be combined: the key, the column and the way out are named."""

    code = "MERGE_VALUE"


class InvalidOptionError(LsmergeError, ValueError):
    """An option is unknown, malformed, or contradicts another one."""

    code = "INVALID_OPTION"


class NotRegisteredError(LsmergeError, LookupError):
    """A table names a merger or function that this process does not know; registering it is the way out."""

    code = "NOT_REGISTERED"


class MergerLawError(LsmergeError, AssertionError):
    """A merger breaks a promise that merging relies on; the rows that show it are in the message."""

    code = "MERGER_LAW"


class MissingPackageError(LsmergeError, ImportError):
    """A package that lsmerge does not bring with it is needed; how to install it is in the message."""

    code = "MISSING_PACKAGE"

    def __init__(self, package: str, purpose: str, install: str) -> None:
        self.package = package
        super().__init__(f"{purpose} needs the package {package}: pip install {install}")


class NotPlainError(LsmergeError):
    """The stored rows are not the visible ones, so only a scan can read them; what is in the way is named."""

    code = "NOT_PLAIN"


class InvalidFilterError(LsmergeError, ValueError):
    """A filter cannot be parsed or does not fit the schema."""

    code = "INVALID_FILTER"


class InvalidStatementError(LsmergeError, ValueError):
    """A statement cannot be read, names what is not there, or asks for what is not offered; its place is told."""

    code = "INVALID_STATEMENT"


class SnapshotNotFoundError(LsmergeError, LookupError):
    """The wanted snapshot does not exist, or no longer does."""

    code = "SNAPSHOT_NOT_FOUND"


class SnapshotExpiredError(SnapshotNotFoundError):
    """The snapshot was there once: it has expired, and its files may be gone."""

    code = "SNAPSHOT_EXPIRED"


class TagExistsError(LsmergeError, FileExistsError):
    """A tag of that name is there already."""

    code = "TAG_EXISTS"


class ChangelogBrokenError(LsmergeError):
    """The changes of a snapshot cannot be told one by one; the way on is to read the table again."""

    code = "CHANGELOG_BROKEN"


class CommitConflictError(LsmergeError):
    """Another commit took away what this one stands on; nothing was published."""

    code = "COMMIT_CONFLICT"


class CommitUnknownError(LsmergeError):
    """The store failed while publishing and could not say whether the commit is there."""

    code = "COMMIT_UNKNOWN"
