from collections.abc import Sequence
from typing import Any

from typing_extensions import Buffer

from lsmerge_native.buffers import NativeBuffer

def murmur3(arrays: Sequence[Any], seed: int = 42) -> NativeBuffer: ...
def bucket_ids(arrays: Sequence[Any], num_buckets: int) -> NativeBuffer: ...
def group_ids(ids: Buffer, num_ids: int) -> tuple[NativeBuffer, NativeBuffer]: ...
