"""The only way to bytes: the protocols of a store, and the choice of one by URI.

A store holds immutable objects under relative '/'-separated paths inside one table root
(`objects.check_path` says which).

Laws every store keeps (tests/test_object_store.py runs them over each):
1. An object is absent or whole; no reader meets a part of one.
2. Of any number of racing `put` or `create` on one path at most one succeeds, the others raise
   ObjectExistsError. (A cloud store limits this for `create` of large objects; see cloud_store.py.)
3. What `put` or `Sink.close` returned from survives power loss.
4. Any other StorageError from `put` or `Sink.close` leaves the outcome open: the object may be
   there, and may not be durable. Who must know reads it back; nobody repeats the call in the belief
   that nothing happened.
5. Failures are StorageError; bytes missing behind a known size are CorruptFileError.
"""

import builtins
import os.path
import threading
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self
from urllib.parse import unquote

import pyarrow as pa

from lsmerge.env import Env
from lsmerge.errors import InvalidOptionError
from lsmerge.storage.cloud_store import open_cloud_store
from lsmerge.storage.local_store import LocalStore
from lsmerge.storage.memory_disk import MemoryDisk
from lsmerge.storage.objects import Buffer, ObjectInfo, check_path
from lsmerge.storage.posix_disk import PosixDisk
from lsmerge.storage.stripe_check import StripeCheck

__all__ = ["Buffer", "ObjectInfo", "ObjectStore", "Sink", "Source", "open_store"]

_CLOUD_SCHEMES = ("s3", "gs", "az")

_memory_disks: dict[str, MemoryDisk] = {}
_memory_disks_lock = threading.Lock()


class Sink(Protocol):
    """A new object being written, invisible until closed. Not thread-safe.

    Has the file methods that `pa.PythonFile(sink, mode="w")` calls. As a context manager it closes
    on success and aborts on an exception; dropped without either, it aborts.
    """

    @property
    def closed(self) -> bool:
        """Whether it was closed or aborted."""

    def write(self, data: Buffer) -> int:
        """Append all of `data`, any contiguous buffer; returns its length in bytes.

        A failed write cannot be mended: close then raises and publishes nothing.
        """

    def tell(self) -> int:
        """Bytes written so far."""

    def flush(self) -> None:
        """Nothing: bytes become durable at close."""

    def readable(self) -> bool:
        """False."""

    def writable(self) -> bool:
        """True."""

    def seekable(self) -> bool:
        """False."""

    def close(self) -> None:
        """Publish: visible and durable on return. Raises ObjectExistsError if the path is taken.

        Closed afterwards even if it raises; a second close does nothing.
        """

    def abort(self) -> None:
        """Forget everything written; a failing store is no reason to raise. Nothing after close."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Source(Protocol):
    """One object opened for random reads, by any number of threads; close when none reads."""

    @property
    def size_bytes(self) -> int:
        """Length of the object."""

    def read(self, offset: int, length: int) -> pa.Buffer:
        """Exactly `length` bytes at `offset`, else CorruptFileError ("ends early").

        Never allocates more than the object has.
        """

    def read_checked(self, offset: int, length: int, check: StripeCheck) -> pa.Buffer:
        """The same bytes, of which every stripe has passed; else CorruptFileError."""

    def close(self) -> None:
        """Release it. Idempotent."""


class ObjectStore(Protocol):
    """Immutable objects under relative paths. Thread-safe."""

    @property
    def uri(self) -> str:
        """Where the store is, for messages; never holds a credential."""

    @property
    def is_settled(self) -> bool:
        """Whether a `put` that failed can no longer take effect; a request to a cloud store may still arrive."""

    def create(self, path: str) -> Sink:
        """Start a new object of any size."""

    def put(self, path: str, data: Buffer) -> None:
        """Create a whole object if absent; durable on return. Raises ObjectExistsError if taken."""

    def replace(self, path: str, data: Buffer) -> None:
        """Write a hint: readers see the old or the new content; power loss may leave anything."""

    def get(self, path: str) -> pa.Buffer:
        """The whole object. Raises ObjectNotFoundError."""

    def open(self, path: str) -> Source:
        """Open for random reads. Raises ObjectNotFoundError."""

    def exists(self, path: str) -> bool:
        """Whether the object is there; False for a directory."""

    def confirm(self, path: str) -> bool:
        """Settle a `put` with an open outcome: whether the object is there, durable if it is.

        Raises StorageError if that cannot be made sure. Whose object it is, its content tells.
        """

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Every finished object below the directory `prefix` ('' = all), in no promised order.

        A missing prefix has no objects; symbolic links and other foreign things are not objects.
        """

    def list_unfinished(self, prefix: str) -> Iterator[ObjectInfo]:
        """What writers left behind or are still writing; `delete` takes these paths too.

        The caller judges by age: a young one may belong to a live writer.
        """

    def delete(self, path: str, *, durable: bool = False) -> None:
        """Remove the object; absent is fine. Directories stay. With `durable` it stays removed after power loss."""

    def remove_empty_directories(self) -> None:
        """Remove directories that hold nothing, the root among them, where a store has such.

        What cannot be removed stays. Requires: nobody writes here.
        """

    def open_directories(self, prefixes: Sequence[str]) -> "builtins.list[int] | None":
        """File descriptors of directories, for the caller to close; None where one is missing or there are none."""


def open_store(
    uri: str, storage_options: Mapping[str, str] | None = None, *, env: Env | None = None
) -> ObjectStore:
    """The store at a path, `file://`, `memory://name`, `s3://`, `gs://` or `az://`.

    Opening touches nothing: a root that is missing is made by the first write.
    All stores of one process with the same memory name share their objects. Cloud options are those
    of obstore (`endpoint`, `region`, `access_key_id`, ..., `allow_http`, `timeout`); they appear in
    no message.
    """
    options = dict(storage_options or {})
    scheme, separator, rest = uri.partition("://")
    if separator and scheme in _CLOUD_SCHEMES:
        return open_cloud_store(uri, options)
    if options:
        raise InvalidOptionError(
            f"storage_options are for s3://, gs:// and az://; {uri!r} takes none "
            f"(given: {', '.join(sorted(options))})"
        )
    if scheme == "memory" and separator:
        return _memory_store(rest, env)
    return LocalStore(_local_root(uri), PosixDisk(), env=env)


def _local_root(uri: str) -> str:
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return os.path.abspath(_nonempty(uri, uri))
    if scheme != "file":
        raise InvalidOptionError(
            f"scheme {scheme!r} of {uri!r} is unknown; use a path, file://, memory://, "
            "s3://, gs:// or az://"
        )
    host, slash, path = rest.partition("/")
    if host not in ("", "localhost") or not slash:
        raise InvalidOptionError(f"{uri!r} is not an absolute file URI; write file:///path")
    return os.path.abspath("/" + unquote(path))


def _memory_store(rest: str, env: Env | None) -> LocalStore:
    name, *inside = check_path(_nonempty(rest.rstrip("/"), f"memory://{rest}"))
    with _memory_disks_lock:
        disk = _memory_disks.setdefault(name, MemoryDisk(env, record=False))
    root = "/" + "/".join(inside)
    return LocalStore(root, disk, env=env, uri=f"memory://{rest.rstrip('/')}")


def _nonempty(value: str, uri: str) -> str:
    if not value or "\0" in value:
        raise InvalidOptionError(f"{uri!r} names no location")
    return value
