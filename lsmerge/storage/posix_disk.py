"""The real file system through `os`, one system call a method.

Everything below the table root is opened relative to an open directory and with O_NOFOLLOW, so a
symbolic link planted in a table is refused, not followed, even if it appears during the walk.
"""

import os
import stat

from lsmerge.storage.disk import Entry, EntryKind

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# O_NONBLOCK: opening a FIFO that someone put in place of a file must not wait for its writer.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class PosixDisk:
    """`Disk` over the operating system. Holds no state."""

    has_descriptors = True

    def open_root(self, path: str) -> int:
        return os.open(path, _DIRECTORY)

    def open_directory(self, directory: int, name: str) -> int:
        return os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)

    def make_directory(self, directory: int, name: str) -> None:
        os.mkdir(name, dir_fd=directory)

    def remove_directory(self, directory: int, name: str) -> None:
        os.rmdir(name, dir_fd=directory)

    def create_file(self, directory: int, name: str) -> int:
        return os.open(name, _CREATE, 0o666, dir_fd=directory)

    def open_file(self, directory: int, name: str) -> int:
        return os.open(name, _READ, dir_fd=directory)

    def stat_handle(self, handle: int) -> Entry:
        return _entry("", os.fstat(handle))

    def stat(self, directory: int, name: str) -> Entry:
        return _entry(name, os.stat(name, dir_fd=directory, follow_symlinks=False))

    def entries(self, directory: int) -> list[Entry]:
        found = []
        with os.scandir(directory) as scan:
            for item in scan:
                try:
                    found.append(_entry(item.name, item.stat(follow_symlinks=False)))
                except FileNotFoundError:  # deleted since the scan began
                    continue
        return found

    def read(self, handle: int, offset: int, into: memoryview) -> int:
        return os.preadv(handle, [into], offset)

    def write(self, handle: int, data: memoryview) -> int:
        return os.write(handle, data)

    def sync(self, handle: int) -> None:
        os.fsync(handle)

    def close(self, handle: int) -> None:
        os.close(handle)

    def link(self, directory: int, name: str, new_name: str) -> None:
        os.link(name, new_name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)

    def rename(self, directory: int, name: str, new_name: str) -> None:
        os.rename(name, new_name, src_dir_fd=directory, dst_dir_fd=directory)

    def unlink(self, directory: int, name: str) -> None:
        os.unlink(name, dir_fd=directory)


def _entry(name: str, status: os.stat_result) -> Entry:
    return Entry(name, _kind(status.st_mode), status.st_size, status.st_mtime_ns // 1_000_000)


def _kind(mode: int) -> EntryKind:
    if stat.S_ISREG(mode):
        return "file"
    return "directory" if stat.S_ISDIR(mode) else "foreign"
