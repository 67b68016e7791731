"""Files that one process puts aside and nobody reads after it: no sync, gone with their last user."""

import weakref

from lsmerge.env import Env
from lsmerge.errors import StorageError
from lsmerge.storage.local_store import LocalStore
from lsmerge.storage.posix_disk import PosixDisk


class _UnsyncedDisk(PosixDisk):
    def sync(self, handle: int) -> None:
        """Nothing: whoever could miss these bytes after a crash is gone with it."""


def open_scratch(env: Env) -> LocalStore:
    """An empty store in the system's temporary directory (TMPDIR), deleted when the store is let go."""
    import shutil
    import tempfile

    try:
        root = tempfile.mkdtemp(prefix="lsmerge-")
    except OSError as error:
        reason = f"{error}; point TMPDIR at a directory with room"
        raise StorageError("lsmerge-*", "create a temporary directory", reason) from error
    store = LocalStore(root, _UnsyncedDisk(), env=env)
    weakref.finalize(store, shutil.rmtree, root, ignore_errors=True)
    return store
