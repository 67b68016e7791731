from collections.abc import Callable
from typing import Any, final

from typing_extensions import Buffer

from lsmerge_native.gather import BatchView

@final
class BlockShape:
    def __init__(
        self,
        schema: Any,
        nodes: list[int],
        buffers: list[int],
        importer: Callable[[int, Any], Any],
    ) -> None: ...
    def read(
        self,
        num_rows: int,
        nodes: tuple[int, ...],
        buffers: tuple[int, ...],
        body_start: int,
        pieces: list[tuple[int, Buffer]],
    ) -> BatchView: ...
    def joined(
        self, num_rows: int, nodes: tuple[int, ...], unpacked: list[Buffer | None]
    ) -> BatchView: ...
