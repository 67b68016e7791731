"""Reads of open files, counted."""

import pyarrow as pa

from lsmerge.metrics import Counters
from lsmerge.storage.object_store import Source
from lsmerge.storage.stripe_check import StripeCheck


class CountedSource:
    """A source that tells its counters of every read; one read is many rows."""

    def __init__(self, source: Source, counters: Counters) -> None:
        self._source = source
        self._counters = counters
        counters.add(files_opened=1)

    @property
    def size_bytes(self) -> int:
        return self._source.size_bytes

    def read(self, offset: int, length: int) -> pa.Buffer:
        self._counters.add(file_reads=1, file_bytes_read=length)
        return self._source.read(offset, length)

    def read_checked(self, offset: int, length: int, check: StripeCheck) -> pa.Buffer:
        self._counters.add(file_reads=1, file_bytes_read=length)
        return self._source.read_checked(offset, length, check)

    def close(self) -> None:
        self._source.close()
