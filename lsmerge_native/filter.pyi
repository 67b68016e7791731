from collections.abc import Sequence

from typing_extensions import Buffer

from lsmerge_native.buffers import NativeBuffer

def build_filter(hashes: Sequence[Buffer], bits_per_key: int = 10) -> NativeBuffer: ...
def probe_filter(filter_bytes: Buffer, hashes: Buffer) -> NativeBuffer: ...
