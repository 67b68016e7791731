"""Where foreign decoders' complaints about bytes become errors that name the file."""

import struct
from types import TracebackType

import pyarrow as pa

from lsmerge.errors import CorruptFileError, LsmergeError


class decoding:  # noqa: N801 - reads as a statement
    """Turns what decoding raises into CorruptFileError.

    Our own errors and lack of memory pass as they are.
    """

    __slots__ = ("_offset", "_path")

    def __init__(self, path: str, offset: int | None = None) -> None:
        self._path = path
        self._offset = offset

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, _COMPLAINTS) and not isinstance(error, LsmergeError | MemoryError):
            raise CorruptFileError(
                self._path, f"cannot be decoded: {error}", self._offset
            ) from error


_COMPLAINTS = (pa.ArrowException, OSError, ValueError, LookupError, struct.error)
