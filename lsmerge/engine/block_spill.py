"""Decoded blocks on local disk: those that memory has no room for, where reading them again costs more.

    a block leaves memory -> one unsynced file in a scratch directory -> read back, checked, or forgotten

Bounded by bytes, least recently used first, and by the time since a block was last used. Nothing here is needed: a
file that is missing or damaged counts as never kept, and the directory goes with the table object. Thread-safe.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

import pyarrow as pa

from lsmerge.env import Env
from lsmerge.errors import StorageError
from lsmerge.storage.local_store import LocalStore
from lsmerge.storage.scratch import open_scratch
from lsmerge_native.checksum import crc32c


@dataclass(slots=True)
class _Kept:
    """A file and what it must hold; its name is never given again."""

    name: str
    size_bytes: int
    checksum: int
    schema: pa.Schema
    used_ms: int


class BlockSpill:
    """Blocks by key, each in a file of its own."""

    def __init__(self, env: Env, max_bytes: int, retention_ms: int) -> None:
        self._env = env
        self.max_bytes = max_bytes
        self._retention_ms = retention_ms
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._numbers = count()
        self._store: LocalStore | None = None
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, key: Hashable, batch: pa.RecordBatch) -> None:
        """Keep a block, unless it is kept already or the disk refuses."""
        now = self._env.now_ms()
        with self._lock:
            if self._touched(key, now) is not None:
                return
            store, name = self._opened(), f"block-{next(self._numbers)}"
        data = batch.serialize()
        if data.size > self.max_bytes:
            return
        with suppress(StorageError):
            store.put(name, data)
            self._add(key, _Kept(name, data.size, crc32c(data), batch.schema, now))
            self._delete(self._superfluous(now))

    def find(self, key: Hashable) -> pa.RecordBatch | None:
        """The block, exactly as it was kept; None if it is not there any more."""
        now = self._env.now_ms()
        self._delete(self._superfluous(now))
        with self._lock:
            kept = self._touched(key, now)
        return None if kept is None else self._read(key, kept)

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()
            self._store = None
            self.size_bytes = 0

    def _opened(self) -> LocalStore:
        if self._store is None:
            self._store = open_scratch(self._env)
        return self._store

    def _touched(self, key: Hashable, now: int) -> _Kept | None:
        kept = self._kept.get(key)
        if kept is not None:
            kept.used_ms = now
            self._kept.move_to_end(key)
        return kept

    def _add(self, key: Hashable, kept: _Kept) -> None:
        with self._lock:
            replaced = self._kept.pop(key, None)  # two threads may have kept the same block
            self._kept[key] = kept
            self.size_bytes += kept.size_bytes - (replaced.size_bytes if replaced else 0)
        self._delete([replaced] if replaced else [])

    def _superfluous(self, now: int) -> list[_Kept]:
        """Take out what is too old or too much, least recently used first."""
        out = []
        with self._lock:
            while self._kept:
                oldest = next(iter(self._kept.values()))
                is_over = oldest.used_ms + self._retention_ms <= now
                if not is_over and self.size_bytes <= self.max_bytes:
                    break
                out.append(self._kept.popitem(last=False)[1])
                self.size_bytes -= out[-1].size_bytes
        return out

    def _read(self, key: Hashable, kept: _Kept) -> pa.RecordBatch | None:
        data, store = None, self._store
        with suppress(StorageError):
            data = None if store is None else store.get(kept.name)
        if data is None or crc32c(data) != kept.checksum:
            self._forget(key, kept)
            return None
        return pa.ipc.read_record_batch(data, kept.schema)

    def _forget(self, key: Hashable, kept: _Kept) -> None:
        with self._lock:
            if self._kept.get(key) is kept:
                del self._kept[key]
                self.size_bytes -= kept.size_bytes
        self._delete([kept])

    def _delete(self, files: list[_Kept]) -> None:
        store = self._store
        if store is None:
            return
        for file in files:
            with suppress(StorageError):  # it goes with the directory
                store.delete(file.name)
