"""The map of a table whose keys leave the partition open: which buckets of all partitions may hold a key.

It joins the index files of a version in layers (hash_layers.py) and follows from version to version: only index files
that came are read. It says no more than the index files do, and the table decides. Where layers are kept, and what an
earlier process left of them, layer_files.py knows. Thread-safe.
"""

import logging
import threading
from collections.abc import Hashable

from lsmerge.engine.hash_index import HashIndex, HashIndexCache
from lsmerge.engine.hash_layers import Layer, LivingLayers, Piece, followed
from lsmerge.engine.layer_files import LayerFiles
from lsmerge.engine.progress import FileHook, FileProgress
from lsmerge.meta.bucket_index import IndexFile
from lsmerge.meta.version import Version

NOTHING = LivingLayers([], ())
WORTH_TELLING = 1000
logger = logging.getLogger("lsmerge.key_map")


class KeyMap:
    """The layers of one open table, as of the newest version that was asked for."""

    def __init__(self, indexes: HashIndexCache, kept: LayerFiles) -> None:
        self._indexes = indexes
        self._kept = kept
        self._lock = threading.Lock()
        self._layers: list[Layer] = []
        self._files: dict[str, IndexFile] = {}
        self._newest_id = 0
        self._last: tuple[str, LivingLayers] | None = None

    def at(self, version: Version | None, hook: FileHook | None = None) -> LivingLayers:
        """What the index files of a version say together; `hook` is told of each that is read."""
        if version is None:
            return NOTHING
        with self._lock:
            if self._last is None or self._last[0] != version.snapshot.commit_uuid:
                try:
                    self._follow(version, hook)
                except BaseException:
                    # Half of it may be done; what is in files is taken up next time.
                    self._forget()
                    raise
                found = LivingLayers(self._layers, version.index_names)
                self._last = version.snapshot.commit_uuid, found
            return self._last[1]

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._forget()

    def _follow(self, version: Version, hook: FileHook | None) -> None:
        """Read what came; what is gone stays where the version is older than others that were asked for."""
        new = version.index_files_named(version.index_names - self._files.keys())
        covered = set() if self._files else self._take_up(version)
        come = [_piece(file) for file in new if file.name not in covered]
        is_newest = version.snapshot.id >= self._newest_id
        self._files |= {file.name: file for file in new}
        living = version.index_names if is_newest else self._files.keys()
        load = _Loading(self._indexes, self._files, len(come), hook)
        self._layers = list(followed(self._layers, living, come, load, self._kept.keep))
        self._files = {name: file for name, file in self._files.items() if name in living}
        self._newest_id = max(self._newest_id, version.snapshot.id)
        if load.done >= WORTH_TELLING:
            logger.info("%d index files joined in %d layers", load.done, len(self._layers))

    def _take_up(self, version: Version) -> set[Hashable]:
        """What an earlier process left; returns which files that covers."""
        self._layers = list(self._kept.found(version.index_names))
        return {source.piece.key for layer in self._layers for source in layer.sources}

    def _forget(self) -> None:
        self._kept.let_go(self._layers)
        self._layers, self._files, self._last = [], {}, None


class _Loading:
    """Reads index files, and tells of those that are new."""

    def __init__(
        self,
        indexes: HashIndexCache,
        files: dict[str, IndexFile],
        total: int,
        hook: FileHook | None,
    ) -> None:
        self._indexes = indexes
        self._files = files
        self._total = total
        self._hook = hook
        self.done = 0

    def __call__(self, piece: Piece) -> HashIndex:
        index = self._indexes.load([self._files[str(piece.key)]])
        self.done += 1
        if self._hook is not None and self.done <= self._total:
            self._hook(FileProgress(self.done, self._total))
        return index


def _piece(file: IndexFile) -> Piece:
    return Piece(file.name, file.partition, file.num_hashes)
