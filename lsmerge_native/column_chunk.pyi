from typing import Any, Self, final

from lsmerge_native.buffers import NativeBuffer

@final
class ValueShape:
    def __new__(
        cls, stored_bytes: int, item_bytes: int, is_whole: bool, is_nullable: bool
    ) -> Self: ...

def decode_chunk(
    data: Any, codec: Any, shape: ValueShape, rows: int, most_bytes: int
) -> tuple[NativeBuffer | None, NativeBuffer | None, NativeBuffer, int] | None: ...
