"""A file system in memory that knows what power loss would take, and that fails on demand.

Invariant: `File.synced_bytes` and `Directory.synced` change in `sync` alone.
"""

import errno
import functools
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Concatenate, ParamSpec, TypeVar

from lsmerge.env import Env
from lsmerge.storage.disk import Entry
from lsmerge.storage.power_loss import Aftermath, Chance, Directory, File, Keep, Node

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class _Fault:
    call: int
    error: OSError
    after: bool
    forever: bool

    def hits(self, call: int) -> bool:
        return call == self.call or (self.forever and call > self.call)


def _syscall(
    method: "Callable[Concatenate[MemoryDisk, P], R]",
) -> "Callable[Concatenate[MemoryDisk, P], R]":
    """Count, record and maybe fail a call; calls exclude each other."""

    @functools.wraps(method)
    def call(disk: "MemoryDisk", /, *args: P.args, **kwargs: P.kwargs) -> R:
        with disk._lock:
            fault = disk._enter(method.__name__)
            if fault is not None and not fault.after:
                raise fault.error
            result = method(disk, *args, **kwargs)
            if fault is not None:
                disk._forget_handles_from(result)
                raise fault.error
            return result

    return call


class MemoryDisk:
    """`Disk` held in memory. Thread-safe.

    `call_count` counts every call; `calls` holds their names unless `record` is False (a long-lived
    disk would grow without bound).
    """

    has_descriptors = False

    def __init__(self, env: Env | None = None, *, record: bool = True) -> None:
        self.call_count = 0
        self.calls: list[str] = []
        self.transfer_limit_bytes: int | None = None
        self._env = env or Env.system()
        self._record = record
        self._root = Directory(self._env.now_ms())
        self._handles: dict[int, Node] = {}
        self._next_handle = 3
        self._fault: _Fault | None = None
        self._lock = threading.RLock()

    @property
    def open_handles(self) -> int:
        """How many files and directories are open: 0 when nothing leaks."""
        return len(self._handles)

    def fail_at(
        self, n: int, error: OSError, *, after: bool = False, forever: bool = False
    ) -> None:
        """Let the n-th call from now (1 is the next) raise `error`.

        With `after` the call takes effect first, as when an answer is lost. With `forever` every
        later call raises too, as for a process that is dead. Replaces an earlier fault; `close`
        always takes effect.
        """
        self._fault = _Fault(self.call_count + n, error, after, forever)

    def heal(self) -> None:
        """Take the fault away."""
        self._fault = None

    def crash(self, rng: Chance, keep: Keep) -> "MemoryDisk":
        """A disk as found after power loss now; this one stays as it is.

        Of everything not synced `keep` leaves "none", "all", or "some" by `rng`.
        """
        with self._lock:
            disk = MemoryDisk(self._env, record=self._record)
            disk._root = Aftermath(rng, keep).directory(self._root)
            return disk

    @_syscall
    def open_root(self, path: str) -> int:
        node: Node = self._root
        for name in filter(None, path.split("/")):
            node = self._child(self._as_directory(node), name)
        return self._open(self._as_directory(node))

    @_syscall
    def open_directory(self, directory: int, name: str) -> int:
        return self._open(self._as_directory(self._child(self._directory(directory), name)))

    @_syscall
    def make_directory(self, directory: int, name: str) -> None:
        self._add(self._directory(directory), name, Directory(self._env.now_ms()))

    @_syscall
    def remove_directory(self, directory: int, name: str) -> None:
        at = self._directory(directory)
        if self._as_directory(self._child(at, name)).entries:
            raise _failure(errno.ENOTEMPTY)
        del at.entries[name]

    @_syscall
    def create_file(self, directory: int, name: str) -> int:
        file = File(self._env.now_ms())
        self._add(self._directory(directory), name, file)
        return self._open(file)

    @_syscall
    def open_file(self, directory: int, name: str) -> int:
        return self._open(self._child(self._directory(directory), name))

    @_syscall
    def stat_handle(self, handle: int) -> Entry:
        return _entry("", self._node(handle))

    @_syscall
    def stat(self, directory: int, name: str) -> Entry:
        return _entry(name, self._child(self._directory(directory), name))

    @_syscall
    def entries(self, directory: int) -> list[Entry]:
        found = self._directory(directory).entries
        return [_entry(name, node) for name, node in found.items()]

    @_syscall
    def read(self, handle: int, offset: int, into: memoryview) -> int:
        chunk = self._file(handle).data[offset : offset + self._limit(len(into))]
        into[: len(chunk)] = chunk
        return len(chunk)

    @_syscall
    def write(self, handle: int, data: memoryview) -> int:
        file = self._file(handle)
        taken = data[: self._limit(len(data))]
        file.data += taken
        file.modified_ms = self._env.now_ms()
        return len(taken)

    @_syscall
    def sync(self, handle: int) -> None:
        node = self._node(handle)
        if isinstance(node, File):
            node.synced_bytes = len(node.data)
        else:
            node.synced = dict(node.entries)

    @_syscall
    def close(self, handle: int) -> None:
        self._node(handle)
        del self._handles[handle]

    @_syscall
    def link(self, directory: int, name: str, new_name: str) -> None:
        at = self._directory(directory)
        self._add(at, new_name, self._child(at, name))

    @_syscall
    def rename(self, directory: int, name: str, new_name: str) -> None:
        at = self._directory(directory)
        node = self._child(at, name)
        if isinstance(at.entries.get(new_name), Directory):
            raise _failure(errno.EISDIR)
        at.entries[new_name] = node
        del at.entries[name]

    @_syscall
    def unlink(self, directory: int, name: str) -> None:
        at = self._directory(directory)
        if isinstance(self._child(at, name), Directory):
            raise _failure(errno.EISDIR)
        del at.entries[name]

    def _enter(self, name: str) -> _Fault | None:
        self.call_count += 1
        if self._record:
            self.calls.append(name)
        fault = self._fault
        if fault is None or not fault.hits(self.call_count):
            return None
        # A handle is gone after close, whatever close answers.
        return fault if name != "close" else _Fault(fault.call, fault.error, True, fault.forever)

    def _forget_handles_from(self, result: object) -> None:
        """The caller of an opening call that failed afterwards has no handle it could close."""
        if isinstance(result, int) and result == self._next_handle - 1:
            self._handles.pop(result, None)

    def _open(self, node: Node) -> int:
        handle = self._next_handle
        self._next_handle += 1
        self._handles[handle] = node
        return handle

    def _node(self, handle: int) -> Node:
        if handle not in self._handles:
            raise _failure(errno.EBADF)
        return self._handles[handle]

    def _directory(self, handle: int) -> Directory:
        return self._as_directory(self._node(handle))

    def _file(self, handle: int) -> File:
        node = self._node(handle)
        if isinstance(node, Directory):
            raise _failure(errno.EISDIR)
        return node

    def _limit(self, length: int) -> int:
        limit = self.transfer_limit_bytes
        return length if limit is None else min(limit, length)

    @staticmethod
    def _as_directory(node: Node) -> Directory:
        if isinstance(node, File):
            raise _failure(errno.ENOTDIR)
        return node

    @staticmethod
    def _child(directory: Directory, name: str) -> Node:
        if name not in directory.entries:
            raise _failure(errno.ENOENT)
        return directory.entries[name]

    @staticmethod
    def _add(directory: Directory, name: str, node: Node) -> None:
        if name in directory.entries:
            raise _failure(errno.EEXIST)
        directory.entries[name] = node


def _entry(name: str, node: Node) -> Entry:
    if isinstance(node, Directory):
        return Entry(name, "directory", 0, node.modified_ms)
    return Entry(name, "file", len(node.data), node.modified_ms)


def _failure(code: int) -> OSError:
    return OSError(code, os.strerror(code))
