"""Objects in S3, GCS or Azure through obstore, an optional dependency.

What is conditional, and how surely:
- `put` is one request with the store's own create-if-absent condition, never repeated by the
  client. A client that repeats a request whose answer was lost meets its own object and would
  report it as someone else's; so a lost answer is a StorageError here, and the caller settles it by
  reading back.
- `create` up to PART_BYTES is the same request at close. If its outcome is unknown it is repeated,
  and an object with exactly these bytes counts as this one: such names are unique, and nothing else
  would hold them.
- `create` beyond PART_BYTES streams a multipart upload, which obstore cannot make conditional: an
  object found there before completion is refused, one that appears at the same moment is replaced.
- An aborted multipart upload stays in the bucket, invisible, until the bucket's lifecycle rule
  collects it.

Credentials live inside the client; no message, repr or shown cause carries one.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self

import pyarrow as pa

from lsmerge.errors import (
    CorruptFileError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
)
from lsmerge.storage.cloud_client import Client, Redact, Upload, check_uri, connect, redactor
from lsmerge.storage.objects import Buffer, ObjectInfo, WriteOnly, check_path, check_prefix
from lsmerge.storage.stripe_check import StripeCheck

PART_BYTES = 8 * 1024 * 1024


def open_cloud_store(uri: str, storage_options: Mapping[str, str]) -> "CloudStore":
    """Connect to `scheme://bucket/prefix`; nothing is sent yet."""
    check_uri(uri)
    redact = redactor(storage_options)
    return CloudStore(
        uri.rstrip("/"),
        connect(uri, storage_options, redact, None),
        connect(uri, storage_options, redact, {"max_retries": 0}),
        redact,
    )


class CloudStore:
    """`ObjectStore` over an obstore client that repeats failed requests, and one that does not."""

    is_settled = False

    def __init__(self, uri: str, client: Client, once: Client, redact: Redact) -> None:
        self.uri = uri
        self._client = client
        self._once = once
        self._redact = redact

    def __repr__(self) -> str:
        return f"CloudStore({self.uri!r})"

    def create(self, path: str) -> "CloudSink":
        check_path(path)
        return CloudSink(path, self)

    def put(self, path: str, data: Buffer) -> None:
        check_path(path)
        try:
            self._put_absent(self._once, path, data)
        except ObjectExistsError:
            # A store may also answer "conflict" while another creation is under way and may yet
            # fail.
            if self.exists(path):
                raise
            raise StorageError(path, "put", "met a creation that was not finished") from None

    def replace(self, path: str, data: Buffer) -> None:
        check_path(path)
        with self.located(path, "replace"):
            self._client.put(path, memoryview(data).cast("B"), use_multipart=False)

    def get(self, path: str) -> pa.Buffer:
        check_path(path)
        with self.located(path, "get"):
            return pa.py_buffer(self._client.get(path).bytes())

    def open(self, path: str) -> "CloudSource":
        check_path(path)
        with self.located(path, "open"):
            return CloudSource(path, self, self._client.head(path)["size"])

    def exists(self, path: str) -> bool:
        try:
            self.open(path)
        except ObjectNotFoundError:
            return False
        return True

    def confirm(self, path: str) -> bool:
        return self.exists(path)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        check_prefix(prefix)
        return self._list(prefix)

    def list_unfinished(self, prefix: str) -> Iterator[ObjectInfo]:
        """Nothing: what an unfinished upload left is out of obstore's sight."""
        check_prefix(prefix)
        return iter(())

    def delete(self, path: str, *, durable: bool = False) -> None:  # noqa: ARG002 - always is
        check_path(path)
        with self.located(path, "delete"), contextlib.suppress(FileNotFoundError):
            self._client.delete(path)

    def remove_empty_directories(self) -> None:
        """Nothing: a name with slashes makes no directories."""

    def open_directories(self, prefixes: Sequence[str]) -> None:
        """None: see `remove_empty_directories`."""

    def put_unique(self, path: str, data: Buffer) -> None:
        """Create under a name nobody else uses, repeating the request as long as that may help."""
        try:
            self._put_absent(self._once, path, data)
        except ObjectExistsError:
            raise
        except StorageError:
            self._put_again(path, data)

    def start_upload(self, path: str) -> Upload:
        """Begin a multipart upload; only its close makes the object."""
        import obstore

        return obstore.open_writer(self._client, path, buffer_size=PART_BYTES)

    def read_range(self, path: str, offset: int, length: int) -> pa.Buffer:
        """Up to `length` bytes at `offset`. Requires: the range is not empty and begins inside."""
        with self.located(path, "read"):
            return pa.py_buffer(self._client.get_range(path, start=offset, length=length))

    @contextlib.contextmanager
    def located(self, path: str, operation: str) -> Iterator[None]:
        """Turn obstore's errors into ours, without the originals: they may quote a signed URL."""
        from obstore.exceptions import AlreadyExistsError, BaseError

        try:
            yield
        except StorageError:
            raise
        except AlreadyExistsError:
            raise ObjectExistsError(path) from None
        except FileNotFoundError:
            raise ObjectNotFoundError(path) from None
        except (BaseError, OSError, ValueError) as error:
            raise StorageError(path, operation, self._redact(error)) from None

    def _put_absent(self, client: Client, path: str, data: Buffer) -> None:
        with self.located(path, "put"):
            client.put(path, memoryview(data).cast("B"), mode="create", use_multipart=False)

    def _put_again(self, path: str, data: Buffer) -> None:
        try:
            self._put_absent(self._client, path, data)
        except ObjectExistsError:
            if not self.get(path).equals(pa.py_buffer(data)):
                raise

    def _list(self, prefix: str) -> Iterator[ObjectInfo]:
        with self.located(prefix, "list"):
            for page in self._client.list(prefix or None, chunk_size=1000):
                for meta in page:
                    yield ObjectInfo(meta["path"], meta["size"], _millis(meta["last_modified"]))


