"""What a power loss leaves of a tree of files in memory.

Stricter than any real disk: of a file only the bytes it had when it was last synced are sure, of a
directory only the names it had then. The rest is lost, kept, or kept in part: a file cut short with
blocks zeroed or full of garbage, every changed name of a directory decided on its own.

Invariant: files only grow, so a file's sure content is a prefix of its content.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar

Keep = Literal["none", "all", "some"]
T = TypeVar("T")

_TORN_BLOCK_BYTES = (1, 512, 4096)


class Chance(Protocol):
    """What a crash asks of `random.Random`."""

    def random(self) -> float: ...

    def randint(self, a: int, b: int) -> int: ...

    def choice(self, seq: Sequence[T]) -> T: ...

    def randbytes(self, n: int) -> bytes: ...


@dataclass(eq=False, slots=True)
class File:
    modified_ms: int
    data: bytearray = field(default_factory=bytearray)
    synced_bytes: int = 0


@dataclass(eq=False, slots=True)
class Directory:
    modified_ms: int
    entries: "dict[str, Node]" = field(default_factory=dict)
    synced: "dict[str, Node]" = field(default_factory=dict)


Node = File | Directory


class Aftermath:
    """What one power loss leaves of a tree; a file with two names stays one file."""

    def __init__(self, rng: Chance, keep: Keep) -> None:
        self._rng = rng
        self._keep = keep
        self._files: dict[int, File] = {}

    def directory(self, old: Directory) -> Directory:
        new = Directory(old.modified_ms)
        for name in sorted(old.entries.keys() | old.synced.keys()):
            node = self._surviving(old.synced.get(name), old.entries.get(name))
            if node is not None:
                new.entries[name] = self._node(node)
        new.synced = dict(new.entries)
        return new

    def _surviving(self, synced: Node | None, current: Node | None) -> Node | None:
        return current if synced is current or self._keeps() else synced

    def _keeps(self) -> bool:
        return self._keep == "all" or (self._keep == "some" and self._rng.random() < 0.5)

    def _node(self, old: Node) -> Node:
        if isinstance(old, Directory):
            return self.directory(old)
        if id(old) not in self._files:
            data = old.data[: old.synced_bytes] + self._tail(old.data[old.synced_bytes :])
            self._files[id(old)] = File(old.modified_ms, data, len(data))
        return self._files[id(old)]

    def _tail(self, unsynced: bytearray) -> bytearray:
        if self._keep != "some":
            return unsynced if self._keep == "all" else bytearray()
        kept = unsynced[: self._rng.randint(0, len(unsynced))]
        step = self._rng.choice(_TORN_BLOCK_BYTES)
        for start in range(0, len(kept), step):
            kept[start : start + step] = self._block(kept[start : start + step])
        return kept

    def _block(self, block: bytearray) -> bytes:
        state = self._rng.choice(("kept", "kept", "zeroed", "garbage"))
        if state == "kept":
            return bytes(block)
        return bytes(len(block)) if state == "zeroed" else self._rng.randbytes(len(block))
