"""Disks in memory under a table: mounted at a URI, and with bits that flip on the way out."""

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lsmerge.storage import object_store
from lsmerge.storage.memory_disk import MemoryDisk
from lsmerge.storage.power_loss import File, Node

_names = itertools.count(1)


@contextlib.contextmanager
def mounted(disk: MemoryDisk) -> Iterator[str]:
    """The URI of a table directory on this disk."""
    name = f"disk-{next(_names)}"
    object_store._memory_disks[name] = disk
    try:
        yield f"memory://{name}/table"
    finally:
        del object_store._memory_disks[name]


def contents(disk: MemoryDisk) -> Any:
    """What is on a disk: bytes of files, by name within directories."""

    def of(node: Node) -> Any:
        if isinstance(node, File):
            return bytes(node.data)
        return {name: of(child) for name, child in node.entries.items()}

    return of(disk._root)


@dataclass(frozen=True)
class Flip:
    """One bit of one file."""

    file_name: str
    offset: int
    bit: int


class FlippingDisk(MemoryDisk):
    """Shows one bit of one file wrongly to every reader; the file itself stays as it is."""

    def __init__(self) -> None:
        super().__init__(record=False)
        self.flip: Flip | None = None
        self._names: dict[int, str] = {}

    def open_file(self, directory: int, name: str) -> int:
        handle = super().open_file(directory, name)
        self._names[handle] = name
        return handle

    def read(self, handle: int, offset: int, into: memoryview) -> int:
        length = super().read(handle, offset, into)
        flip = self.flip
        if flip is not None and self._names[handle] == flip.file_name:
            position = flip.offset - offset
            if 0 <= position < length:
                into[position] ^= 1 << flip.bit
        return length
