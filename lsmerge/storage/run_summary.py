"""The two values that go with a run file: how it is to be written, and what was written."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunFormat:
    """How a run is to be written.

    `format` is "arrow" or "parquet"; `compression` is "none", "lz4" or "zstd", and only the last
    heeds `compression_level` (None: the codec's default); `filter_bits_per_key` 0 writes no filter.
    `has_bounds` False leaves the bounds of all columns but the sequence number unknown.
    """

    format: str = "arrow"
    compression: str = "none"
    compression_level: int | None = None
    block_size_bytes: int = 1 << 20
    max_block_rows: int = 65536
    filter_bits_per_key: int = 10
    has_bounds: bool = True


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What must be known of a run file to read it; sequence numbers are as stored in the file.

    `index_offset` and `tail_crc` say where the tail (index section and footer) begins and what its
    checksum is.
    """

    name: str
    format: str
    size_bytes: int
    index_offset: int
    tail_crc: int
    num_rows: int
    num_retracts: int
    min_key: bytes
    max_key: bytes
    sequence_min: int
    sequence_max: int
