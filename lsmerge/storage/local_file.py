"""One file being written or read through a `Disk`, and the rules for its handles and failures.

Invariants:
- A failed sync is final: the file is dropped and its handle never synced again, since the kernel
  may have marked the lost pages clean.
- Every handle is closed exactly once on every path; an unpublished file is removed if the disk
  allows.
"""

import contextlib
import errno
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import pyarrow as pa

from lsmerge.errors import CorruptFileError, ObjectExistsError, StorageError
from lsmerge.failpoints import failpoint
from lsmerge.storage.disk import Disk
from lsmerge.storage.objects import Buffer, WriteOnly
from lsmerge.storage.stripe_check import StripeCheck
from lsmerge_native.buffers import BlockBuffer
from lsmerge_native.checksum import read_stripes

_LINK_ERRORS = frozenset({errno.ELOOP, errno.ENOTDIR})


@contextlib.contextmanager
def located(path: str, operation: str) -> Iterator[None]:
    """Turn an OSError of the disk into a StorageError that says what was done to which object."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(path, operation, _reason(error)) from error


@contextlib.contextmanager
def closing(disk: Disk, handle: int) -> Iterator[None]:
    """Close the handle at the end of the block, however it ends."""
    with closing_on_error(disk, handle):
        yield
    disk.close(handle)


@contextlib.contextmanager
def closing_on_error(disk: Disk, handle: int) -> Iterator[None]:
    """Close the handle only if the block raises; the block's own error is the one to report."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            disk.close(handle)
        raise


class LocalSink(WriteOnly):
    """`Sink` over a temporary file; owns the file's handle and that of its directory."""

    def __init__(
        self, path: str, disk: Disk, directory: int, file: int, names: tuple[str, str]
    ) -> None:
        """Requires: `file` is open under the first of `names`; the second is the one to publish."""
        self._path = path
        self._disk = disk
        self._directory: int | None = directory
        self._file: int | None = file
        self._temporary: str | None = names[0]
        self._name = names[1]
        self._written_bytes = 0
        self._broken = False

    @property
    def closed(self) -> bool:
        return self._directory is None

    def write(self, data: Buffer) -> int:
        if self._file is None:
            raise StorageError(self._path, "write", "the sink is closed")
        view = memoryview(data).cast("B")
        rest = view
        # A write that fails half-way must never be published, whatever the caller does next.
        self._broken = True
        with located(self._path, "write"):
            while rest:
                rest = rest[self._disk.write(self._file, rest) :]
                failpoint("file.after-write")
        self._broken = False
        self._written_bytes += len(view)
        return len(view)

    def tell(self) -> int:
        return self._written_bytes

    def close(self) -> None:
        directory = self._directory
        if directory is None:
            return
        try:
            self._finish_file(sync=True)
            with located(self._path, "publish"):
                self._link(directory)
            failpoint("file.after-link")
            self._remove_temporary()
            failpoint("file.after-unlink")
            with located(self._path, "sync directory of"):
                self._disk.sync(directory)
            failpoint("file.after-sync-directory")
        finally:
            self.abort()

    def close_replacing(self) -> None:
        """Publish in place of what is there: at once, but not durable."""
        directory, temporary = self._directory, self._temporary
        assert directory is not None
        assert temporary is not None
        try:
            self._finish_file(sync=False)
            with located(self._path, "replace"):
                self._disk.rename(directory, temporary, self._name)
            self._temporary = None
            failpoint("file.after-rename")
        finally:
            self.abort()

    def abort(self) -> None:
        with contextlib.suppress(OSError):
            self._close_file()
        self._remove_temporary()
        directory, self._directory = self._directory, None
        if directory is not None:
            with contextlib.suppress(OSError):
                self._disk.close(directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        self.abort()

    def _finish_file(self, *, sync: bool) -> None:
        if self._broken or self._file is None:
            raise StorageError(self._path, "close", "an earlier write failed")
        if sync:
            failpoint("file.before-sync")
            with located(self._path, "sync"):
                self._disk.sync(self._file)
            failpoint("file.after-sync")
        with located(self._path, "close"):
            self._close_file()

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            self._disk.close(file)

    def _link(self, directory: int) -> None:
        assert self._temporary is not None
        try:
            self._disk.link(directory, self._temporary, self._name)
        except FileExistsError:
            raise ObjectExistsError(self._path) from None

    def _remove_temporary(self) -> None:
        # Best effort: a temporary name that stays costs space until it is collected, and harms
        # nobody.
        temporary, self._temporary = self._temporary, None
        if temporary is not None and self._directory is not None:
            with contextlib.suppress(OSError):
                self._disk.unlink(self._directory, temporary)


class LocalSource:
    """`Source` over an open file."""

    def __init__(self, path: str, disk: Disk, handle: int, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._path = path
        self._disk = disk
        self._handle: int | None = handle

    def read(self, offset: int, length: int) -> pa.Buffer:
        buffer = self._allocate(offset, length)
        rest = memoryview(buffer).cast("B")
        with located(self._path, "read"):
            while rest:
                count = self._read_some(offset + length - len(rest), rest)
                if not count:
                    raise self._ends_early(offset, length)
                rest = rest[count:]
        return buffer

    def read_checked(self, offset: int, length: int, check: StripeCheck) -> pa.Buffer:
        if not self._disk.has_descriptors:
            data = self.read(offset, length)
            check.require(data, offset)
            return data
        buffer, handle = self._allocate(offset, length), self._open_handle()
        _, file_id, stripe_bytes, expected = check
        try:
            bad = read_stripes(handle, buffer, file_id, offset, stripe_bytes, expected)
        except EOFError:
            raise self._ends_early(offset, length) from None
        except OSError as error:
            raise StorageError(self._path, "read", _reason(error)) from error
        if bad >= 0:
            raise check.refusal(offset, bad)
        return buffer

    def close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            with located(self._path, "close"):
                self._disk.close(handle)

    def __del__(self) -> None:
        with contextlib.suppress(StorageError):
            self.close()

    def _allocate(self, offset: int, length: int) -> pa.Buffer:
        # Checked before: a damaged length must not ask for more memory than the file has.
        if offset < 0 or not 0 <= length <= self.size_bytes - offset:
            raise self._ends_early(offset, length)
        return pa.py_buffer(BlockBuffer(length))

    def _read_some(self, offset: int, into: memoryview) -> int:
        return self._disk.read(self._open_handle(), offset, into)

    def _open_handle(self) -> int:
        if self._handle is None:
            raise StorageError(self._path, "read", "the source is closed")
        return self._handle

    def _ends_early(self, offset: int, length: int) -> CorruptFileError:
        return CorruptFileError(
            self._path,
            f"ends early: {length} bytes wanted, the file has {self.size_bytes} in all",
            offset,
        )


def _reason(error: OSError) -> str:
    reason = f"{error.strerror} (errno {error.errno})" if error.strerror else str(error)
    if error.errno in _LINK_ERRORS:
        return f"{reason}; symbolic links inside a table are refused"
    return reason
