"""Disks in memory under a table: mounted at a URI, with bits that flip on the way out, and in a world that repeats."""

import contextlib
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lsmerge.env import Env
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


@contextlib.contextmanager
def repeated_world(number: int) -> Iterator[None]:
    """Clock, names and chance begin anew: what is done twice in the same world leaves the same bytes."""
    start_ms = 1_700_000_000_000 + number * 1_000_000
    system, env = Env.__dict__["system"], Env.seeded(number, start_ms)
    Env.system = classmethod(lambda _cls: env)
    try:
        yield
    finally:
        Env.system = system


def contents(disk: MemoryDisk) -> frozenset[tuple[str, bytes | None]]:
    """What is on a disk: every path with its bytes, a directory without."""
    return frozenset(_below("", disk._root))


def _below(path: str, node: Node) -> Iterator[tuple[str, bytes | None]]:
    if isinstance(node, File):
        yield path, bytes(node.data)
        return
    yield path, None
    for name, child in node.entries.items():
        yield from _below(f"{path}/{name}", child)


def distinct(disks: Iterable[MemoryDisk]) -> Iterator[MemoryDisk]:
    """Disks without those that hold what one before them held."""
    seen = set()
    for disk in disks:
        found = contents(disk)
        if found not in seen:
            seen.add(found)
            yield disk


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
