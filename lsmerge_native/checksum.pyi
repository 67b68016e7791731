from typing_extensions import Buffer

from lsmerge_native.buffers import NativeBuffer

def crc32c(data: Buffer, seed: int = 0) -> int: ...
def testing_crc32c_ways() -> int: ...
def testing_crc32c(data: Buffer, seed: int, way: int) -> int: ...
def stripe_checksums(
    data: Buffer, file_id: bytes, first_offset: int, stripe_bytes: int
) -> NativeBuffer: ...
def first_bad_stripe(
    data: Buffer, file_id: bytes, first_offset: int, stripe_bytes: int, expected: Buffer
) -> int: ...
def read_stripes(
    descriptor: int,
    into: Buffer,
    file_id: bytes,
    first_offset: int,
    stripe_bytes: int,
    expected: Buffer,
) -> int: ...
