"""What the program answers when something goes wrong: one line on standard error, and a number for scripts."""

import sys
import traceback
from typing import Final

import click

from lsmerge import (
    ChangelogBrokenError,
    CommitConflictError,
    CommitUnknownError,
    CorruptFileError,
    InvalidFilterError,
    InvalidOptionError,
    InvalidStatementError,
    LsmergeError,
    MergeValueError,
    NotRegisteredError,
    SchemaMismatchError,
    SnapshotNotFoundError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
    TagExistsError,
    UnsupportedFormatError,
)
from lsmerge.statements.grid import printable
from lsmerge.statements.ways_out import for_command_line

DONE: Final = 0
ANSWER_IS_NO: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 3
EXISTS: Final = 4
DATA: Final = 5
DAMAGE: Final = 6
STORAGE: Final = 7
CONFLICT: Final = 8
OTHER: Final = 9
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141

# The first family that an error belongs to counts.
FAMILIES: tuple[tuple[tuple[type[BaseException], ...], int], ...] = (
    (
        (
            *(click.UsageError, InvalidOptionError, InvalidFilterError, InvalidStatementError),
            NotRegisteredError,
        ),
        USAGE,
    ),
    ((TableNotFoundError, SnapshotNotFoundError, ChangelogBrokenError), NOT_FOUND),
    ((TableExistsError, TagExistsError), EXISTS),
    ((SchemaMismatchError, MergeValueError), DATA),
    ((CorruptFileError, UnsupportedFormatError), DAMAGE),
    ((CommitConflictError, CommitUnknownError), CONFLICT),
    ((StorageError, click.FileError, OSError), STORAGE),
)
EXPECTED = (click.ClickException, LsmergeError, OSError)


def exit_code(error: BaseException) -> int:
    """The number for an error that was foreseen."""
    return next((code for family, code in FAMILIES if isinstance(error, family)), OTHER)


def report(error: BaseException, *, debug: bool) -> int:
    """Say what went wrong in one line, after the way there if `debug`; the number to exit with."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        print(error.format_message(), file=sys.stderr)
        return USAGE
    if debug:
        traceback.print_exception(error)
    print(f"lsmerge: {printable(' '.join(_message(error).split()))}", file=sys.stderr)
    return exit_code(error)


def _message(error: BaseException) -> str:
    if isinstance(error, click.UsageError):
        return f"{error.format_message()} {_help(error)}"
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, OSError) and not isinstance(error, LsmergeError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    told = for_command_line(str(error))
    if isinstance(error, NotRegisteredError):
        return f"{told} (--import MODULE imports the one that does so)"
    return told


def _help(error: click.UsageError) -> str:
    if error.ctx is None:
        return ""
    command = error.ctx.command_path
    if isinstance(error, click.NoSuchOption) and error.option_name.lstrip("-").isdigit():
        return f"What begins with - and is no option goes behind --, as in: {command} TABLE -- -1"
    return f"(see: {command} --help)"