class CloudSink(WriteOnly):
    """`Sink` that holds up to one part and streams what is longer."""

    def __init__(self, path: str, store: CloudStore) -> None:
        self._path = path
        self._store = store
        self._held: bytearray | None = bytearray()
        self._upload: Upload | None = None
        self._written_bytes = 0
        self._broken = False

    @property
    def closed(self) -> bool:
        return self._held is None

    def write(self, data: Buffer) -> int:
        if self._held is None:
            raise StorageError(self._path, "write", "the sink is closed")
        view = memoryview(data).cast("B")
        if self._upload is None and len(self._held) + len(view) <= PART_BYTES:
            self._held += view
        else:
            self._stream(self._held, view)
        self._written_bytes += len(view)
        return len(view)

    def tell(self) -> int:
        return self._written_bytes

    def close(self) -> None:
        held, upload = self._held, self._upload
        if held is None:
            return
        self.abort()
        if self._broken:
            raise StorageError(self._path, "close", "an earlier write failed")
        if upload is None:
            self._store.put_unique(self._path, held)
        else:
            self._complete(upload)

    def abort(self) -> None:
        # An upload that is dropped is never completed; obstore has no other way to give one up.
        self._held = None
        self._upload = None

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

    def _stream(self, held: bytearray, view: memoryview) -> None:
        self._broken = True
        with self._store.located(self._path, "write"):
            if self._upload is None:
                self._upload = self._store.start_upload(self._path)
                self._upload.write(bytes(held))
                held.clear()
            self._upload.write(view)
        self._broken = False

    def _complete(self, upload: Upload) -> None:
        if self._store.exists(self._path):
            raise ObjectExistsError(self._path)
        with self._store.located(self._path, "close"):
            upload.close()


class CloudSource:
    """`Source` over ranged requests; holds no connection."""

    def __init__(self, path: str, store: CloudStore, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._path = path
        self._store = store
        self._closed = False

    def read(self, offset: int, length: int) -> pa.Buffer:
        if self._closed:
            raise StorageError(self._path, "read", "the source is closed")
        if offset < 0 or not 0 <= length <= self.size_bytes - offset:
            raise self._ends_early(offset, length)
        if not length:
            return pa.py_buffer(b"")
        buffer = self._store.read_range(self._path, offset, length)
        if buffer.size != length:
            raise self._ends_early(offset, length)
        return buffer

    def read_checked(self, offset: int, length: int, check: StripeCheck) -> pa.Buffer:
        data = self.read(offset, length)
        check.require(data, offset)
        return data

    def close(self) -> None:
        self._closed = True

    def _ends_early(self, offset: int, length: int) -> CorruptFileError:
        return CorruptFileError(
            self._path,
            f"ends early: {length} bytes wanted, the object has {self.size_bytes} in all",
            offset,
        )


def _millis(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
