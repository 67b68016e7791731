"""Files that one process puts aside and nobody needs after it: no sync, and mostly gone with their last user."""

import os.path
import weakref

from lsmerge.env import Env
from lsmerge.errors import StorageError
from lsmerge.storage.local_store import LocalStore
from lsmerge.storage.posix_disk import PosixDisk


class _UnsyncedDisk(PosixDisk):
    def sync(self, handle: int) -> None:
        """Nothing: whoever could miss these bytes after a crash is gone with it."""


def open_unsynced(root: str, env: Env) -> LocalStore:
    """A store in a directory of the user's, for what may be lost; made by the first write."""
    return LocalStore(os.path.abspath(root), _UnsyncedDisk(), env=env)


def open_scratch(env: Env) -> LocalStore:
    """An empty store in the system's temporary directory (TMPDIR), deleted when the store is let go."""
    import shutil
    import tempfile

    try:
        root = tempfile.mkdtemp(prefix="lsmerge-")
    except OSError as error:
        reason = f"{error}; point TMPDIR at a directory with room"
        raise StorageError("lsmerge-*", "create a temporary directory", reason) from error
    store = open_unsynced(root, env)
    weakref.finalize(store, shutil.rmtree, root, ignore_errors=True)
    return store
