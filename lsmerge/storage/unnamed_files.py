"""Bytes put on local disk without a name, and mapped: memory that the operating system may take back and fill again.

A file loses its name before it has any bytes, so nobody else can shorten or change it, and neither a crash nor a fork
leaves anything behind. It is written by calls that can fail, never through the mapping, and goes with its last user.
Nothing is synced.
"""

import errno
import os
from functools import cached_property

import pyarrow as pa

from lsmerge.errors import StorageError
from lsmerge.storage.local_file import located
from lsmerge_native.checksum import crc32c
from lsmerge_native.mapping import MappedFile, is_on_disk, num_mapped

# Where systems that have their temporary directory in memory keep large temporary files.
ON_DISK = "/var/tmp"  # noqa: S108 - files get no name there
# Half of the mappings that a process may have by default: one that has them all cannot allocate memory any more.
MAX_FILES = 32768
_WHAT = "unnamed file"


class UnnamedFiles:
    """Files in the first of two directories that is on a disk of this machine: TMPDIR and /var/tmp."""

    def free_bytes(self) -> int:
        """What the disk has left; 0 if there is none, or no address space to spare."""
        if self._directory is None or _is_address_space_limited():
            return 0
        try:
            status = os.statvfs(self._directory)
        except OSError:  # removed since
            return 0
        return status.f_bavail * status.f_frsize

    def has_room(self) -> bool:
        """Whether the process, all its tables together, may have one more. Threads that ask at once may exceed it."""
        return num_mapped() < MAX_FILES

    def put(self, data: pa.Buffer) -> pa.Buffer:
        """The same bytes, on disk; they are there for as long as the buffer is. StorageError if the disk refuses."""
        import tempfile

        with (
            located(_WHAT, "write"),
            tempfile.TemporaryFile(buffering=0, dir=self._directory) as file,
        ):
            _write(file.fileno(), data)
            mapped = pa.py_buffer(MappedFile(file.fileno(), data.size))
        if crc32c(mapped) != crc32c(data):
            raise StorageError(_WHAT, "map", "it does not hold what was written")
        return mapped

    @cached_property
    def _directory(self) -> str | None:
        import tempfile

        try:
            candidates = (tempfile.gettempdir(), ON_DISK)
        except FileNotFoundError:  # nothing can be written anywhere
            return None
        return next((one for one in candidates if _is_disk(one)), None)


def _write(handle: int, data: pa.Buffer) -> None:
    rest = memoryview(data)
    while rest:
        written = os.write(handle, rest)
        if not written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        rest = rest[written:]


def _is_disk(directory: str) -> bool:
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.access(directory, os.W_OK) and is_on_disk(handle)
    finally:
        os.close(handle)


def _is_address_space_limited() -> bool:
    """Whether mappings would take from what may be allocated (`ulimit -v`)."""
    import resource

    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
