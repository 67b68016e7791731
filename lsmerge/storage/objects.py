"""What every store shares: how an object is named, described and handed over as bytes.

Invariant: a path that passed `check_path` names something strictly inside the table root on every
store.
"""

import sys
from typing import NamedTuple

from lsmerge.errors import StorageError

if sys.version_info >= (3, 12):
    from collections.abc import Buffer
else:
    from typing_extensions import Buffer

__all__ = [
    "TEMPORARY_PREFIX",
    "Buffer",
    "ObjectInfo",
    "WriteOnly",
    "check_path",
    "check_prefix",
    "is_temporary",
]

TEMPORARY_PREFIX = ".tmp-"
MAX_COMPONENT_BYTES = 255


class ObjectInfo(NamedTuple):
    """One stored object: where it is inside the store, how long, and when it was last written."""

    path: str
    size_bytes: int
    modified_ms: int


def check_path(path: str) -> tuple[str, ...]:
    """The components of a relative '/'-separated path.

    Ensures: no component is empty, '.' or '..', holds a NUL or a backslash (a separator to some
    tools), or is longer than file systems take; so joining them below a root never leaves it.
    """
    components = tuple(path.split("/"))
    for component in components:
        reason = _component_fault(component)
        if reason is not None:
            raise StorageError(
                repr(path), "name", f"{reason}; a path inside a table is relative, like 'a/b'"
            )
    return components


def check_prefix(prefix: str) -> tuple[str, ...]:
    """The components of a directory-like prefix; '' is the whole store."""
    return check_path(prefix) if prefix else ()


def is_temporary(name: str) -> bool:
    """Whether a last path component is that of an object still being written."""
    return name.startswith(TEMPORARY_PREFIX)


def _component_fault(component: str) -> str | None:
    if component in ("", ".", ".."):
        return f"component {component!r} is not allowed"
    if "\0" in component or "\\" in component:
        return f"component {component!r} holds a NUL or a backslash"
    try:
        encoded = component.encode()
    except UnicodeEncodeError:
        return f"component {component!r} is not valid Unicode"
    if len(encoded) > MAX_COMPONENT_BYTES:
        return f"a component is {len(encoded)} bytes long, the limit is {MAX_COMPONENT_BYTES}"
    return None


class WriteOnly:
    """The file methods that are the same for everything `pa.PythonFile` writes to."""

    def flush(self) -> None:
        """Nothing to do: bytes become durable at close, not before."""

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False
