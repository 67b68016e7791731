"""Whole objects whose length and checksum are kept by whoever refers to them."""

from typing import NamedTuple

import pyarrow as pa

from lsmerge.errors import CorruptFileError
from lsmerge.storage.object_store import ObjectStore
from lsmerge_native.checksum import crc32c


class Seal(NamedTuple):
    """What a reference must know of an object to notice any change of it."""

    size_bytes: int
    crc: int


def put_sealed(store: ObjectStore, path: str, data: pa.Buffer) -> Seal:
    """Create an object; the seal goes into whatever refers to it."""
    store.put(path, data)
    return Seal(data.size, crc32c(data))


def get_sealed(store: ObjectStore, path: str, seal: Seal) -> pa.Buffer:
    """The object's bytes, exactly as they were put."""
    data = store.get(path)
    if data.size != seal.size_bytes:
        raise CorruptFileError(path, f"has {data.size} bytes where {seal.size_bytes} were written")
    if crc32c(data) != seal.crc:
        raise CorruptFileError(path, "the checksum does not fit; restore the file from a copy")
    return data
