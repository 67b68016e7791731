"""Where the layers of a key map are kept: in memory as far as there is room, the others in files on local disk.

    a layer is made -> memory, if there is room -> else, or if files are to be kept, one unsynced file -> read at need

Without a directory the files go with the table object. In a directory of the user's they serve the next process: it
takes up what it finds and makes only what is missing, so a start that was interrupted goes on where it was. A file is
named after its own length and checksum; one that does not fit its name counts as never written. Nothing here is
needed: whatever is lost is made anew from the index files.
"""

import json
from collections.abc import Collection, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from lsmerge.engine.hash_index import buffer_of
from lsmerge.engine.hash_layers import Layer, MemoryLayer, Piece, Source
from lsmerge.env import Env
from lsmerge.errors import CorruptFileError, StorageError, UnsupportedFormatError
from lsmerge.meta.data_file import BucketId
from lsmerge.storage.decoding import decoding
from lsmerge.storage.local_store import LocalStore
from lsmerge.storage.object_store import Source as OpenFile
from lsmerge.storage.scratch import open_scratch, open_unsynced
from lsmerge_native.checksum import crc32c
from lsmerge_native.hash_map import HashMap, hash_map_from_parts

_SCHEMA = pa.schema(
    [
        pa.field("hash", pa.uint32(), nullable=False),
        pa.field("set", pa.uint16(), nullable=False),
    ]
)
_VERSION = b"1"


class LayerFiles:
    """Keeps layers; those in memory take at most `max_bytes` together."""

    def __init__(
        self, env: Env, max_bytes: int, retention_ms: int, directory: str | None = None
    ) -> None:
        self._env = env
        self._max_bytes = max_bytes
        self._retention_ms = retention_ms
        self._directory = directory
        self._store: LocalStore | None = None
        self._held = 0

    def keep(self, sources: Sequence[Source], content: HashMap) -> Layer:
        """A new layer."""
        if self._directory is None and self._has_room(content):
            return self._in_memory(MemoryLayer(sources, content), content)
        data = _encoded(sources, content)
        name = f"layer-{self._env.new_id()}-{data.size}-{crc32c(data):08x}"
        store = self._opened()
        store.put(name, data)
        return self._of_file(store, name, sources, content)

    def found(self, living: Collection[Hashable]) -> Iterator[Layer]:
        """What earlier processes left that is mostly alive; no piece is in two layers. Other files go after a while."""
        if self._directory is None:
            return
        covered: set[Hashable] = set()
        store, oldest_ms = self._opened(), self._env.now_ms() - self._retention_ms
        for info in sorted(store.list(""), key=lambda info: info.size_bytes, reverse=True):
            layer = self._taken_up(store, info.path, living, covered)
            if layer is not None:
                covered |= {source.piece.key for source in layer.sources}
                yield layer
            elif info.modified_ms < oldest_ms:
                _delete(store, info.path)

    def let_go(self, layers: Sequence[Layer]) -> None:
        """They are not used any more; files in a directory of the user's stay for the next process."""
        self._held = 0
        if self._directory is None:
            for layer in layers:
                layer.discard()
        self._store = None

    def _taken_up(
        self, store: LocalStore, name: str, living: Collection[Hashable], covered: set[Hashable]
    ) -> Layer | None:
        try:
            sources, content = _decoded(name, store.get(name))
            keys = {source.piece.key for source in sources}
            alive = sum(key in living for key in keys)
            if covered & keys or 2 * alive < len(keys):
                return None
            return self._of_file(store, name, sources, content)
        except (StorageError, CorruptFileError, UnsupportedFormatError):
            return None  # damaged, or another process has just let go of it

    def _of_file(
        self, store: LocalStore, name: str, sources: Sequence[Source], content: HashMap
    ) -> Layer:
        if self._has_room(content):
            return self._in_memory(_FileLayer(store, name, sources, content), content)
        return _FileLayer(store, name, sources)

    def _has_room(self, content: HashMap) -> bool:
        return self._held + content.nbytes <= self._max_bytes

    def _in_memory(self, layer: Layer, content: HashMap) -> Layer:
        self._held += content.nbytes
        return _Held(layer, self, content.nbytes)

    def give_back(self, nbytes: int) -> None:
        """A layer that was in memory is not used any more."""
        self._held = max(0, self._held - nbytes)

    def _opened(self) -> LocalStore:
        if self._store is None:
            self._store = (
                open_scratch(self._env)
                if self._directory is None
                else open_unsynced(self._directory, self._env)
            )
        return self._store


@dataclass(frozen=True, slots=True)
class _Held:
    """A layer in memory, which gives its room back."""

    layer: Layer
    files: LayerFiles
    nbytes: int

    @property
    def sources(self) -> Sequence[Source]:
        return self.layer.sources

    def map(self) -> HashMap:
        return self.layer.map()

    def discard(self) -> None:
        self.files.give_back(self.nbytes)
        self.layer.discard()


class _FileLayer:
    """A layer in a file, which stays open: it may lose its name, as temporary files do, but not its bytes."""

    def __init__(
        self,
        store: LocalStore,
        name: str,
        sources: Sequence[Source],
        content: HashMap | None = None,
    ) -> None:
        self._store = store
        self._name = name
        self.sources = sources
        self._content = content
        self._file: OpenFile | None = None if content is not None else store.open(name)

    def map(self) -> HashMap:
        if self._file is None:
            assert self._content is not None, "a layer without a file is in memory"
            return self._content
        return _decoded(self._name, self._file.read(0, self._file.size_bytes))[1]

    def discard(self) -> None:
        """Others may be reading: the file closes with the last of them."""
        _delete(self._store, self._name)


def _delete(store: LocalStore, name: str) -> None:
    with suppress(StorageError):  # then it goes later, or with the directory
        store.delete(name)


def _encoded(sources: Sequence[Source], content: HashMap) -> pa.Buffer:
    described = [
        [piece.key, piece.num_hashes, list(piece.partition), place.bucket]
        for piece, place in sources
    ]
    schema = _SCHEMA.with_metadata(
        {b"lsmerge.layer": _VERSION, b"sources": json.dumps(described).encode()}
    )
    hashes, sets = content.parts
    arrays = [
        pa.Array.from_buffers(field.type, len(content), [None, pa.py_buffer(part)])
        for field, part in zip(schema, (hashes, sets), strict=True)
    ]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return sink.getvalue()


def _decoded(name: str, data: pa.Buffer) -> tuple[list[Source], HashMap]:
    """What a file says, which is what was written: its name tells."""
    _, _, size, crc = f"{name}---".split("-")[:4]
    if f"{data.size}" != size or f"{crc32c(data):08x}" != crc:
        raise CorruptFileError(name, "is not what its name says; delete it")
    with decoding(name):
        reader = pa.ipc.open_file(pa.BufferReader(data))
        metadata = reader.schema.metadata or {}
        if metadata.get(b"lsmerge.layer") != _VERSION:
            raise UnsupportedFormatError(name, metadata.get(b"lsmerge.layer"), _VERSION.decode())
        hashes, sets = map(buffer_of, reader.get_batch(0).columns)
        sources = [
            Source(Piece(key, tuple(partition), count), BucketId(tuple(partition), bucket))
            for key, count, partition, bucket in json.loads(metadata[b"sources"])
        ]
        return sources, hash_map_from_parts(hashes, sets)
