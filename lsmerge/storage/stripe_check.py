"""What the stripes of a range of a file must add up to, for whoever reads it."""

from typing import NamedTuple

import pyarrow as pa

from lsmerge.errors import CorruptFileError
from lsmerge.storage.objects import Buffer
from lsmerge_native.checksum import first_bad_stripe


class StripeCheck(NamedTuple):
    """The checksums of whole stripes, in the order in which they lie in the file."""

    path: str
    file_id: bytes
    stripe_bytes: int
    expected: Buffer

    def require(self, data: pa.Buffer, offset: int) -> None:
        """Raises CorruptFileError unless `data`, which begins at `offset` of the file, is what was written."""
        bad = first_bad_stripe(data, self.file_id, offset, self.stripe_bytes, self.expected)
        if bad >= 0:
            raise self.refusal(offset, bad)

    def refusal(self, offset: int, stripe: int) -> CorruptFileError:
        """What to say of a stripe of the range at `offset`."""
        return CorruptFileError(
            self.path,
            "the checksum does not fit; restore the file from a copy",
            offset + stripe * self.stripe_bytes,
        )
