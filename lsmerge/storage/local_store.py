"""Objects as files: a store over the calls of a `Disk`.

Publishing one object, in the order strace shows for `put` into a known directory:

    openat(root), openat(component)...     the walk; every component O_NOFOLLOW
    newfstatat(name)                       put only: who has lost already need not write and sync
    openat(".tmp-<id>", O_CREAT|O_EXCL)
    write...
    fsync(file)                            the bytes are durable
    linkat(".tmp-<id>", name)              visible, all at once; fails if the name is taken
    unlinkat(".tmp-<id>")
    fsync(directory)                       the name is durable

The first write to a directory makes it if missing and syncs every directory above it, root's parent
included.

Invariant: a name that is not temporary leads to a whole, synced file, hints from `replace`
excepted.
"""

import builtins
import contextlib
import errno
import os.path
from collections.abc import Iterator, Sequence

import pyarrow as pa

from lsmerge.env import Env
from lsmerge.errors import ObjectExistsError, ObjectNotFoundError, StorageError
from lsmerge.failpoints import failpoint
from lsmerge.storage.disk import Disk, Entry
from lsmerge.storage.local_file import (
    LocalSink,
    LocalSource,
    closing,
    closing_on_error,
    located,
)
from lsmerge.storage.objects import (
    TEMPORARY_PREFIX,
    Buffer,
    ObjectInfo,
    check_path,
    check_prefix,
    is_temporary,
)

Components = tuple[str, ...]

# The parent of a root that exists may be closed to this user, or on a file system that cannot sync;
# then whoever made the root (or mounted it) had to make its entry durable.
_FOREIGN_PARENT = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EINVAL})


