"""Whether names came or went in directories of a store, at next to no cost where the operating system tells."""

from collections.abc import Sequence

from lsmerge.storage.local_store import LocalStore
from lsmerge.storage.object_store import ObjectStore
from lsmerge_native.watch import DirectoryWatch

# A directory that was put in the place of a watched one is noticed after so long.
MAX_AGE_MS = 1000
# Longer than a tick of any kernel's clock, which is 10 ms at most.
GUARD_MS = 100


def watch(store: ObjectStore, directories: Sequence[str]) -> DirectoryWatch | None:
    """A watch of some directories from now on.

    None if it could vouch for nothing: the store has no such means, a directory is not there, or was changed just now.
    """
    if not isinstance(store, LocalStore):
        return None
    handles = store.open_directories(directories)
    if handles is None:
        return None
    begun = DirectoryWatch(handles, MAX_AGE_MS, GUARD_MS)
    return begun if begun.is_settled else None
