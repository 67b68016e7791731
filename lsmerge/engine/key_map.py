"""The map of a table whose keys leave the partition open: which buckets of all partitions may hold a key.

It joins the index files of a version in layers (hash_layers.py) and follows from version to version: only index files
that came are read. It says no more than the index files do, and the table decides. Thread-safe.
"""

import threading

from lsmerge.engine.hash_index import HashIndex, HashIndexCache
from lsmerge.engine.hash_layers import Layer, LivingLayers, Piece, followed
from lsmerge.meta.bucket_index import IndexFile
from lsmerge.meta.version import Version

NOTHING = LivingLayers([], ())


class KeyMap:
    """The layers of one open table, as of the newest version that was asked for."""

    def __init__(self, indexes: HashIndexCache) -> None:
        self._indexes = indexes
        self._lock = threading.Lock()
        self._layers: list[Layer] = []
        self._files: dict[str, IndexFile] = {}
        self._newest_id = 0
        self._last: tuple[str, LivingLayers] | None = None

    def at(self, version: Version | None) -> LivingLayers:
        """What the index files of a version say together."""
        if version is None:
            return NOTHING
        with self._lock:
            if self._last is None or self._last[0] != version.snapshot.commit_uuid:
                self._follow(version)
                found = LivingLayers(self._layers, version.index_names)
                self._last = version.snapshot.commit_uuid, found
            return self._last[1]

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._forget()

    def _follow(self, version: Version) -> None:
        """Read what came; what is gone stays where the version is older than others that were asked for."""
        is_newest = version.snapshot.id >= self._newest_id
        come = version.index_files_named(version.index_names - self._files.keys())
        self._files |= {file.name: file for file in come}
        living = version.index_names if is_newest else self._files.keys()
        self._layers = list(followed(self._layers, living, map(_piece, come), self._load))
        self._files = {name: file for name, file in self._files.items() if name in living}
        self._newest_id = max(self._newest_id, version.snapshot.id)

    def _load(self, piece: Piece) -> HashIndex:
        return self._indexes.load([self._files[str(piece.key)]])

    def _forget(self) -> None:
        for layer in self._layers:
            layer.discard()
        self._layers, self._files, self._last = [], {}, None


def _piece(file: IndexFile) -> Piece:
    return Piece(file.name, file.partition, file.num_hashes)
