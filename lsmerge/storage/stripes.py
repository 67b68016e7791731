"""Checksummed stripes: every byte of a run file is bound to its file and its place.

A run file is cut into segments (head, each block, key filter) and each segment into stripes of
STRIPE_BYTES, the last of which may be short. The checksum of a stripe at absolute offset `o` of the
file named `n` is

    crc32c(n || o as 8 little-endian bytes || stripe)

so a stripe of another file, or of another place in the same file, does not pass. Stripes begin anew
with each segment, so reading a whole block reads nothing else. The tail (index section and footer)
is one stripe of any length, whose checksum is kept outside the file.
"""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate

import pyarrow as pa

from lsmerge.errors import CorruptFileError, LsmergeError
from lsmerge.storage.object_store import Buffer, Sink, Source
from lsmerge.storage.objects import WriteOnly
from lsmerge.storage.stripe_check import StripeCheck
from lsmerge_native.checksum import crc32c, stripe_checksums

STRIPE_BYTES = 65536
CHECKSUM_BYTES = 4


def stripe_seed(file_id: bytes, offset: int) -> int:
    """The checksum that a stripe at `offset` continues."""
    return crc32c(file_id + offset.to_bytes(8, "little"))


def count_stripes(segment_lengths: Iterable[int], stripe_bytes: int = STRIPE_BYTES) -> int:
    """How many stripes segments of these lengths have."""
    return sum(-(-length // stripe_bytes) for length in segment_lengths)


class StripedSink(WriteOnly):
    """Passes bytes on to a Sink and checksums them on the way.

    Has the file methods that `pa.PythonFile(..., mode="w")` calls. `close` does nothing and `write`
    after `abort` is dropped, because format writers write their footer and close the file when they
    are garbage-collected; only `publish` makes the file visible.
    """

    def __init__(self, sink: Sink, file_id: bytes, head_length: int) -> None:
        """The first segment ends by itself after `head_length` bytes, as format writers go on from
        their head to the first block unasked.
        """
        self.position = 0
        self.closed = False
        self._sink = sink
        self._file_id = file_id
        self._head_length = head_length
        self._stripe_start = 0
        self._crc = stripe_seed(file_id, 0)
        self._checksums = bytearray()
        self._in_tail = False

    @property
    def checksums(self) -> bytes:
        """Of all finished stripes, 4 little-endian bytes each."""
        return bytes(self._checksums)

    @property
    def tail_crc(self) -> int:
        """Checksum of everything written since `begin_tail`."""
        assert self._in_tail
        return self._crc

    def write(self, data: Buffer) -> int:
        view = memoryview(data).cast("B")
        if self.closed:
            return len(view)
        self._sink.write(view)
        self._pass_head(len(view))
        self._absorb(view)
        self.position += len(view)
        return len(view)

    def cut(self) -> None:
        """End the segment: the next byte begins a new stripe."""
        if self.position > self._stripe_start:
            self._checksums += self._crc.to_bytes(CHECKSUM_BYTES, "little")
        self._begin_stripe(self.position)

    def begin_tail(self) -> None:
        """End the last segment; all that follows is one checksum."""
        self.cut()
        self._in_tail = True

    def publish(self) -> None:
        """Make the file durable and visible."""
        self.closed = True
        self._sink.close()

    def abort(self) -> None:
        """Forget the file."""
        self.closed = True
        self._sink.abort()

    def tell(self) -> int:
        return self.position

    def close(self) -> None:
        return None

    def _pass_head(self, length: int) -> None:
        if self.position == self._head_length:
            self.cut()
        elif self.position < self._head_length < self.position + length:
            raise LsmergeError(
                f"the format writer did not end its head at byte {self._head_length}; "
                "this pyarrow version writes another layout"
            )

    def _begin_stripe(self, offset: int) -> None:
        self._stripe_start = offset
        self._crc = stripe_seed(self._file_id, offset)

    def _absorb(self, view: memoryview) -> None:
        if self._in_tail:
            self._crc = crc32c(view, self._crc)
            return
        done = self._absorb_begun_stripe(view)
        whole = (len(view) - done) // STRIPE_BYTES * STRIPE_BYTES
        if whole:
            offset = self.position + done
            stripes = view[done : done + whole]
            self._checksums += stripe_checksums(stripes, self._file_id, offset, STRIPE_BYTES)
            done += whole
            self._begin_stripe(self.position + done)
        if done < len(view):
            self._crc = crc32c(view[done:], self._crc)

    def _absorb_begun_stripe(self, view: memoryview) -> int:
        """Continue a stripe that is partly written; returns how much of `view` it took."""
        filled = self.position - self._stripe_start
        if filled == 0:
            return 0
        part = view[: STRIPE_BYTES - filled]
        self._crc = crc32c(part, self._crc)
        if filled + len(part) == STRIPE_BYTES:
            self._checksums += self._crc.to_bytes(CHECKSUM_BYTES, "little")
            self._begin_stripe(self._stripe_start + STRIPE_BYTES)
        return len(part)


class StripedSource:
    """Reads ranges of a Source and hands out only bytes whose stripes passed. Thread-safe.

    Nothing is remembered between reads: the bytes come from the store anew, so they are checked
    anew.
    """

    def __init__(
        self,
        path: str,
        source: Source,
        segment_lengths: Iterable[int],
        checksums: Buffer,
        stripe_bytes: int = STRIPE_BYTES,
    ) -> None:
        """Requires: `checksums` holds one checksum for each stripe of the segments."""
        lengths = tuple(segment_lengths)
        self.path = path
        self._source = source
        self._file_id = file_id_of(path)
        self._checksums = memoryview(checksums).cast("B")
        self._stripe_bytes = stripe_bytes
        self._starts = (0, *accumulate(lengths))
        self._first_stripes = (
            0,
            *accumulate(count_stripes((length,), stripe_bytes) for length in lengths),
        )

    @property
    def size_bytes(self) -> int:
        """Length of the whole file, tail included."""
        return self._source.size_bytes

    def segment(self, number: int) -> tuple[int, int]:
        """Offset and length of a segment."""
        start, stop = self._starts[number : number + 2]
        return start, stop - start

    def read(self, offset: int, length: int) -> pa.Buffer:
        """The bytes of a range inside one segment; reads the whole stripes that cover it."""
        number = bisect_right(self._starts, offset) - 1
        if number < 0 or offset + length > self._starts[-1] or length < 0:
            raise CorruptFileError(self.path, f"asks for {length} bytes outside its data", offset)
        start, stop = self._starts[number : number + 2] if length else (offset, offset)
        if offset + length > stop:
            raise CorruptFileError(self.path, f"asks for {length} bytes across blocks", offset)
        first = (offset - start) // self._stripe_bytes
        last = -(-(offset + length - start) // self._stripe_bytes)
        low = start + first * self._stripe_bytes
        high = min(stop, start + last * self._stripe_bytes)
        stripe = self._first_stripes[number]
        data = self._read_checked(low, high, stripe + first, stripe + last)
        return data if data.size == length else data.slice(offset - low, length)

    def verify(self) -> None:
        """Read and check everything, a bounded piece at a time."""
        for number in range(len(self._starts) - 1):
            offset, stop = self._starts[number : number + 2]
            step = 64 * self._stripe_bytes
            for low in range(offset, stop, step):
                self.read(low, min(step, stop - low))

    def _read_checked(self, low: int, high: int, first: int, last: int) -> pa.Buffer:
        """The bytes [low, high), which are the stripes from `first` to before `last`."""
        expected = self._checksums[CHECKSUM_BYTES * first : CHECKSUM_BYTES * last]
        check = StripeCheck(self.path, self._file_id, self._stripe_bytes, expected)
        return self._source.read_checked(low, high - low, check)


def file_id_of(path: str) -> bytes:
    """What a file's checksums are bound to: its name without directories."""
    return path.rpartition("/")[2].encode()
