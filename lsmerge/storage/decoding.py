"""Where foreign decoders' complaints about bytes become errors that name the file."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from lsmerge.errors import CorruptFileError, LsmergeError


@contextmanager
def decoding(path: str, offset: int | None = None) -> Iterator[None]:
    """Turn what decoding raises into CorruptFileError.

    Our own errors and lack of memory pass as they are.
    """
    try:
        yield
    except (LsmergeError, MemoryError):
        raise
    except (pa.ArrowException, OSError, ValueError, LookupError, struct.error) as error:
        raise CorruptFileError(path, f"cannot be decoded: {error}", offset) from error