class LocalStore:
    """`ObjectStore` over a directory."""

    is_settled = True

    def __init__(
        self, root: str, disk: Disk, *, env: Env | None = None, uri: str | None = None
    ) -> None:
        """Requires: `root` is absolute. It is made, with its parents, by the first write."""
        self.uri = root if uri is None else uri
        self._root = root
        self._disk = disk
        self._new_id = (env or Env.system()).new_id
        # Directories whose entries, up to the root's, this store has synced. Finding a directory is
        # not enough: another process may have made it and not synced it yet.
        self._settled: set[Components] = set()

    def __repr__(self) -> str:
        return f"LocalStore({self.uri!r})"

    def create(self, path: str) -> LocalSink:
        parents, name = _split(path)
        return self._new_sink(path, self._settle(parents, path), name)

    def put(self, path: str, data: Buffer) -> None:
        parents, name = _split(path)
        directory = self._settle(parents, path)
        with closing_on_error(self._disk, directory), located(path, "stat"):
            if self._stat(directory, name) is not None:
                raise ObjectExistsError(path)
        with self._new_sink(path, directory, name) as sink:
            sink.write(data)

    def replace(self, path: str, data: Buffer) -> None:
        parents, name = _split(path)
        with self._new_sink(path, self._settle(parents, path), name) as sink:
            sink.write(data)
            sink.close_replacing()

    def get(self, path: str) -> pa.Buffer:
        with contextlib.closing(self.open(path)) as source:
            return source.read(0, source.size_bytes)

    def open(self, path: str) -> LocalSource:
        parents, name = _split(path)
        with located(path, "open"):
            try:
                handle = self._open_file(parents, name)
            except FileNotFoundError:
                raise ObjectNotFoundError(path) from None
            with closing_on_error(self._disk, handle):
                entry = self._disk.stat_handle(handle)
                if entry.kind != "file":
                    raise StorageError(path, "open", "is not a regular file")
        return LocalSource(path, self._disk, handle, entry.size_bytes)

    def exists(self, path: str) -> bool:
        parents, name = _split(path)
        with located(path, "stat"):
            entry = self._find(parents, name)
        if entry is not None and entry.kind == "foreign":
            raise StorageError(path, "stat", "is a symbolic link or a device, which is refused")
        return entry is not None and entry.kind == "file"

    def confirm(self, path: str) -> bool:
        if not self.exists(path):
            return False
        # The file was synced before it got its name, so only the name may still be at risk. A fresh
        # handle syncs it: what a failed handle would answer the second time means nothing.
        parents, _ = _split(path)
        directory = self._settle(parents, path)
        with located(path, "sync directory of"), closing(self._disk, directory):
            self._disk.sync(directory)
        return self.exists(path)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        parents = check_prefix(prefix)
        return (info for info in self._files(parents) if not _is_unfinished(info))

    def list_unfinished(self, prefix: str) -> Iterator[ObjectInfo]:
        return filter(_is_unfinished, self._files(check_prefix(prefix)))

    def delete(self, path: str, *, durable: bool = False) -> None:
        parents, name = _split(path)
        with located(path, "delete"), contextlib.suppress(FileNotFoundError):
            directory = self._walk(parents)
            with closing(self._disk, directory):
                failpoint("file.before-delete")
                with contextlib.suppress(FileNotFoundError):
                    self._disk.unlink(directory, name)
                failpoint("file.after-delete")
                if durable:
                    self._disk.sync(directory)
                    failpoint("file.after-sync-delete")

    def remove_empty_directories(self) -> None:
        self._remove_below(())
        above, name = os.path.split(self._root)
        with contextlib.suppress(OSError):
            parent = self._disk.open_root(above)
            with closing(self._disk, parent):
                self._disk.remove_directory(parent, name)

    def open_directories(self, prefixes: Sequence[str]) -> "builtins.list[int] | None":
        if not self._disk.has_descriptors:
            return None
        handles: builtins.list[int] = []
        try:
            handles.extend(self._walk(check_prefix(prefix)) for prefix in prefixes)
        except OSError:
            for handle in handles:
                self._disk.close(handle)
            return None
        return handles

    def _new_sink(self, path: str, directory: int, name: str) -> LocalSink:
        temporary = TEMPORARY_PREFIX + self._new_id()
        with closing_on_error(self._disk, directory), located(path, "create"):
            failpoint("file.before-create")
            file = self._disk.create_file(directory, temporary)
        sink = LocalSink(path, self._disk, directory, file, (temporary, name))
        failpoint("file.after-create")
        return sink

    def _files(self, parents: Components) -> Iterator[ObjectInfo]:
        # No handle is held across a yield, so an iterator may be dropped half-way.
        pending = [parents]
        while pending:
            above = pending.pop()
            for entry in self._entries(above):
                components = (*above, entry.name)
                if entry.kind == "directory":
                    pending.append(components)
                elif entry.kind == "file":
                    yield ObjectInfo("/".join(components), entry.size_bytes, entry.modified_ms)

    def _remove_below(self, components: Components) -> None:
        """Remove what is empty below a directory; what holds something foreign stays."""
        for entry in self._entries(components):
            if entry.kind != "directory":
                continue
            self._remove_below((*components, entry.name))
            with contextlib.suppress(OSError):
                directory = self._walk(components)
                with closing(self._disk, directory):
                    self._disk.remove_directory(directory, entry.name)

    def _entries(self, components: Components) -> "tuple[Entry, ...]":
        with located("/".join(components), "list"):
            try:
                directory = self._walk(components)
            except FileNotFoundError:  # never made, or removed meanwhile
                return ()
            with closing(self._disk, directory):
                return tuple(self._disk.entries(directory))

    def _find(self, parents: Components, name: str) -> Entry | None:
        try:
            directory = self._walk(parents)
        except FileNotFoundError:
            return None
        with closing(self._disk, directory):
            return self._stat(directory, name)

    def _stat(self, directory: int, name: str) -> Entry | None:
        try:
            return self._disk.stat(directory, name)
        except FileNotFoundError:
            return None

    def _open_file(self, parents: Components, name: str) -> int:
        directory = self._walk(parents)
        with closing_on_error(self._disk, directory):
            handle = self._disk.open_file(directory, name)
        with closing_on_error(self._disk, handle):
            self._disk.close(directory)
        return handle

    def _walk(self, components: Components) -> int:
        """Open a directory, following no link below the root."""
        directory = self._disk.open_root(self._root)
        for name in components:
            directory = self._step(directory, name)
        return directory

    def _step(self, directory: int, name: str) -> int:
        """Trade a directory's handle for that of one inside it."""
        with closing_on_error(self._disk, directory):
            below = self._disk.open_directory(directory, name)
        with closing_on_error(self._disk, below):
            self._disk.close(directory)
        return below

    def _settle(self, components: Components, path: str) -> int:
        """Open a directory to write in; on return it and every directory above it are durable."""
        with located(path, "open directory of"):
            if components in self._settled:
                with contextlib.suppress(FileNotFoundError):  # removed since: make it again
                    return self._walk(components)
            directory = self._settle_root(self._root)
            for name in components:
                directory = self._settle_step(directory, name)
        self._settled.add(components)
        return directory

    def _settle_root(self, root: str) -> int:
        above, name = os.path.split(root)
        try:
            directory = self._disk.open_root(root)
        except FileNotFoundError:
            if not name:
                raise
            return self._settle_step(self._settle_root(above), name)
        with closing_on_error(self._disk, directory):
            self._sync_parent_of_root(above)
        return directory

    def _sync_parent_of_root(self, above: str) -> None:
        try:
            parent = self._disk.open_root(above)
            with closing(self._disk, parent):
                self._disk.sync(parent)
        except OSError as error:
            if error.errno not in _FOREIGN_PARENT:
                raise

    def _settle_step(self, directory: int, name: str) -> int:
        """`_step` that makes a missing directory and syncs the one above."""
        with closing_on_error(self._disk, directory):
            if self._stat(directory, name) is None:
                failpoint("directory.before-make")
                with contextlib.suppress(FileExistsError):  # another writer was quicker
                    self._disk.make_directory(directory, name)
                failpoint("directory.after-make")
            self._disk.sync(directory)
            failpoint("directory.after-sync")
        return self._step(directory, name)


def _split(path: str) -> tuple[Components, str]:
    *parents, name = check_path(path)
    return tuple(parents), name


def _is_unfinished(info: ObjectInfo) -> bool:
    return is_temporary(info.path.rpartition("/")[2])
