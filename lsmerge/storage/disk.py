"""The calls a file system must answer, as LocalStore makes them: one method is one system call.

Handles are small integers for files and directories alike. Names are single components, resolved
relative to an open directory, so no step of a walk can be redirected after it was taken. Failures
are OSError with the errno of the call.
"""

from typing import Literal, NamedTuple, Protocol

EntryKind = Literal["file", "directory", "foreign"]


class Entry(NamedTuple):
    """What a directory holds under a name; a symbolic link or device is "foreign"."""

    name: str
    kind: EntryKind
    size_bytes: int
    modified_ms: int


class Disk(Protocol):
    """System calls on a tree of files."""

    @property
    def has_descriptors(self) -> bool:
        """Whether handles are file descriptors: kernels then read and map files themselves, past `read`."""

    def open_root(self, path: str) -> int:
        """Open a directory by absolute path; links above and at the root are the user's own."""

    def open_directory(self, directory: int, name: str) -> int:
        """Open a directory; a symbolic link raises OSError (ENOTDIR or ELOOP)."""

    def make_directory(self, directory: int, name: str) -> None:
        """Make an empty directory; FileExistsError if the name is taken."""

    def remove_directory(self, directory: int, name: str) -> None:
        """Remove an empty directory; OSError (ENOTEMPTY) if it holds anything."""

    def create_file(self, directory: int, name: str) -> int:
        """Make and open an empty file for writing; FileExistsError if the name is taken."""

    def open_file(self, directory: int, name: str) -> int:
        """Open for reading without waiting; a symbolic link raises OSError (ELOOP)."""

    def stat_handle(self, handle: int) -> Entry:
        """Describe what is open; its name is ''."""

    def stat(self, directory: int, name: str) -> Entry:
        """Describe what the name holds; links are not followed."""

    def entries(self, directory: int) -> list[Entry]:
        """Describe everything in the directory; links are not followed."""

    def read(self, handle: int, offset: int, into: memoryview) -> int:
        """Fill `into` from `offset`; may stop early, 0 is the end of the file."""

    def write(self, handle: int, data: memoryview) -> int:
        """Append; may take less than all."""

    def sync(self, handle: int) -> None:
        """Make a file's bytes, or a directory's entries, survive power loss."""

    def close(self, handle: int) -> None:
        """Release the handle, even if it raises."""

    def link(self, directory: int, name: str, new_name: str) -> None:
        """Give a file a second name; FileExistsError if it is taken."""

    def rename(self, directory: int, name: str, new_name: str) -> None:
        """Move a file to a name, in place of what was there."""

    def unlink(self, directory: int, name: str) -> None:
        """Take a file's name away."""
